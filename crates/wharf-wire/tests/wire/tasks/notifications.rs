//! Task notifications of sessions and subscriptions.

use serde_json::value::RawValue;
use wharf_model::{
    ChangeVersion, Error, ErrorKind, LiveSubscriptionFilter, Notification, Outcome, Request,
    ToolResult,
};
use wharf_wire::MessageLimits;

use super::*;

fn initialized() -> Value {
    notification("notifications/initialized", json!({}))
}

fn tool(task: Value) -> Value {
    request(1, "tools/call", json!({"name": "t", "task": task}))
}

/// Turns a call of this session into a task with this id.
fn start_task(connection: &mut Connection, id: &str) {
    let (_, codec) = call(receive(connection, &tool(json!({}))));
    encode_task_created(&codec, id);
}

fn encode_task_created(codec: &Codec, id: &str) {
    let mut task = task(TaskState::Working);
    task.id = id.into();
    encoded(codec, Outcome::Task(Box::new(task)));
}

fn filter(request: &Request) -> LiveSubscriptionFilter {
    request.filter.clone().unwrap()
}

fn followed_tasks(filter: &LiveSubscriptionFilter) -> Vec<String> {
    filter.read(|filter| filter.tasks.iter().cloned().collect())
}

fn encode_notification(codec: &Codec, notification: &Notification) -> Option<Value> {
    let mut out = Vec::new();
    let told = codec.notify(notification, &mut out);
    assert_eq!(told, !out.is_empty());
    told.then(|| parse(&out))
}

fn progress() -> Notification {
    Notification::TaskProgress {
        id: "a\"b".into(),
        token: RawValue::from_string("\"tok\\\"en\"".into()).unwrap(),
        progress: 0.5,
        total: Some(2.0),
        message: Some("half".into()),
    }
}

#[test]
fn a_session_gets_notifications_of_its_tasks_until_they_end() {
    let mut connection = session(TASK_PARAM_REVISION);
    let (request, listen) = call(receive(&mut connection, &initialized()));
    let filter = filter(&request);
    assert_eq!(request.tasking, wharf_model::TaskRequest::Welcome);
    start_task(&mut connection, "1");
    start_task(&mut connection, "2");
    assert_eq!(followed_tasks(&filter), ["1", "2"]);
    let mut one = task(TaskState::InputRequired(vec![]));
    one.id = "1".into();
    let told = encode_notification(&listen, &Notification::Task(Box::new(one.clone()))).unwrap();
    let expected = with(fields(TASK_PARAM_REVISION, "input_required"), json!({"taskId": "1"}));
    assert_eq!(
        told,
        json!({"jsonrpc": "2.0", "method": "notifications/tasks/status", "params": expected})
    );
    assert_eq!(followed_tasks(&filter), ["1", "2"]);
    one.state = TaskState::Completed(ToolResult::error("no").into());
    let told = encode_notification(&listen, &Notification::Task(Box::new(one))).unwrap();
    assert_eq!(told["params"]["status"], "failed");
    assert_eq!(followed_tasks(&filter), ["2"]);
}

#[test]
fn a_task_that_ended_or_was_not_created_is_not_followed() {
    let mut connection = session(TASK_PARAM_REVISION);
    let filter = filter(&call(receive(&mut connection, &initialized())).0);
    let (_, codec) = call(receive(&mut connection, &tool(json!({}))));
    encoded(&codec, Outcome::Task(Box::new(task(TaskState::Cancelled))));
    let (_, codec) = call(receive(&mut connection, &tool(json!({}))));
    encoded(&codec, Error::new(ErrorKind::TaskForbidden));
    let (_, codec) = call(receive(&mut connection, &tool(json!({}))));
    encoded(&codec, ToolResult::text("x"));
    assert!(followed_tasks(&filter).is_empty());
}

