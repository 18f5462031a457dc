//! What is tried again, and what is not.
#![allow(clippy::unwrap_used)]

mod support;

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use serde_json::{Value, json};
use support::{Fake, answering, caller, tool};
use tokio::sync::Notify;
use wharf_client::ClientHandlerBuilder;
use wharf_model::{
    CompletionRef, ElicitResult, Error, ErrorKind, Notification, Outcome, ReadResult, Reply,
    ToolAnnotations, ToolInfo, ToolResult,
};

fn lost() -> Error {
    Error::new(ErrorKind::ConnectionClosed)
}

fn listed(hints: ToolAnnotations) -> Outcome {
    tool(ToolInfo::without_parameters("t").annotations(hints))
}

#[tokio::test(start_paused = true)]
async fn reads_are_sent_again_when_the_connection_breaks() {
    let link = Fake::default()
        .then(lost())
        .then(Error::new(ErrorKind::TransportError))
        .then(Reply::Read(ReadResult::default()))
        .link();
    caller(&link).read("a:b").await.unwrap();
    assert_eq!(link.count(), 3);

    let link = Fake::default().always(|_| lost().into()).link();
    let caller = caller(&link);
    let error = caller.read("a:b").await.unwrap_err();
    assert!(error.kind.is_connection_closed() && error.message.contains("3 times"), "{error}");
    assert_eq!(link.count(), 3);
    caller.tools().all().await.unwrap_err();
    caller.prompt("p", ()).await.unwrap_err();
    caller.complete(CompletionRef::Prompt("p".into()), "a", "b").await.unwrap_err();
    assert_eq!(link.count(), 12);
}

