//! Calls that end with `input_required`, and are sent again with the answers.

use std::sync::{Arc, Mutex};

use crate::support::{FakeTransport, answering, caller, caller_with, required};
use serde_json::json;
use wharf_client::{CallOptions, ClientHandlerBuilder, args};
use wharf_model::{
    ClientRequest, ElicitForm, ElicitResult, Error, ErrorKind, Outcome, PromptResult, ReadResult,
    Reply, Request, Root, SamplingRequest, SamplingResult, ToolResult,
};

fn form() -> ClientRequest {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer", "default": 7}}});
    ClientRequest::Elicit(Box::new(ElicitForm::new("?", schema)))
}

fn everything() -> ClientHandlerBuilder {
    ClientHandlerBuilder::new()
        .elicit(async |_| Ok(ElicitResult::accept(json!({}))))
        .sample(async |_| Ok(SamplingResult::new("m", "Paris")))
        .fixed_roots([Root::new("file:///a")])
}

#[tokio::test]
async fn answers_are_sent_by_key_with_the_request_state_unchanged() {
    let sample = ClientRequest::Sample(Box::new(SamplingRequest::new(10).user("?")));
    let state = " {\"odd\": \\ \u{e9}} ";
    let asked = vec![("a\"b", form()), ("s", sample), ("r", ClientRequest::Roots)];
    let transport = FakeTransport::default()
        .then(required(asked, Some(state)))
        .then(required(vec![("again", ClientRequest::Roots)], None))
        .then(ToolResult::text("done"))
        .transport();
    let result = answering(&transport, everything()).call("t", args! { x: 1 }).await.unwrap();
    assert_eq!(result, ToolResult::text("done"));
    let roots = json!({"roots": [{"uri": "file:///a"}]});
    let sent = transport.params();
    assert_eq!(sent[0], json!({"name": "t", "arguments": {"x": 1}}));
    assert_eq!(
        sent[1],
        json!({"name": "t", "arguments": {"x": 1}, "requestState": state, "inputResponses": {
            "a\"b": {"action": "accept", "content": {"n": 7}},
            "s": {"role": "assistant", "content": {"type": "text", "text": "Paris"}, "model": "m"},
            "r": roots.clone(),
        }})
    );
    // Fields that the last result lacked are not sent.
    let last = json!({"name": "t", "arguments": {"x": 1}, "inputResponses": {"again": roots}});
    assert_eq!(sent[2], last);
}

#[tokio::test]
async fn resources_and_prompts_may_require_input_as_well() {
    let ask = || required(vec![("r", ClientRequest::Roots)], Some("s"));
    let transport = FakeTransport::default()
        .then(ask())
        .then(Reply::Read(ReadResult::default()))
        .then(ask())
        .then(Reply::Prompt(PromptResult::default()))
        .transport();
    let caller = answering(&transport, everything());
    caller.read("a:b").await.unwrap();
    caller.prompt("p", args! { a: "b" }).await.unwrap();
    assert_eq!(transport.params()[1]["requestState"], "s");
    assert_eq!(transport.params()[3]["arguments"], json!({"a": "b"}));
}