#[test]
fn a_task_makes_a_postponed_listen_due() {
    for early in [true, false] {
        let mut connection = session(TASK_PARAM_REVISION);
        // A call that came before the client was ready must not be lost.
        let before = early.then(|| call(receive(&mut connection, &tool(json!({})))).1);
        call(receive(&mut connection, &initialized()));
        connection.postpone_listen(ChangeVersion::FIRST);
        let codec = before.unwrap_or_else(|| {
            assert!(connection.due_listen(false).is_none());
            call(receive(&mut connection, &request(1, "tools/call", json!({"name": "t"}))));
            assert!(connection.due_listen(false).is_none(), "no task is wanted");
            call(receive(&mut connection, &tool(json!({})))).1
        });
        let (request, _) = connection.due_listen(false).unwrap();
        encode_task_created(&codec, "1");
        assert_eq!(followed_tasks(&filter(&request)), ["1"]);
        assert!(connection.due_listen(true).is_none(), "it begins once");
    }
}

#[test]
fn the_number_of_followed_tasks_is_limited() {
    let limits = MessageLimits::default().subscriptions(2);
    let mut connection = Connection::new(std::sync::Arc::new(wire().limits(limits)));
    open_with(&mut connection, TASK_PARAM_REVISION, json!({}), discovery_with_tasks());
    let filter = filter(&call(receive(&mut connection, &initialized())).0);
    for id in ["1", "2", "3"] {
        start_task(&mut connection, id);
    }
    assert_eq!(followed_tasks(&filter), ["1", "2"]);
}

#[test]
fn task_progress_keeps_the_progress_token_of_its_call() {
    let mut connection = session(TASK_PARAM_REVISION);
    let (_, listen) = call(receive(&mut connection, &initialized()));
    assert_eq!(
        encode_notification(&listen, &progress()).unwrap(),
        json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {
            "progressToken": "tok\"en", "progress": 0.5, "total": 2, "message": "half",
            "_meta": {RELATED: {"taskId": "a\"b"}},
        }})
    );
    let Notification::TaskProgress { id, token, total, message, .. } = progress() else { panic!() };
    let endless = Notification::TaskProgress { id, token, progress: f64::NAN, total, message };
    assert!(encode_notification(&listen, &endless).is_none());
}

#[test]
fn only_a_listen_gets_task_notifications() {
    let told = Notification::Task(Box::new(task(TaskState::Working)));
    for version in LEGACY {
        let mut connection = session(version);
        let (_, listen) = call(receive(&mut connection, &initialized()));
        assert_eq!(
            encode_notification(&listen, &told).is_some(),
            version == TASK_PARAM_REVISION,
            "{version}"
        );
        assert_eq!(
            encode_notification(&listen, &progress()).is_some(),
            version == TASK_PARAM_REVISION,
            "{version}"
        );
        let params = json!({"name": "t", "_meta": {"progressToken": 1}});
        let codec = codec_of(version, "tools/call", params);
        assert!(
            encode_notification(&codec, &told).is_none()
                && encode_notification(&codec, &progress()).is_none()
        );
    }
    let codec = codec_of(TASK_PARAM_REVISION, "tasks/result", json!({"taskId": "1"}));
    assert!(
        encode_notification(&codec, &told).is_none()
            && encode_notification(&codec, &progress()).is_none()
    );
    let codec = codec_of(MODERN, "tools/call", json!({"name": "t", "_meta": {"progressToken": 1}}));
    assert!(
        encode_notification(&codec, &told).is_none()
            && encode_notification(&codec, &progress()).is_none()
    );
    let listen = codec_of(MODERN, "subscriptions/listen", json!({"notifications": {}}));
    assert!(encode_notification(&listen, &told).is_some());
    assert!(
        encode_notification(&listen, &progress()).is_none(),
        "progress is in the status message"
    );
}

#[test]
fn a_listen_acknowledges_its_tasks() {
    let listen = codec_of(MODERN, "subscriptions/listen", json!({"notifications": {}}));
    let agreed = wharf_model::SubscriptionFilter::default().tasks(["1".to_owned()]);
    let told = encode_notification(&listen, &Notification::Acknowledged(agreed)).unwrap();
    assert_eq!(told["params"]["notifications"], json!({"taskIds": ["1"]}));
}
