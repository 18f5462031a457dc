//! Retries of calls.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use crate::support::{FakeTransport, answering, caller, required, tool};
use serde_json::{Value, json};
use tokio::sync::Notify;
use wharf_client::ClientHandlerBuilder;
use wharf_model::{
    CallError, ClientRequest, CompletionRef, ElicitResult, Error, ErrorKind, Notification, Outcome,
    ReadResult, Reply, ToolAnnotations, ToolInfo, ToolResult,
};

fn lost() -> Error {
    Error::new(ErrorKind::ConnectionClosed)
}

fn not_sent() -> Error {
    CallError::transport("nothing listens", false, std::io::Error::other("refused"))
        .into_outcome_error()
}

fn interrupted() -> Error {
    CallError::transport("it broke", true, std::io::Error::other("reset")).into_outcome_error()
}

fn listed(hints: ToolAnnotations) -> Outcome {
    tool(ToolInfo::without_parameters("t").annotations(hints))
}

#[tokio::test(start_paused = true)]
async fn reads_are_retried_after_a_broken_connection() {
    let transport = FakeTransport::default()
        .then(lost())
        .then(Error::new(ErrorKind::TransportError))
        .then(Reply::Read(ReadResult::default()))
        .transport();
    caller(&transport).read("a:b").await.unwrap();
    assert_eq!(transport.count(), 3);

    let transport = FakeTransport::default().always(|_| lost().into()).transport();
    let caller = caller(&transport);
    let error = caller.read("a:b").await.unwrap_err();
    assert!(error.kind().is_connection_closed() && error.message().contains("3 times"), "{error}");
    assert_eq!(transport.count(), 3);
    caller.tools().all().await.unwrap_err();
    caller.prompt("p", ()).await.unwrap_err();
    caller.complete(CompletionRef::Prompt("p".into()), "a", "b").await.unwrap_err();
    assert_eq!(transport.count(), 12);
}

