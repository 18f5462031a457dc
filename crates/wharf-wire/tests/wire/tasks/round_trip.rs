//! Tasks: the client decodes what the server encodes.

use proptest::{collection::vec, option, prelude::*};
use wharf_model::{
    ClientRequest, ElicitForm, Error, ErrorKind, Method, Notification, Outcome, Reply,
    RequestBuilder, TaskRequest, TaskStatus, ToolResult,
};
use wharf_wire::{CallId, ServerMessage};

use super::*;

/// Maximum milliseconds of years with four digits.
const LATEST: u64 = 253_402_300_799_999;

fn state() -> impl Strategy<Value = TaskState> {
    let kinds = prop::sample::select(ErrorKind::ALL.to_vec());
    prop_oneof![
        Just(TaskState::Working),
        Just(TaskState::Cancelled),
        (any::<String>(), any::<bool>()).prop_map(|(text, is_error)| {
            let result = if is_error { ToolResult::error(text) } else { ToolResult::text(text) };
            TaskState::Completed(result.with_meta("com.example/k", 1).into())
        }),
        (kinds, any::<String>()).prop_map(|(kind, said)| {
            TaskState::Failed(Error::new(kind).with_message(said).into())
        }),
        vec(any::<String>(), 0..4).prop_map(|keys| {
            let mut asked: Vec<(String, ClientRequest)> = Vec::new();
            for key in keys {
                let form = ElicitForm::new(key.clone(), json!({"type": "object"}));
                if asked.iter().all(|it| it.0 != key) {
                    asked.push((key, ClientRequest::Elicit(Box::new(form))));
                }
            }
            TaskState::InputRequired(asked)
        }),
    ]
}

fn any_task() -> impl Strategy<Value = Task> {
    let id =
        any::<String>().prop_filter("ids have some letters", |it| !it.is_empty() && it.len() < 256);
    let times = (0..LATEST, 0..LATEST, option::of(any::<u64>()), option::of(any::<u64>()));
    (id, state(), option::of(any::<String>()), times).prop_map(|(id, state, message, times)| {
        let mut task = Task::new(id, Timestamp::from_millis(times.0));
        (task.state, task.message) = (state, message);
        task.updated_at = Timestamp::from_millis(times.1);
        (task.ttl, task.poll_interval) = (times.2, times.3);
        task
    })
}

/// Returns the text of the result in a reply, as written.
fn result_in(out: &[u8]) -> &str {
    let text = std::str::from_utf8(out).unwrap();
    let start = text.find("\"result\":").unwrap() + "\"result\":".len();
    &text[start..text.len() - 1]
}

fn round_trip(version: &str, method: Method, params: Value, outcome: &Outcome) -> Outcome {
    let mut out = Vec::new();
    codec_of(version, method.name(), params).encode(outcome, &mut out);
    parse(&out);
    client_codec(revision(version)).result(method, result_in(&out)).unwrap()
}

/// Returns the task that is expected after a round trip.
fn expected_task(mut task: Task, version: &str, whole: bool) -> Task {
    let text = match &task.state {
        TaskState::Failed(error) => wharf_model::excerpt(&error.message).into_owned(),
        _ => String::new(),
    };
    let as_result = matches!(&task.state, TaskState::Failed(error)
        if error.kind.is_tool_result() || error.kind == ErrorKind::InvalidToolArguments);
    let failed = |said: &str| {
        TaskState::Failed(Error::new(ErrorKind::TaskFailed).with_message(said.to_owned()).into())
    };
    match (&mut task.state, version == MODERN) {
        (TaskState::Failed(error), true) if as_result => {
            task.state = TaskState::Completed(ToolResult::error(&*error.message).into());
        }
        (TaskState::Failed(_), _) => task.message = task.message.or(Some(text)),
        (TaskState::Completed(result), false) if result.is_error => {
            let said = match &result.content[0] {
                wharf_model::Content::Text(it) => it.text.trim().to_owned(),
                other => panic!("{other:?}"),
            };
            let said = if said.is_empty() { "Tool execution failed".into() } else { said };
            task.message = task.message.or(Some(wharf_model::excerpt(&said).into_owned()));
            task.state = failed("");
        }
        _ => {}
    }
    if version == MODERN && whole {
        return task;
    }
    task.state = match task.status() {
        TaskStatus::InputRequired => TaskState::InputRequired(vec![]),
        TaskStatus::Completed => TaskState::Completed(ToolResult::default().into()),
        TaskStatus::Failed => failed(task.message.as_deref().unwrap_or_default()),
        _ => task.state,
    };
    task
}

