//! A client as a service for others.
#![allow(clippy::unwrap_used)]

mod support;

use std::{
    future::poll_fn,
    sync::{Arc, Mutex},
    task::Poll,
};

use serde_json::{Value, json};
use support::{Fake, TokioTimer, caller, names, page, required, tool, tools};
use wharf_model::{
    ActiveCall, ClientCapabilities, ClientRequest, Deadlines, Error, Event, InputMode,
    LiveSubscriptionFilter, LogLevel, Method, Notification, Outbox, Outcome, Peer, Principal,
    Reply, Request, RequestBuilder, RootsCapability, Service, SubscriptionFilter, ToolInfo,
    ToolResult,
};

fn request(asks: InputMode) -> Request {
    let request = RequestBuilder::new(Method::CallTool).target("t").arguments(r#"{"x":1.50}"#);
    let mut request = request.meta(r#"{"trace":"y"}"#).param("future", "[1]").build();
    request.asks = asks;
    request.log_level = Some(LogLevel::Info);
    request.progress = true;
    request
}

/// Plays a front that answers every question with these roots.
async fn front(link: &Arc<Fake>, request: Request) -> (Outcome, usize) {
    let relay = caller(link).relay();
    let deadlines = Deadlines { idle: None, total: None };
    let mut exchange = ActiveCall::start(&*relay, request, Arc::new(TokioTimer), deadlines);
    let mut asked = 0;
    loop {
        match poll_fn(|cx| exchange.poll_event(cx)).await {
            Event::ClientRequest(id, _) => {
                asked += 1;
                exchange.answers().deliver(id, Ok(r#"{"roots":[]}"#.into()));
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
async fn everything_passes_as_it_is() {
    let link = Fake::default()
        .then(ToolResult::text("done"))
        .then(Error::tool_not_found("t"))
        .then(tools(&["a"], Some("next")))
        .link();
    let (outcome, _) = front(&link, request(InputMode::Suspend)).await;
    assert_eq!(text(&outcome), "done");
    let (outcome, _) = front(&link, request(InputMode::Deliver)).await;
    assert!(matches!(outcome, Outcome::Failed(error) if *error == Error::tool_not_found("t")));
    let list = RequestBuilder::new(Method::ListTools).cursor("c").build();
    let (outcome, _) = front(&link, list).await;
    assert!(matches!(outcome, Outcome::Complete(Reply::Tools(page)) if page.next.is_some()));
    let sent = link.sent();
    let params =
        json!({"name": "t", "arguments": {"x": 1.5}, "_meta": {"trace": "y"}, "future": [1]});
    assert_eq!(sent[0].params, params);
    assert!(sent[0].progress && sent[0].log_level == Some(LogLevel::Info));
    assert_eq!(sent[2].params, json!({"cursor": "c"}));
}

#[tokio::test]
async fn a_front_that_can_be_asked_is_asked() {
    let link = Fake::default()
        .then(required(vec![("a", ClientRequest::Roots), ("b", ClientRequest::Roots)], Some("s")))
        .then(ToolResult::text("done"))
        .link();
    let (outcome, asked) = front(&link, request(InputMode::Deliver)).await;
    assert_eq!((text(&outcome), asked), ("done", 2));
    let sent = link.sent();
    let roots = json!({"roots": []});
    let expected = json!({"name": "t", "arguments": {"x": 1.5}, "_meta": {"trace": "y"},
        "future": [1], "requestState": "s", "inputResponses": {"a": roots, "b": roots}});
    assert_eq!(sent[1].params, expected);
    assert!(sent[1].progress && sent[1].log_level == Some(LogLevel::Info));
}

#[tokio::test]
async fn a_front_that_comes_back_gets_the_question_itself() {
    let link = Fake::default().then(required(vec![("a", ClientRequest::Roots)], Some("s"))).link();
    let (outcome, asked) = front(&link, request(InputMode::Suspend)).await;
    assert_eq!(asked, 0);
    let Outcome::InputRequired(required) = outcome else { panic!("{outcome:?}") };
    assert_eq!(required.state.as_deref(), Some("s"));
}

#[tokio::test(start_paused = true)]
async fn a_back_that_asks_for_ever_is_left() {
    let link = Fake::default().always(|_| required(vec![("a", ClientRequest::Roots)], None)).link();
    let (outcome, asked) = front(&link, request(InputMode::Deliver)).await;
    assert!(matches!(outcome, Outcome::Failed(error) if error.message.contains("8 times")));
    assert_eq!((asked, link.count()), (8, 9));
    let link = Fake::default().always(|_| required(vec![], Some("s"))).link();
    let (outcome, _) = front(&link, request(InputMode::Deliver)).await;
    assert!(matches!(outcome, Outcome::Failed(_)) && link.count() == 9);
}

#[tokio::test]
async fn questions_and_news_on_the_way_pass() {
    let link = Fake::default()
        .play(async |_, outbox: Outbox| {
            outbox.notify(Notification::Progress { progress: 1.0, total: None, message: None });
            ToolResult::text(outbox.ask(ClientRequest::Roots).await.unwrap()).into()
        })
        .link();
    let (outcome, asked) = front(&link, request(InputMode::Deliver)).await;
    assert_eq!((text(&outcome), asked), (r#"{"roots":[]}"#, 1));
}

/// A back that asks in the middle of its call, twice.
fn waiting_back() -> Arc<Fake> {
    Fake::default()
        .play(async |_, outbox: Outbox| {
            let first = outbox.ask(ClientRequest::Roots).await.unwrap();
            let second = outbox.ask(ClientRequest::Roots).await.unwrap();
            ToolResult::text(format!("{first} {second}")).into()
        })
        .link()
}

/// One round of a front that ends its call to be asked: the request with these answers.
async fn round(relay: &Arc<dyn Service>, state: Option<&str>, answers: Value) -> Outcome {
    let mut request = RequestBuilder::new(Method::CallTool).target("t");
    if let Some(state) = state {
        request = request.request_state(state).input_responses(&answers.to_string());
    }
    let can = ClientCapabilities::default().roots(RootsCapability::default());
    let request = request.build().from_peer(Arc::new(Peer::new(None, can)));
    let deadlines = Deadlines { idle: None, total: None };
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
async fn a_back_that_waits_is_answered_by_a_front_that_comes_back() {
    let link = waiting_back();
    let relay = caller(&link).relay();
    let (first, state) = asked(round(&relay, None, Value::Null).await);
    // What is not answered is asked again, and what was answered is not.
    let (again, state) = asked(round(&relay, Some(&state), json!({"other": {}})).await);
    assert_eq!(first, again);
    let (second, state) = asked(round(&relay, Some(&state), json!({again: {"roots": []}})).await);
    assert_ne!(first, second);
    let outcome = round(&relay, Some(&state), json!({second: {"roots": [1]}})).await;
    assert_eq!(text(&outcome), r#"{"roots":[]} {"roots":[1]}"#);
    assert_eq!(link.count(), 1);
}

#[tokio::test]
async fn a_call_that_waits_is_its_callers_own() {
    let link = waiting_back();
    let relay = caller(&link).relay();
    let (_, state) = asked(round(&relay, None, Value::Null).await);
    let mut thief = RequestBuilder::new(Method::CallTool).target("t").request_state(&state).build();
    thief.scope.insert(Principal::new("thief"));
    let deadlines = Deadlines { idle: None, total: None };
    let mut stolen = ActiveCall::start(&*relay, thief, Arc::new(TokioTimer), deadlines);
    let _ = poll_fn(|cx| stolen.poll_event(cx)).await;
    // It went to the back, which knows no such state; the owner's call still waits.
    assert_eq!(link.count(), 2);
    let (again, _) = asked(round(&relay, Some(&state), json!({})).await);
    assert_eq!(again, "ask-0");
}

#[tokio::test]
async fn nothing_is_missed_when_a_listen_changes_and_it_stays_its_callers_own() {
    let first: Arc<Mutex<Option<Outbox>>> = Arc::default();
    let kept = first.clone();
    let link = Fake::default()
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
        .link();
    let live = LiveSubscriptionFilter::new(SubscriptionFilter {
        tools: true,
        ..SubscriptionFilter::default()
    });
    let mut request = RequestBuilder::new(Method::Listen).build();
    request.filter = Some(live.clone());
    request.scope.insert(Principal::new("ann"));
    let relay = caller(&link).relay();
    let deadlines = Deadlines { idle: None, total: None };
    let mut listen = ActiveCall::start(&*relay, request, Arc::new(TokioTimer), deadlines);
    poll_fn(|cx| listen.poll_event(cx)).await;
    assert!(poll_fn(|cx| Poll::Ready(listen.poll_event(cx).is_pending())).await);
    live.edit(|filter| filter.uris.insert("toy://a".into()));
    first.lock().unwrap().as_ref().unwrap().notify(Notification::ToolsChanged);
    let event = poll_fn(|cx| listen.poll_event(cx)).await;
    assert!(matches!(event, Event::Notify(Notification::ToolsChanged)), "{event:?}");
}

#[tokio::test(start_paused = true)]
async fn a_front_that_never_comes_back_is_not_waited_for() {
    let link = Fake::default()
        .play(async |_, outbox: Outbox| {
            ToolResult::text(outbox.ask(ClientRequest::Roots).await.unwrap()).into()
        })
        .then(ToolResult::text("done"))
        .link();
    let relay = caller(&link).relay();
    let _ = asked(round(&relay, None, Value::Null).await);
    assert_eq!(link.dropped(), 0);
    tokio::time::advance(std::time::Duration::from_secs(601)).await;
    assert_eq!(text(&round(&relay, None, Value::Null).await), "done");
    assert_eq!(link.dropped(), 1);
}

#[tokio::test]
async fn a_listen_passes() {
    let link = Fake::default()
        .play(async |request: Request, outbox: Outbox| {
            let filter = request.filter.as_ref().unwrap().read(SubscriptionFilter::clone);
            outbox.notify(Notification::Acknowledged(filter));
            Reply::Listened.into()
        })
        .link();
    let mut listen = RequestBuilder::new(Method::Listen).build();
    listen.filter = Some(LiveSubscriptionFilter::new(SubscriptionFilter {
        tools: true,
        ..SubscriptionFilter::default()
    }));
    let (outcome, _) = front(&link, listen).await;
    assert!(matches!(outcome, Outcome::Complete(Reply::Listened)));
}

fn annotated(name: &str, header: Value) -> ToolInfo {
    let x = json!({"type": "integer", "x-mcp-header": header});
    ToolInfo::new(name, json!({"type": "object", "properties": {"x": x}}))
}

#[tokio::test]
async fn arguments_are_mirrored_for_a_front_that_has_no_headers() {
    let mismatch = || Error::header_mismatch("Mcp-Param-X", "is missing");
    let both = [annotated("t", json!("X")), annotated("bad", json!("no name"))];
    let link = Fake::default()
        .mirroring()
        .then(mismatch())
        .then(tool(annotated("t", json!("X"))))
        .then(ToolResult::text("done"))
        .then(Reply::Tools(page(both, None, 0)))
        .then(mismatch())
        .then(tool(annotated("t", json!("X"))))
        .then(mismatch())
        .link();
    let (outcome, _) = front(&link, request(InputMode::Suspend)).await;
    assert_eq!(text(&outcome), "done");
    let (outcome, _) = front(&link, RequestBuilder::new(Method::ListTools).build()).await;
    let Outcome::Complete(Reply::Tools(page)) = outcome else { panic!("{outcome:?}") };
    assert_eq!(names(page.items()), ["t"]);
    let (outcome, _) = front(&link, request(InputMode::Deliver)).await;
    assert!(matches!(outcome, Outcome::Failed(error) if *error == mismatch()));
    let mirrored: Vec<_> = link.sent().into_iter().map(|it| it.mirrored).collect();
    let x = |call: usize| mirrored[call].as_ref().unwrap().of("x").flatten().next() == Some("1.50");
    assert!(!x(0) && x(2) && !x(4) && x(6));
}

#[tokio::test]
async fn a_listen_ends_with_the_back_even_while_it_changes() {
    let link = Fake::default()
        .play(async |_, outbox: Outbox| {
            outbox.notify(Notification::Acknowledged(SubscriptionFilter::default()));
            std::future::pending().await
        })
        .then(Reply::Listened)
        .link();
    let live = LiveSubscriptionFilter::new(SubscriptionFilter::default());
    let mut request = RequestBuilder::new(Method::Listen).build();
    request.filter = Some(live.clone());
    let relay = caller(&link).relay();
    let deadlines = Deadlines { idle: None, total: None };
    let mut listen = ActiveCall::start(&*relay, request, Arc::new(TokioTimer), deadlines);
    let event = poll_fn(|cx| listen.poll_event(cx)).await;
    assert!(matches!(event, Event::Notify(Notification::Acknowledged(_))), "{event:?}");
    live.edit(|filter| filter.uris.insert("toy://a".into()));
    let event = poll_fn(|cx| listen.poll_event(cx)).await;
    assert!(matches!(event, Event::Done(Outcome::Complete(Reply::Listened))), "{event:?}");
}