#[tokio::test(start_paused = true)]
async fn tool_calls_are_retried_only_if_safe() {
    let transport =
        FakeTransport::default().then(lost()).then(listed(ToolAnnotations::default())).transport();
    let error = caller(&transport).call("t", ()).await.unwrap_err();
    assert!(error.kind().is_connection_closed() && error.message().contains("not sent again"));
    assert_eq!(transport.count(), 2);

    let hints = ToolAnnotations::default;
    for (hints, again) in [
        (hints().read_only(true), true),
        (hints().idempotent(true), true),
        (hints().idempotent(false).destructive(false), false),
    ] {
        let transport =
            FakeTransport::default().then(listed(hints)).then(lost()).then(ToolResult::default());
        let transport = transport.transport();
        let caller = caller(&transport);
        caller.tools().all().await.unwrap();
        assert_eq!(caller.call("t", ()).await.is_ok(), again);
        assert_eq!(transport.count(), if again { 3 } else { 2 });
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_was_not_sent_is_repeated_whatever_it_does() {
    let transport =
        FakeTransport::default().then(not_sent()).then(ToolResult::text("done")).transport();
    caller(&transport).call("t", ()).await.unwrap();
    let transport = FakeTransport::default().always(|_| not_sent().into()).transport();
    let error = caller(&transport).call("t", ()).await.unwrap_err();
    assert!(error.message().contains("tried 3 times"), "{error}");
    assert_eq!(transport.count(), 3);
}

/// Once a request of a call has arrived, a later one that did not must not say that nothing did.
#[tokio::test(start_paused = true)]
async fn a_call_has_arrived_with_its_first_request() {
    let asks = || required(vec![("r", ClientRequest::Roots)], Some("s"));
    let safe = || listed(ToolAnnotations::default().read_only(true));
    let deferred = || required(vec![], Some("s"));
    let mismatch = || Error::header_mismatch("Mcp-Param-Region", "is missing").into();
    for (what, first, arrived) in [
        ("nothing", vec![], false),
        ("a request that was not sent", vec![not_sent().into()], false),
        ("a round of questions", vec![asks()], true),
        ("a deferral", vec![deferred()], true),
        ("an interruption", vec![interrupted().into(), safe()], true),
        ("a rejection", vec![mismatch(), safe()], true),
    ] {
        let transport = FakeTransport::default().with_param_headers();
        let transport = first.into_iter().fold(transport, FakeTransport::then);
        let transport = transport.always(|_| not_sent().into()).transport();
        let answers = ClientHandlerBuilder::new().fixed_roots([]);
        let error = answering(&transport, answers).call("t", ()).await.unwrap_err();
        let CallError::Transport { may_have_arrived, source, .. } = error else {
            panic!("{what}: {error:?}");
        };
        assert_eq!((may_have_arrived, source.is_some()), (arrived, true), "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_unlisted_tool_is_listed_before_a_retry() {
    let safe = ToolAnnotations::default().read_only(true);
    let transport = FakeTransport::default()
        .then(lost())
        .then(listed(safe))
        .then(lost())
        .then(ToolResult::text("done"))
        .transport();
    caller(&transport).call("t", ()).await.unwrap();
    let sent: Vec<_> = transport.sent().iter().map(|it| it.method.name()).collect();
    assert_eq!(sent, ["tools/call", "tools/list", "tools/call", "tools/call"]);
    // A tool that the server does not list is not known to be safe.
    let transport = FakeTransport::default()
        .then(lost())
        .then(crate::support::tools(&["other"], None))
        .transport();
    let error = caller(&transport).call("t", ()).await.unwrap_err();
    assert!(error.message().contains("not sent again"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_changed_tool_is_listed_before_a_retry() {
    let safe = || ToolAnnotations::default().read_only(true);
    for (now, again) in [(safe(), true), (ToolAnnotations::default(), false)] {
        let transport = FakeTransport::default()
            .then(listed(safe()))
            .then(lost())
            .then(listed(now))
            .then(ToolResult::text("done"))
            .transport();
        let caller = caller(&transport);
        caller.tools().all().await.unwrap();
        transport.notify(Notification::ToolsChanged);
        assert_eq!(caller.call("t", ()).await.is_ok(), again);
        assert_eq!(transport.count(), if again { 4 } else { 3 });
    }
}

fn with_header() -> ToolInfo {
    let region = json!({"type": "string", "x-mcp-header": "Region"});
    ToolInfo::new("t", json!({"type": "object", "properties": {"region": region}}))
}

#[tokio::test]
async fn after_a_header_mismatch_the_tools_are_listed_and_the_call_is_sent_once_more() {
    let mismatch = || Error::header_mismatch("Mcp-Param-Region", "is missing");
    let transport = FakeTransport::default()
        .with_param_headers()
        .then(mismatch())
        .then(tool(with_header()))
        .then(ToolResult::text("done"))
        .transport();
    caller(&transport).call("t", json!({"region": "west"})).await.unwrap();
    let sent = transport.sent();
    assert_eq!(
        sent.iter().map(|it| it.method.name()).collect::<Vec<_>>(),
        ["tools/call", "tools/list", "tools/call"]
    );
    let mirrored = sent[2].mirrored.as_ref().unwrap();
    assert_eq!(mirrored.of("region").collect::<Vec<_>>(), [Some("west")]);

    let transport = FakeTransport::default()
        .with_param_headers()
        .then(mismatch())
        .then(tool(with_header()))
        .then(mismatch())
        .transport();
    assert_eq!(caller(&transport).call("t", ()).await.unwrap_err(), mismatch());
    let transport = FakeTransport::default().then(mismatch()).transport();
    assert_eq!(caller(&transport).call("t", ()).await.unwrap_err(), mismatch());
}

fn pages(elicitations: Value) -> Error {
    Error::new(ErrorKind::UrlElicitationRequired).with_data(json!({"elicitations": elicitations}))
}

fn sign_in(id: &str) -> Value {
    json!({"mode": "url", "elicitationId": id, "url": "https://x.test/in", "message": "sign in"})
}

/// Accepts and counts every URL elicitation.
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
async fn url_elicitations_are_opened_and_the_call_is_retried_on_completion() {
    let transport = FakeTransport::default()
        .then(pages(json!([sign_in("e-1"), sign_in("e-2")])))
        .then(ToolResult::text("done"))
        .transport();
    let (answers, visits) = visiting();
    let call = answering(&transport, answers).call("t", ()).into_future();
    let told = async {
        while visits.load(Ordering::SeqCst) < 2 {
            tokio::task::yield_now().await;
        }
        for id in ["e-1", "e-2"] {
            transport.notify(Notification::ElicitationComplete { id: id.into() });
        }
    };
    let (result, ()) = futures_util::future::join(call, told).await;
    result.unwrap();
    assert_eq!((transport.count(), visits.load(Ordering::SeqCst)), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn without_completion_the_call_is_retried_and_each_url_is_shown_once() {
    let transport = FakeTransport::default()
        .then(pages(json!([sign_in("e-1")])))
        .then(pages(json!([sign_in("e-1")])))
        .then(pages(json!([sign_in("e-2")])))
        .then(ToolResult::text("done"))
        .transport();
    let (answers, visits) = visiting();
    answering(&transport, answers).call("t", ()).await.unwrap();
    assert_eq!((transport.count(), visits.load(Ordering::SeqCst)), (4, 2));
}

#[tokio::test(start_paused = true)]
async fn endless_url_elicitations_are_stopped() {
    let transport =
        FakeTransport::default().always(|_| pages(json!([sign_in("e-1")])).into()).transport();
    let (answers, visits) = visiting();
    let error = answering(&transport, answers).call("t", ()).await.unwrap_err();
    assert!(error.kind().is_url_elicitation_required() && error.message().contains("too many"));
    assert_eq!((transport.count(), visits.load(Ordering::SeqCst)), (9, 1));
    let many: Vec<Value> = (0..17).map(|n| sign_in(&n.to_string())).collect();
    let transport = FakeTransport::default().then(pages(many.into())).transport();
    let (answers, visits) = visiting();
    answering(&transport, answers).call("t", ()).await.unwrap_err();
    assert_eq!(visits.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn declined_url_elicitations_return_the_error() {
    for data in [json!([sign_in("e-1")]), json!([]), json!([{"mode": "form"}])] {
        let error = pages(data.clone());
        let transport = FakeTransport::default().then(error.clone()).transport();
        assert_eq!(caller(&transport).call("t", ()).await.unwrap_err(), error);
    }
    let transport = FakeTransport::default().then(pages(json!([sign_in("e-1")]))).transport();
    let declining = ClientHandlerBuilder::new().elicit_url(async |_| Ok(ElicitResult::decline()));
    let error = answering(&transport, declining).call("t", ()).await.unwrap_err();
    assert!(error.kind().is_url_elicitation_required() && error.message().contains("declined"));
    assert_eq!(transport.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_url_elicitation_ends_with_the_total_timeout() {
    let transport = FakeTransport::default().then(pages(json!([sign_in("e-1")]))).transport();
    let never = Arc::new(Notify::new());
    let answers = ClientHandlerBuilder::new().elicit_url(move |_| {
        let never = never.clone();
        async move {
            never.notified().await;
            Ok(ElicitResult::accept_url())
        }
    });
    let error = answering(&transport, answers).call("t", ()).await.unwrap_err();
    assert!(error.kind().is_request_timeout(), "{error}");
}