#[tokio::test(start_paused = true)]
async fn tools_are_sent_again_only_if_that_does_no_harm() {
    let link = Fake::default().then(lost()).then(listed(ToolAnnotations::default())).link();
    let error = caller(&link).call("t", ()).await.unwrap_err();
    assert!(error.kind.is_connection_closed() && error.message.contains("not sent again"));
    assert_eq!(link.count(), 2);

    let hints = ToolAnnotations::default;
    for (hints, again) in [
        (hints().read_only(true), true),
        (hints().idempotent(true), true),
        (hints().idempotent(false).destructive(false), false),
    ] {
        let link = Fake::default().then(listed(hints)).then(lost()).then(ToolResult::default());
        let link = link.link();
        let caller = caller(&link);
        caller.tools().all().await.unwrap();
        assert_eq!(caller.call("t", ()).await.is_ok(), again);
        assert_eq!(link.count(), if again { 3 } else { 2 });
    }
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_was_never_listed_is_looked_up_before_it_is_sent_again() {
    let safe = ToolAnnotations::default().read_only(true);
    let link = Fake::default()
        .then(lost())
        .then(listed(safe))
        .then(lost())
        .then(ToolResult::text("done"))
        .link();
    caller(&link).call("t", ()).await.unwrap();
    let sent: Vec<_> = link.sent().iter().map(|it| it.method.name()).collect();
    assert_eq!(sent, ["tools/call", "tools/list", "tools/call", "tools/call"]);
    // A server that does not list it says nothing about it.
    let link = Fake::default().then(lost()).then(support::tools(&["other"], None)).link();
    let error = caller(&link).call("t", ()).await.unwrap_err();
    assert!(error.message.contains("not sent again"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_may_be_another_now_is_looked_up_before_it_is_sent_again() {
    let safe = || ToolAnnotations::default().read_only(true);
    for (now, again) in [(safe(), true), (ToolAnnotations::default(), false)] {
        let link = Fake::default()
            .then(listed(safe()))
            .then(lost())
            .then(listed(now))
            .then(ToolResult::text("done"))
            .link();
        let caller = caller(&link);
        caller.tools().all().await.unwrap();
        link.say(Notification::ToolsChanged);
        assert_eq!(caller.call("t", ()).await.is_ok(), again);
        assert_eq!(link.count(), if again { 4 } else { 3 });
    }
}

fn with_header() -> ToolInfo {
    let region = json!({"type": "string", "x-mcp-header": "Region"});
    ToolInfo::new("t", json!({"type": "object", "properties": {"region": region}}))
}

#[tokio::test]
async fn after_a_header_mismatch_the_tools_are_listed_and_the_call_is_sent_once_more() {
    let mismatch = || Error::header_mismatch("Mcp-Param-Region", "is missing");
    let link = Fake::default()
        .mirroring()
        .then(mismatch())
        .then(tool(with_header()))
        .then(ToolResult::text("done"))
        .link();
    caller(&link).call("t", json!({"region": "west"})).await.unwrap();
    let sent = link.sent();
    assert_eq!(
        sent.iter().map(|it| it.method.name()).collect::<Vec<_>>(),
        ["tools/call", "tools/list", "tools/call"]
    );
    let mirrored = sent[2].mirrored.as_ref().unwrap();
    assert_eq!(mirrored.of("region").collect::<Vec<_>>(), [Some("west")]);

    let link = Fake::default()
        .mirroring()
        .then(mismatch())
        .then(tool(with_header()))
        .then(mismatch())
        .link();
    assert_eq!(caller(&link).call("t", ()).await.unwrap_err(), mismatch());
    let link = Fake::default().then(mismatch()).link();
    assert_eq!(caller(&link).call("t", ()).await.unwrap_err(), mismatch());
}

fn pages(elicitations: Value) -> Error {
    Error::new(ErrorKind::UrlElicitationRequired).with_data(json!({"elicitations": elicitations}))
}

fn sign_in(id: &str) -> Value {
    json!({"mode": "url", "elicitationId": id, "url": "https://x.test/in", "message": "sign in"})
}

/// Accepts every page; counts them.
fn visiting() -> (ClientHandlerBuilder, Arc<AtomicUsize>) {
    let visits = Arc::new(AtomicUsize::new(0));
    let count = visits.clone();
    let answers = ClientHandlerBuilder::new().elicit_url(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        async { Ok(ElicitResult::accept_url()) }
    });
    (answers, visits)
}

#[tokio::test]
async fn pages_are_visited_and_the_call_is_sent_again_at_the_servers_word() {
    let link = Fake::default()
        .then(pages(json!([sign_in("e-1"), sign_in("e-2")])))
        .then(ToolResult::text("done"))
        .link();
    let (answers, visits) = visiting();
    let call = answering(&link, answers).call("t", ()).into_future();
    let told = async {
        while visits.load(Ordering::SeqCst) < 2 {
            tokio::task::yield_now().await;
        }
        for id in ["e-1", "e-2"] {
            link.say(Notification::ElicitationComplete { id: id.into() });
        }
    };
    let (result, ()) = futures_util::future::join(call, told).await;
    result.unwrap();
    assert_eq!((link.count(), visits.load(Ordering::SeqCst)), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_sends_no_word_is_asked_again_and_each_page_is_shown_once() {
    let link = Fake::default()
        .then(pages(json!([sign_in("e-1")])))
        .then(pages(json!([sign_in("e-1")])))
        .then(pages(json!([sign_in("e-2")])))
        .then(ToolResult::text("done"))
        .link();
    let (answers, visits) = visiting();
    answering(&link, answers).call("t", ()).await.unwrap();
    assert_eq!((link.count(), visits.load(Ordering::SeqCst)), (4, 2));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_wants_pages_for_ever_is_left() {
    let link = Fake::default().always(|_| pages(json!([sign_in("e-1")])).into()).link();
    let (answers, visits) = visiting();
    let error = answering(&link, answers).call("t", ()).await.unwrap_err();
    assert!(error.kind.is_url_elicitation_required() && error.message.contains("too many"));
    assert_eq!((link.count(), visits.load(Ordering::SeqCst)), (9, 1));
    let many: Vec<Value> = (0..17).map(|n| sign_in(&n.to_string())).collect();
    let link = Fake::default().then(pages(many.into())).link();
    let (answers, visits) = visiting();
    answering(&link, answers).call("t", ()).await.unwrap_err();
    assert_eq!(visits.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn pages_nobody_visits_leave_the_error_as_it_is() {
    for data in [json!([sign_in("e-1")]), json!([]), json!([{"mode": "form"}])] {
        let error = pages(data.clone());
        let link = Fake::default().then(error.clone()).link();
        assert_eq!(caller(&link).call("t", ()).await.unwrap_err(), error);
    }
    let link = Fake::default().then(pages(json!([sign_in("e-1")]))).link();
    let declining = ClientHandlerBuilder::new().elicit_url(async |_| Ok(ElicitResult::decline()));
    let error = answering(&link, declining).call("t", ()).await.unwrap_err();
    assert!(error.kind.is_url_elicitation_required() && error.message.contains("declined"));
    assert_eq!(link.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_page_that_is_never_left_ends_with_the_calls_total() {
    let link = Fake::default().then(pages(json!([sign_in("e-1")]))).link();
    let never = Arc::new(Notify::new());
    let answers = ClientHandlerBuilder::new().elicit_url(move |_| {
        let never = never.clone();
        async move {
            never.notified().await;
            Ok(ElicitResult::accept_url())
        }
    });
    let error = answering(&link, answers).call("t", ()).await.unwrap_err();
    assert!(error.kind.is_request_timeout(), "{error}");
}