#[tokio::test]
async fn endless_input_rounds_end_with_a_clear_error() {
    let ask = |_: Request| required(vec![("r", ClientRequest::Roots)], Some("the same"));
    let transport = FakeTransport::default().always(ask).transport();
    let error = answering(&transport, everything()).call("t", ()).await.unwrap_err();
    assert!(error.kind().is_validation_failed() && error.message().contains("rounds"), "{error}");
    assert_eq!(transport.count(), 9);
    let transport = FakeTransport::default().always(ask).transport();
    let options = CallOptions::default().rounds(0);
    caller_with(&transport, everything(), options).call("t", ()).await.unwrap_err();
    assert_eq!(transport.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_deferred_call_is_retried_later() {
    let transport = FakeTransport::default()
        .then(required(vec![], Some("1")))
        .then(required(vec![], Some("2")))
        .then(ToolResult::text("done"))
        .transport();
    caller(&transport).call("t", ()).await.unwrap();
    let last = transport.params()[2].clone();
    assert_eq!(last, json!({"name": "t", "requestState": "2"}));
    let transport = FakeTransport::default().always(|_| required(vec![], Some("s"))).transport();
    let error = caller(&transport).call("t", ()).await.unwrap_err();
    assert!(error.message().contains("deferred the call 8 times"), "{error}");
}

#[tokio::test]
async fn input_requests_that_violate_the_protocol_end_the_call() {
    let many = (0..65).map(|_| ("k", ClientRequest::Roots)).collect::<Vec<_>>();
    let numbered: Vec<String> = (0..65).map(|n| n.to_string()).collect();
    let numbered = numbered.iter().map(|key| (&**key, ClientRequest::Roots)).collect();
    for (outcome, problem) in [
        (required(vec![], None), "without requests"),
        (required(many, None), "two input requests with the same key"),
        (required(numbered, None), "more than 64 input requests"),
    ] {
        let transport = FakeTransport::default().then(outcome).transport();
        let error = answering(&transport, everything()).call("t", ()).await.unwrap_err();
        assert!(
            error.kind().is_validation_failed() && error.message().contains(problem),
            "{error}"
        );
        assert_eq!(transport.count(), 1);
    }
}

#[tokio::test]
async fn a_server_request_without_a_handler_ends_the_call() {
    let transport =
        FakeTransport::default().always(|_| required(vec![("f", form())], None)).transport();
    let error = caller(&transport).call("t", ()).await.unwrap_err();
    assert!(error.kind().is_method_not_found(), "{error}");
    let refusing = ClientHandlerBuilder::new()
        .elicit(async |_| Err(Error::new(ErrorKind::RefusedPolicy).with_message("not today")));
    let error = answering(&transport, refusing).call("t", ()).await.unwrap_err();
    assert!(error.message() == "not today" && transport.count() == 2);
}

#[tokio::test]
async fn a_declined_elicitation_is_an_answer() {
    let transport = FakeTransport::default()
        .then(required(vec![("f", form())], None))
        .then(ToolResult::error("declined"))
        .transport();
    let declining = ClientHandlerBuilder::new().elicit(async |_| Ok(ElicitResult::decline()));
    assert!(answering(&transport, declining).call("t", ()).await.unwrap().is_error);
    assert_eq!(transport.params()[1]["inputResponses"], json!({"f": {"action": "decline"}}));
}

#[tokio::test]
async fn dropping_a_call_between_rounds_drops_its_answers() {
    struct DropCounter(Arc<Mutex<usize>>);
    impl Drop for DropCounter {
        fn drop(&mut self) {
            *self.0.lock().unwrap() += 1;
        }
    }
    let dropped = Arc::new(Mutex::new(0));
    let count = dropped.clone();
    let never = ClientHandlerBuilder::new().roots(move || {
        let guard = DropCounter(count.clone());
        async move {
            std::future::pending::<()>().await;
            drop(guard);
            Ok(vec![])
        }
    });
    let transport = FakeTransport::default()
        .then(required(vec![("r", ClientRequest::Roots)], None))
        .transport();
    let mut call = answering(&transport, never).call("t", ()).into_future();
    assert!(crate::support::poll_once(&mut call).is_pending());
    drop(call);
    assert_eq!((*dropped.lock().unwrap(), transport.count()), (1, 1));
}

#[tokio::test]
async fn results_of_input_rounds_are_never_cached() {
    let hint = wharf_model::CacheHint::private(60_000);
    let read = move || Outcome::from(Reply::Read(ReadResult::default().cache(hint)));
    let transport = FakeTransport::default()
        .then(required(vec![("r", ClientRequest::Roots)], None))
        .then(read())
        .then(read())
        .transport();
    let caller = answering(&transport, everything());
    for _ in 0..3 {
        caller.read("a:b").await.unwrap();
    }
    // The second read bypassed the cache; its result was cached for the third.
    assert_eq!(transport.count(), 3);
}