/// Errors are read back as the same kind with the same message, and data with the kind.
fn assert_same(read: Task, expected: Task) {
    let (mut read, mut expected) = (read, expected);
    if let (TaskState::Failed(one), TaskState::Failed(other)) =
        (&mut read.state, &mut expected.state)
    {
        assert_eq!(one.message, other.message);
        if other.kind != ErrorKind::RequestCancelled {
            assert_eq!(one.kind, other.kind);
        }
        read.state = TaskState::Cancelled;
        expected.state = TaskState::Cancelled;
    }
    assert_eq!(read, expected);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn tasks_are_read_back(task in any_task()) {
        for version in [TASK_PARAM_REVISION, MODERN] {
            let reply = Outcome::Complete(Reply::Task(Box::new(task.clone())));
            let params = json!({"taskId": task.id});
            let Outcome::Complete(Reply::Task(read)) = round_trip(version, Method::GetTask, params.clone(), &reply) else { panic!() };
            assert_same(*read, expected_task(task.clone(), version, true));
        }
    }

    #[test]
    fn handles_are_read_back(task in any_task()) {
        for version in [TASK_PARAM_REVISION, MODERN] {
            let mut out = Vec::new();
            task_call_codec(version).encode(&Outcome::Task(Box::new(task.clone())), &mut out);
            let Ok(Outcome::Task(read)) = client_codec(revision(version)).result(Method::CallTool, result_in(&out)) else { panic!() };
            assert_same(*read, expected_task(task.clone(), version, false));
        }
    }

    #[test]
    fn lists_of_tasks_are_read_back(tasks in vec(any_task(), 0..4), next in option::of(any::<String>())) {
        let reply = Outcome::Complete(Reply::TaskList { tasks: tasks.clone(), next: next.clone() });
        let Outcome::Complete(Reply::TaskList { tasks: read, next: after }) = round_trip(TASK_PARAM_REVISION, Method::ListTasks, json!({}), &reply) else { panic!() };
        prop_assert_eq!(after, next);
        prop_assert_eq!(read.len(), tasks.len());
        for (read, task) in read.into_iter().zip(tasks) {
            assert_same(read, expected_task(task, TASK_PARAM_REVISION, false));
        }
    }

    #[test]
    fn results_of_tasks_are_read_back(id in "[^\u{0}]{1,60}", text in any::<String>(), is_error in any::<bool>()) {
        let result = if is_error { ToolResult::error(text) } else { ToolResult::text(text) };
        for result in [result.clone(), result.with_meta("com.example/k", 1)] {
            let read = round_trip(TASK_PARAM_REVISION, Method::TaskResult, json!({"taskId": id}), &result.clone().into());
            let Outcome::Complete(Reply::Tool(read)) = read else { panic!() };
            prop_assert_eq!(read, result);
        }
    }

    #[test]
    fn notifications_are_read_back(task in any_task()) {
        let ready = notification("notifications/initialized", json!({}));
        let listen = json!({"notifications": {"taskIds": [task.id]}});
        for version in [TASK_PARAM_REVISION, MODERN] {
            let codec = match version == MODERN {
                true => codec_of(MODERN, "subscriptions/listen", listen.clone()),
                false => call(receive(&mut session(version), &ready)).1,
            };
            let mut out = Vec::new();
            assert!(codec.notify(&Notification::Task(Box::new(task.clone())), &mut out));
            let mut heard = client_codec(revision(version)).decode(out.into()).unwrap();
            let Some(ServerMessage::ServerNotification(heard)) = heard.pop() else { panic!() };
            prop_assert_eq!(heard.subscription.is_some(), version == MODERN);
            let Notification::Task(read) = heard.notification else { panic!() };
            assert_same(*read, expected_task(task.clone(), version, true));
        }
    }

    #[test]
    fn calls_about_tasks_are_read_back(id in any::<String>(), ttl in option::of(any::<u64>())) {
        prop_assume!(id.len() <= 256);
        let methods = [Method::GetTask, Method::UpdateTask, Method::CancelTask, Method::TaskResult];
        for (method, version) in methods.into_iter().flat_map(|it| [(it, TASK_PARAM_REVISION), (it, MODERN)]) {
            let request = RequestBuilder::new(method).target(&id).input_responses("{\"a\":1}").build();
            let mut out = Vec::new();
            if client_codec(revision(version)).call(&request, &CallId::from(1), &mut out).is_ok() {
                let (read, _) = call(session(TASK_PARAM_REVISION).receive(out.into()));
                prop_assert_eq!((read.method, read.target()), (method, request.target()));
                prop_assert_eq!(read.input_responses().is_some(), version == MODERN);
            }
        }
        let mut request = RequestBuilder::new(Method::CallTool).target("t").build();
        request.tasking = TaskRequest::Wanted(ttl);
        let mut out = Vec::new();
        client_codec(revision(TASK_PARAM_REVISION)).call(&request, &CallId::from(1), &mut out).unwrap();
        prop_assert_eq!(call(session(TASK_PARAM_REVISION).receive(out.into())).0.tasking, TaskRequest::Wanted(ttl));
    }
}
