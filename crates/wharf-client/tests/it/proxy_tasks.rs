//! Tasks behind a proxy.

use std::{future::poll_fn, sync::Arc, task::Poll};

use crate::support::{FakeTransport, SECOND, caller, scripted_tasks::*};
use serde_json::json;
use wharf_model::{
    ActiveCall, ClientCapabilities, ClientRequest, Deadlines, ElicitationCapability, Error,
    ErrorKind, Event, InputMode, LiveSubscriptionFilter, Method, Notification, Outcome, Peer,
    Reply, Request, RequestBuilder, Service, SubscriptionFilter, TaskRequest, TaskState,
    ToolResult,
};
use wharf_testbed::TokioTimer;

fn request(asks: InputMode, tasking: TaskRequest) -> Request {
    let mut request = RequestBuilder::new(Method::CallTool).target("slow").build();
    request.asks = asks;
    request.tasking = tasking;
    let elicitation = ElicitationCapability::default().form(true);
    let can = ClientCapabilities::default().elicitation(elicitation);
    request.from_peer(Arc::new(Peer::new(None, can)))
}

/// A downstream client that declines every request.
async fn front(relay: &dyn Service, request: Request) -> (Outcome, usize) {
    let deadlines = Deadlines::NONE.idle(Some(30 * SECOND));
    let mut exchange = ActiveCall::start(relay, request, Arc::new(TokioTimer), deadlines);
    let mut asked = 0;
    loop {
        match poll_fn(|cx| exchange.poll_event(cx)).await {
            Event::ClientRequest(id, _) => {
                asked += 1;
                exchange.response_sender().deliver(id, Ok(r#"{"action":"decline"}"#.into()));
            }
            Event::Done(outcome) => return (outcome, asked),
            _ => {}
        }
    }
}

fn text(outcome: &Outcome) -> &str {
    match outcome {
        Outcome::Complete(Reply::Tool(result)) => result.content[0].as_text().unwrap(),
        other => panic!("{other:?}"),
    }
}

fn task_requests(transport: &FakeTransport) -> Vec<TaskRequest> {
    let calls = transport.sent().into_iter().filter(|it| it.method == Method::CallTool);
    calls.map(|it| it.tasking).collect()
}

fn tool(support: &str) -> serde_json::Value {
    json!({"name": "slow", "inputSchema": {"type": "object"},
        "execution": {"taskSupport": support}})
}

#[tokio::test(start_paused = true)]
async fn a_client_with_the_same_dialect_gets_the_task() {
    for (is_shown, tasking) in [(true, TaskRequest::Welcome), (false, TaskRequest::Wanted(Some(5)))]
    {
        for asks in [InputMode::Deliver, InputMode::Suspend] {
            let states = [working("on")];
            let task_server = if is_shown {
                FakeTaskServer::extension(states)
            } else {
                FakeTaskServer::legacy(states)
            };
            let transport = task_server.transport();
            let relay = caller(&transport).relay();
            let (outcome, _) = front(&*relay, request(asks, tasking)).await;
            assert!(matches!(outcome, Outcome::Task(task) if task.id == "t-1"));
            assert_eq!(task_requests(&transport), [tasking]);
            let get = RequestBuilder::new(Method::GetTask).target("t-1").build();
            let (outcome, _) = front(&*relay, get).await;
            assert!(matches!(outcome, Outcome::Complete(Reply::Task(task)) if task.id == "t-1"));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn any_other_client_gets_the_result() {
    for tasking in [TaskRequest::Unknown, TaskRequest::Declined, TaskRequest::Wanted(None)] {
        // Longer than the idle timeout of the downstream client.
        let states = (0..100).map(|_| working("on")).chain([completed("done")]);
        let transport = FakeTaskServer::extension(states).transport();
        let (outcome, _) =
            front(&*caller(&transport).relay(), request(InputMode::Deliver, tasking)).await;
        assert_eq!(text(&outcome), "done");
        assert_eq!(task_requests(&transport), [TaskRequest::Welcome]);
    }
}

#[tokio::test(start_paused = true)]
async fn input_requests_of_a_task_go_to_a_waiting_client() {
    let transport =
        FakeTaskServer::extension([asking(&[("a", "?"), ("b", "??")]), completed("done")])
            .transport();
    let relay = caller(&transport).relay();
    let (outcome, asked) = front(&*relay, request(InputMode::Deliver, TaskRequest::Unknown)).await;
    assert_eq!((text(&outcome), asked), ("done", 2));
    let declined = json!({"action": "decline"});
    let brought = json!({"taskId": "t-1", "inputResponses": {"a": declined, "b": declined}});
    assert_eq!(transport.of(Method::UpdateTask), [brought]);
}

#[tokio::test(start_paused = true)]
async fn input_requests_of_a_task_go_to_a_client_that_retries() {
    let states = (0..3).map(|_| asking(&[("a", "?")])).chain([completed("done")]);
    let transport = FakeTaskServer::extension(states).transport();
    let relay = caller(&transport).relay();
    let (outcome, _) = front(&*relay, request(InputMode::Suspend, TaskRequest::Declined)).await;
    let Outcome::InputRequired(required) = outcome else { panic!("{outcome:?}") };
    let [(key, ClientRequest::Elicit(_))] = &required.requests[..] else { panic!("{required:?}") };
    let responses = json!({key: {"action": "decline"}}).to_string();
    let again = RequestBuilder::new(Method::CallTool).target("slow").input_responses(&responses);
    let mut again = again.request_state(required.state.as_deref().unwrap()).build();
    again.tasking = TaskRequest::Declined;
    let (outcome, _) = front(&*relay, again).await;
    assert_eq!(text(&outcome), "done");
    assert_eq!(transport.of(Method::CallTool).len(), 1);
    assert_eq!(transport.of(Method::UpdateTask).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_task_only_tool_is_called_as_a_task_by_the_proxy() {
    let transport = FakeTaskServer::legacy([asking(&[]), completed("")])
        .result_after(async |outbox| {
            let answer = outbox.ask(ClientRequest::Roots).await.unwrap();
            Reply::Tool(ToolResult::text(answer)).into()
        })
        .transport();
    transport.lists(tool("required"));
    transport.refuse_plain_calls(Error::new(ErrorKind::MethodNotFound));
    let relay = caller(&transport).relay();
    let (outcome, asked) = front(&*relay, request(InputMode::Deliver, TaskRequest::Welcome)).await;
    assert_eq!((text(&outcome), asked), (r#"{"action":"decline"}"#, 1));
    assert_eq!(task_requests(&transport), [TaskRequest::Declined, TaskRequest::Wanted(None)]);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_disconnects_cancels_the_task_followed_for_it() {
    let transport = FakeTaskServer::extension([]).always_works().transport();
    let relay = caller(&transport).relay();
    let call = front(&*relay, request(InputMode::Deliver, TaskRequest::Unknown));
    assert!(tokio::time::timeout(5 * SECOND, call).await.is_err());
    tokio::time::sleep(SECOND).await;
    assert_eq!(transport.of(Method::CancelTask).len(), 1);
    // Its own task continues.
    let (outcome, _) = front(&*relay, request(InputMode::Deliver, TaskRequest::Welcome)).await;
    assert!(matches!(outcome, Outcome::Task(task) if task.state == TaskState::Working));
    tokio::time::sleep(SECOND).await;
    assert_eq!(transport.of(Method::CancelTask).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn tasks_result_has_no_deadline() {
    let transport = FakeTaskServer::legacy([])
        .result_after(async |_| {
            tokio::time::sleep(3600 * SECOND).await;
            Reply::Tool(ToolResult::text("at last")).into()
        })
        .transport();
    let wait = RequestBuilder::new(Method::TaskResult).target("t-1").build();
    let (outcome, _) = front(&*caller(&transport).relay(), wait).await;
    assert_eq!(text(&outcome), "at last");
}

#[tokio::test(start_paused = true)]
async fn a_client_receives_progress_with_its_own_token() {
    let transport = FakeTaskServer::legacy([working("on")]).progress(7.0).transport();
    let relay = caller(&transport).relay();
    let mut call = RequestBuilder::new(Method::CallTool)
        .target("slow")
        .meta(r#"{"progressToken":"of the front"}"#)
        .build();
    (call.tasking, call.progress) = (TaskRequest::Wanted(None), true);
    let listen = || {
        let mut listen = RequestBuilder::new(Method::Listen).build();
        listen.filter = Some(LiveSubscriptionFilter::new(
            SubscriptionFilter::default().tasks(["t-1".to_owned()]),
        ));
        let endless = Deadlines::NONE;
        ActiveCall::start(&*relay, listen, Arc::new(TokioTimer), endless)
    };
    // Progress with a foreign token is dropped.
    let mut early = listen();
    assert!(poll_fn(|cx| Poll::Ready(early.poll_event(cx))).await.is_pending());
    assert!(matches!(front(&*relay, call).await.0, Outcome::Task(_)));
    let mut listening = listen();
    let Event::Notify(Notification::TaskProgress { token, progress, .. }) =
        poll_fn(|cx| listening.poll_event(cx)).await
    else {
        panic!("nothing was heard")
    };
    assert_eq!((token.get(), progress), (r#""of the front""#, 7.0));
}
