//! What sessions and listens hear of tasks.

use serde_json::value::RawValue;
use wharf_model::{
    ChangeVersion, Error, ErrorKind, LiveSubscriptionFilter, Notification, Outcome, Request,
    ToolResult,
};
use wharf_wire::ProtocolLimits;

use super::*;

fn ready() -> Value {
    notification("notifications/initialized", json!({}))
}

fn tool(task: Value) -> Value {
    request(1, "tools/call", json!({"name": "t", "task": task}))
}

/// Lets a call of this session become a task with this id.
fn begin(connection: &mut Connection, id: &str) {
    let (_, codec) = call(receive(connection, &tool(json!({}))));
    begin_by(&codec, id);
}

fn begin_by(codec: &Codec, id: &str) {
    let mut task = task(TaskState::Working);
    task.id = id.into();
    encoded(codec, Outcome::Task(Box::new(task)));
}

fn filter(request: &Request) -> LiveSubscriptionFilter {
    request.filter.clone().unwrap()
}

fn followed(filter: &LiveSubscriptionFilter) -> Vec<String> {
    filter.read(|filter| filter.tasks.iter().cloned().collect())
}

fn tell(codec: &Codec, notification: &Notification) -> Option<Value> {
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
fn a_session_hears_of_its_tasks_until_they_end() {
    let mut connection = session(ASKED);
    let (request, listen) = call(receive(&mut connection, &ready()));
    let filter = filter(&request);
    assert_eq!(request.tasking, wharf_model::TaskRequest::Welcome);
    begin(&mut connection, "1");
    begin(&mut connection, "2");
    assert_eq!(followed(&filter), ["1", "2"]);
    let mut one = task(TaskState::InputRequired(vec![]));
    one.id = "1".into();
    let told = tell(&listen, &Notification::Task(Box::new(one.clone()))).unwrap();
    let expected = with(fields(ASKED, "input_required"), json!({"taskId": "1"}));
    assert_eq!(
        told,
        json!({"jsonrpc": "2.0", "method": "notifications/tasks/status", "params": expected})
    );
    assert_eq!(followed(&filter), ["1", "2"]);
    one.state = TaskState::Completed(ToolResult::error("no").into());
    let told = tell(&listen, &Notification::Task(Box::new(one))).unwrap();
    assert_eq!(told["params"]["status"], "failed");
    assert_eq!(followed(&filter), ["2"]);
}

#[test]
fn what_is_over_at_once_or_no_task_is_not_followed() {
    let mut connection = session(ASKED);
    let filter = filter(&call(receive(&mut connection, &ready())).0);
    let (_, codec) = call(receive(&mut connection, &tool(json!({}))));
    encoded(&codec, Outcome::Task(Box::new(task(TaskState::Cancelled))));
    let (_, codec) = call(receive(&mut connection, &tool(json!({}))));
    encoded(&codec, Error::new(ErrorKind::TaskForbidden));
    let (_, codec) = call(receive(&mut connection, &tool(json!({}))));
    encoded(&codec, ToolResult::text("x"));
    assert!(followed(&filter).is_empty());
}

#[test]
fn a_task_makes_a_listen_due_that_was_put_off() {
    for early in [true, false] {
        let mut connection = session(ASKED);
        // A call that came before the client was ready must not be forgotten.
        let before = early.then(|| call(receive(&mut connection, &tool(json!({})))).1);
        call(receive(&mut connection, &ready()));
        connection.put_off_listen(ChangeVersion::FIRST);
        let codec = before.unwrap_or_else(|| {
            assert!(connection.due_listen(false).is_none());
            call(receive(&mut connection, &request(1, "tools/call", json!({"name": "t"}))));
            assert!(connection.due_listen(false).is_none(), "no task is wanted");
            call(receive(&mut connection, &tool(json!({})))).1
        });
        let (request, _) = connection.due_listen(false).unwrap();
        begin_by(&codec, "1");
        assert_eq!(followed(&filter(&request)), ["1"]);
        assert!(connection.due_listen(true).is_none(), "it begins once");
    }
}

#[test]
fn a_session_follows_so_many_tasks_and_no_more() {
    let limits = ProtocolLimits { subscriptions: 2, ..ProtocolLimits::default() };
    let mut connection = Connection::new(std::sync::Arc::new(wire().limits(limits)));
    open_with(&mut connection, ASKED, json!({}), offered());
    let filter = filter(&call(receive(&mut connection, &ready())).0);
    for id in ["1", "2", "3"] {
        begin(&mut connection, id);
    }
    assert_eq!(followed(&filter), ["1", "2"]);
}

#[test]
fn progress_of_a_task_goes_on_under_its_token() {
    let mut connection = session(ASKED);
    let (_, listen) = call(receive(&mut connection, &ready()));
    assert_eq!(
        tell(&listen, &progress()).unwrap(),
        json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {
            "progressToken": "tok\"en", "progress": 0.5, "total": 2, "message": "half",
            "_meta": {RELATED: {"taskId": "a\"b"}},
        }})
    );
    let Notification::TaskProgress { id, token, total, message, .. } = progress() else { panic!() };
    let endless = Notification::TaskProgress { id, token, progress: f64::NAN, total, message };
    assert!(tell(&listen, &endless).is_none());
}

#[test]
fn only_a_listen_hears_of_tasks() {
    let told = Notification::Task(Box::new(task(TaskState::Working)));
    for version in LEGACY {
        let mut connection = session(version);
        let (_, listen) = call(receive(&mut connection, &ready()));
        assert_eq!(tell(&listen, &told).is_some(), version == ASKED, "{version}");
        assert_eq!(tell(&listen, &progress()).is_some(), version == ASKED, "{version}");
        let params = json!({"name": "t", "_meta": {"progressToken": 1}});
        let codec = codec_of(version, "tools/call", params);
        assert!(tell(&codec, &told).is_none() && tell(&codec, &progress()).is_none());
    }
    let codec = codec_of(ASKED, "tasks/result", json!({"taskId": "1"}));
    assert!(tell(&codec, &told).is_none() && tell(&codec, &progress()).is_none());
    let codec = codec_of(MODERN, "tools/call", json!({"name": "t", "_meta": {"progressToken": 1}}));
    assert!(tell(&codec, &told).is_none() && tell(&codec, &progress()).is_none());
    let listen = codec_of(MODERN, "subscriptions/listen", json!({"notifications": {}}));
    assert!(tell(&listen, &told).is_some());
    assert!(tell(&listen, &progress()).is_none(), "progress is in the status message");
}

#[test]
fn a_listen_says_of_which_tasks_it_will_tell() {
    let listen = codec_of(MODERN, "subscriptions/listen", json!({"notifications": {}}));
    let agreed =
        wharf_model::SubscriptionFilter { tasks: ["1".to_owned()].into(), ..Default::default() };
    let told = tell(&listen, &Notification::Acknowledged(agreed)).unwrap();
    assert_eq!(told["params"]["notifications"], json!({"taskIds": ["1"]}));
}
