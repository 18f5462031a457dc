//! The proxy.

use std::{
    future::poll_fn,
    sync::{Arc, Mutex},
    task::Poll,
};

use crate::support::{FakeTransport, caller, names, page, required, tool, tools};
use serde_json::{Value, json};
use wharf_model::{
    ActiveCall, ClientCapabilities, ClientRequest, Deadlines, Error, Event, InputMode,
    LiveSubscriptionFilter, LogLevel, Method, Notification, Outbox, Outcome, Peer, Principal,
    Reply, Request, RequestBuilder, RootsCapability, Service, SubscriptionFilter, ToolInfo,
    ToolResult,
};
use wharf_testbed::TokioTimer;

fn request(asks: InputMode) -> Request {
    let request = RequestBuilder::new(Method::CallTool).target("t").arguments(r#"{"x":1.50}"#);
    let mut request = request.meta(r#"{"trace":"y"}"#).param("future", "[1]").build();
    request.asks = asks;
    request.log_level = Some(LogLevel::Info);
    request.progress = true;
    request
}

/// A downstream client that answers every request with these roots.
async fn front(transport: &Arc<FakeTransport>, request: Request) -> (Outcome, usize) {
    let relay = caller(transport).relay();
    let deadlines = Deadlines::NONE;
    let mut exchange = ActiveCall::start(&*relay, request, Arc::new(TokioTimer), deadlines);
    let mut asked = 0;
    loop {
        match poll_fn(|cx| exchange.poll_event(cx)).await {
            Event::ClientRequest(id, _) => {
                asked += 1;
                exchange.response_sender().deliver(id, Ok(r#"{"roots":[]}"#.into()));
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

#[tokio::test]
async fn requests_are_forwarded_unchanged() {
    let transport = FakeTransport::default()
        .then(ToolResult::text("done"))
        .then(Error::tool_not_found("t"))
        .then(tools(&["a"], Some("next")))
        .transport();
    let (outcome, _) = front(&transport, request(InputMode::Suspend)).await;
    assert_eq!(text(&outcome), "done");
    let (outcome, _) = front(&transport, request(InputMode::Deliver)).await;
    assert!(matches!(outcome, Outcome::Failed(error) if *error == Error::tool_not_found("t")));
    let list = RequestBuilder::new(Method::ListTools).cursor("c").build();
    let (outcome, _) = front(&transport, list).await;
    assert!(matches!(outcome, Outcome::Complete(Reply::Tools(page)) if page.next.is_some()));
    let sent = transport.sent();
    let params =
        json!({"name": "t", "arguments": {"x": 1.5}, "_meta": {"trace": "y"}, "future": [1]});
    assert_eq!(sent[0].params, params);
    assert!(sent[0].progress && sent[0].log_level == Some(LogLevel::Info));
    assert_eq!(sent[2].params, json!({"cursor": "c"}));
}

#[tokio::test]
async fn input_requests_are_forwarded_to_a_client_that_can_answer() {
    let transport = FakeTransport::default()
        .then(required(vec![("a", ClientRequest::Roots), ("b", ClientRequest::Roots)], Some("s")))
        .then(ToolResult::text("done"))
        .transport();
    let (outcome, asked) = front(&transport, request(InputMode::Deliver)).await;
    assert_eq!((text(&outcome), asked), ("done", 2));
    let sent = transport.sent();
    let roots = json!({"roots": []});
    let expected = json!({"name": "t", "arguments": {"x": 1.5}, "_meta": {"trace": "y"},
        "future": [1], "requestState": "s", "inputResponses": {"a": roots, "b": roots}});
    assert_eq!(sent[1].params, expected);
    assert!(sent[1].progress && sent[1].log_level == Some(LogLevel::Info));
}

#[tokio::test]
async fn a_client_that_retries_gets_the_input_request_itself() {
    let transport = FakeTransport::default()
        .then(required(vec![("a", ClientRequest::Roots)], Some("s")))
        .transport();
    let (outcome, asked) = front(&transport, request(InputMode::Suspend)).await;
    assert_eq!(asked, 0);
    let Outcome::InputRequired(required) = outcome else { panic!("{outcome:?}") };
    assert_eq!(required.state.as_deref(), Some("s"));
}

#[tokio::test(start_paused = true)]
async fn endless_input_rounds_of_the_upstream_are_stopped() {
    let transport = FakeTransport::default()
        .always(|_| required(vec![("a", ClientRequest::Roots)], None))
        .transport();
    let (outcome, asked) = front(&transport, request(InputMode::Deliver)).await;
    assert!(matches!(outcome, Outcome::Failed(error) if error.message.contains("8 times")));
    assert_eq!((asked, transport.count()), (8, 9));
    let transport = FakeTransport::default().always(|_| required(vec![], Some("s"))).transport();
    let (outcome, _) = front(&transport, request(InputMode::Deliver)).await;
    assert!(matches!(outcome, Outcome::Failed(_)) && transport.count() == 9);
}

#[tokio::test]
async fn requests_and_notifications_during_a_call_are_forwarded() {
    let transport = FakeTransport::default()
        .play(async |_, outbox: Outbox| {
            outbox.notify(Notification::Progress { progress: 1.0, total: None, message: None });
            ToolResult::text(outbox.ask(ClientRequest::Roots).await.unwrap()).into()
        })
        .transport();
    let (outcome, asked) = front(&transport, request(InputMode::Deliver)).await;
    assert_eq!((text(&outcome), asked), (r#"{"roots":[]}"#, 1));
}

/// An upstream server that sends two requests during its call.
fn waiting_back() -> Arc<FakeTransport> {
    FakeTransport::default()
        .play(async |_, outbox: Outbox| {
            let first = outbox.ask(ClientRequest::Roots).await.unwrap();
            let second = outbox.ask(ClientRequest::Roots).await.unwrap();
            ToolResult::text(format!("{first} {second}")).into()
        })
        .transport()
}

/// One call of a downstream client that retries with answers: the request with these answers.
async fn round(relay: &Arc<dyn Service>, state: Option<&str>, answers: Value) -> Outcome {
    let mut request = RequestBuilder::new(Method::CallTool).target("t");
    if let Some(state) = state {
        request = request.request_state(state).input_responses(&answers.to_string());
    }
    let can = ClientCapabilities::default().roots(RootsCapability::default());
    let request = request.build().from_peer(Arc::new(Peer::new(None, can)));
    let deadlines = Deadlines::NONE;
    let mut exchange = ActiveCall::start(&**relay, request, Arc::new(TokioTimer), deadlines);
    match poll_fn(|cx| exchange.poll_event(cx)).await {
        Event::Done(outcome) => outcome,
        other => panic!("{other:?}"),
    }
}

fn asked(outcome: Outcome) -> (String, String) {
    let Outcome::InputRequired(required) = outcome else { panic!("{outcome:?}") };
    (required.requests[0].0.clone(), required.state.unwrap())
}

#[tokio::test]
async fn a_suspended_upstream_call_is_answered_by_a_retry() {
    let transport = waiting_back();
    let relay = caller(&transport).relay();
    let (first, state) = asked(round(&relay, None, Value::Null).await);
    // Unanswered requests are sent again, answered ones are not.
    let (again, state) = asked(round(&relay, Some(&state), json!({"other": {}})).await);
    assert_eq!(first, again);
    let (second, state) = asked(round(&relay, Some(&state), json!({again: {"roots": []}})).await);
    assert_ne!(first, second);
    let outcome = round(&relay, Some(&state), json!({second: {"roots": [1]}})).await;
    assert_eq!(text(&outcome), r#"{"roots":[]} {"roots":[1]}"#);
    assert_eq!(transport.count(), 1);
}

#[tokio::test]
async fn a_suspended_call_belongs_to_its_caller() {
    let transport = waiting_back();
    let relay = caller(&transport).relay();
    let (_, state) = asked(round(&relay, None, Value::Null).await);
    let mut thief = RequestBuilder::new(Method::CallTool).target("t").request_state(&state).build();
    thief.scope.insert(Principal::new("thief"));
    let deadlines = Deadlines::NONE;
    let mut stolen = ActiveCall::start(&*relay, thief, Arc::new(TokioTimer), deadlines);
    let _ = poll_fn(|cx| stolen.poll_event(cx)).await;
    // It was forwarded to the upstream server, which does not have this state; the owner's call is
    // still suspended.
    assert_eq!(transport.count(), 2);
    let (again, _) = asked(round(&relay, Some(&state), json!({})).await);
    assert_eq!(again, "ask-0");
}

#[tokio::test]
async fn a_changed_filter_misses_nothing_and_keeps_its_principal() {
    let first: Arc<Mutex<Option<Outbox>>> = Arc::default();
    let kept = first.clone();
    let transport = FakeTransport::default()
        .play(async move |request: Request, outbox: Outbox| {
            assert_eq!(request.principal(), Some(&Principal::new("ann")));
            outbox.notify(Notification::Acknowledged(SubscriptionFilter::default()));
            *kept.lock().unwrap() = Some(outbox);
            std::future::pending().await
        })
        .play(async |request: Request, outbox: Outbox| {
            assert_eq!(request.principal(), Some(&Principal::new("ann")));
            outbox.notify(Notification::Acknowledged(SubscriptionFilter::default()));
            std::future::pending().await
        })
        .transport();
    let live = LiveSubscriptionFilter::new(SubscriptionFilter::default().tools(true));
    let mut request = RequestBuilder::new(Method::Listen).build();
    request.filter = Some(live.clone());
    request.scope.insert(Principal::new("ann"));
    let relay = caller(&transport).relay();
    let deadlines = Deadlines::NONE;
    let mut listen = ActiveCall::start(&*relay, request, Arc::new(TokioTimer), deadlines);
    poll_fn(|cx| listen.poll_event(cx)).await;
    assert!(poll_fn(|cx| Poll::Ready(listen.poll_event(cx).is_pending())).await);
    live.edit(|filter| filter.uris.insert("toy://a".into()));
    first.lock().unwrap().as_ref().unwrap().notify(Notification::ToolsChanged);
    let event = poll_fn(|cx| listen.poll_event(cx)).await;
    assert!(matches!(event, Event::Notify(Notification::ToolsChanged)), "{event:?}");
}

#[tokio::test(start_paused = true)]
async fn a_suspended_call_expires_if_its_client_never_retries() {
    let transport = FakeTransport::default()
        .play(async |_, outbox: Outbox| {
            ToolResult::text(outbox.ask(ClientRequest::Roots).await.unwrap()).into()
        })
        .then(ToolResult::text("done"))
        .transport();
    let relay = caller(&transport).relay();
    let _ = asked(round(&relay, None, Value::Null).await);
    assert_eq!(transport.dropped(), 0);
    tokio::time::advance(std::time::Duration::from_secs(601)).await;
    assert_eq!(text(&round(&relay, None, Value::Null).await), "done");
    assert_eq!(transport.dropped(), 1);
}

#[tokio::test]
async fn a_subscription_is_forwarded() {
    let transport = FakeTransport::default()
        .play(async |request: Request, outbox: Outbox| {
            let filter = request.filter.as_ref().unwrap().read(SubscriptionFilter::clone);
            outbox.notify(Notification::Acknowledged(filter));
            Reply::Listened.into()
        })
        .transport();
    let mut listen = RequestBuilder::new(Method::Listen).build();
    listen.filter = Some(LiveSubscriptionFilter::new(SubscriptionFilter::default().tools(true)));
    let (outcome, _) = front(&transport, listen).await;
    assert!(matches!(outcome, Outcome::Complete(Reply::Listened)));
}

fn annotated(name: &str, header: Value) -> ToolInfo {
    let x = json!({"type": "integer", "x-mcp-header": header});
    ToolInfo::new(name, json!({"type": "object", "properties": {"x": x}}))
}

#[tokio::test]
async fn param_headers_are_set_for_a_client_without_headers() {
    let mismatch = || Error::header_mismatch("Mcp-Param-X", "is missing");
    let both = [annotated("t", json!("X")), annotated("bad", json!("no name"))];
    let transport = FakeTransport::default()
        .with_param_headers()
        .then(mismatch())
        .then(tool(annotated("t", json!("X"))))
        .then(ToolResult::text("done"))
        .then(Reply::Tools(page(both, None, 0)))
        .then(mismatch())
        .then(tool(annotated("t", json!("X"))))
        .then(mismatch())
        .transport();
    let (outcome, _) = front(&transport, request(InputMode::Suspend)).await;
    assert_eq!(text(&outcome), "done");
    let (outcome, _) = front(&transport, RequestBuilder::new(Method::ListTools).build()).await;
    let Outcome::Complete(Reply::Tools(page)) = outcome else { panic!("{outcome:?}") };
    assert_eq!(names(page.items()), ["t"]);
    let (outcome, _) = front(&transport, request(InputMode::Deliver)).await;
    assert!(matches!(outcome, Outcome::Failed(error) if *error == mismatch()));
    let mirrored: Vec<_> = transport.sent().into_iter().map(|it| it.mirrored).collect();
    let x = |call: usize| mirrored[call].as_ref().unwrap().of("x").flatten().next() == Some("1.50");
    assert!(!x(0) && x(2) && !x(4) && x(6));
}

#[tokio::test]
async fn a_subscription_ends_with_the_upstream_even_while_its_filter_changes() {
    let transport = FakeTransport::default()
        .play(async |_, outbox: Outbox| {
            outbox.notify(Notification::Acknowledged(SubscriptionFilter::default()));
            std::future::pending().await
        })
        .then(Reply::Listened)
        .transport();
    let live = LiveSubscriptionFilter::new(SubscriptionFilter::default());
    let mut request = RequestBuilder::new(Method::Listen).build();
    request.filter = Some(live.clone());
    let relay = caller(&transport).relay();
    let deadlines = Deadlines::NONE;
    let mut listen = ActiveCall::start(&*relay, request, Arc::new(TokioTimer), deadlines);
    let event = poll_fn(|cx| listen.poll_event(cx)).await;
    assert!(matches!(event, Event::Notify(Notification::Acknowledged(_))), "{event:?}");
    live.edit(|filter| filter.uris.insert("toy://a".into()));
    let event = poll_fn(|cx| listen.poll_event(cx)).await;
    assert!(matches!(event, Event::Done(Outcome::Complete(Reply::Listened))), "{event:?}");
}
