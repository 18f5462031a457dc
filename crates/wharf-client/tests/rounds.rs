//! Calls that end to ask, and are sent again with the answers.
#![allow(clippy::unwrap_used)]

mod support;

use std::sync::{Arc, Mutex};

use serde_json::json;
use support::{Fake, answering, caller, caller_with, required};
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
async fn answers_go_back_under_their_keys_with_the_state_untouched() {
    let sample = ClientRequest::Sample(Box::new(SamplingRequest::new(10).user("?")));
    let state = " {\"odd\": \\ \u{e9}} ";
    let asked = vec![("a\"b", form()), ("s", sample), ("r", ClientRequest::Roots)];
    let link = Fake::default()
        .then(required(asked, Some(state)))
        .then(required(vec![("again", ClientRequest::Roots)], None))
        .then(ToolResult::text("done"))
        .link();
    let result = answering(&link, everything()).call("t", args! { x: 1 }).await.unwrap();
    assert_eq!(result, ToolResult::text("done"));
    let roots = json!({"roots": [{"uri": "file:///a"}]});
    let sent = link.params();
    assert_eq!(sent[0], json!({"name": "t", "arguments": {"x": 1}}));
    assert_eq!(
        sent[1],
        json!({"name": "t", "arguments": {"x": 1}, "requestState": state, "inputResponses": {
            "a\"b": {"action": "accept", "content": {"n": 7}},
            "s": {"role": "assistant", "content": {"type": "text", "text": "Paris"}, "model": "m"},
            "r": roots.clone(),
        }})
    );
    // What the last round did not give is not sent.
    let last = json!({"name": "t", "arguments": {"x": 1}, "inputResponses": {"again": roots}});
    assert_eq!(sent[2], last);
}

#[tokio::test]
async fn resources_and_prompts_may_ask_as_well() {
    let ask = || required(vec![("r", ClientRequest::Roots)], Some("s"));
    let link = Fake::default()
        .then(ask())
        .then(Reply::Read(ReadResult::default()))
        .then(ask())
        .then(Reply::Prompt(PromptResult::default()))
        .link();
    let caller = answering(&link, everything());
    caller.read("a:b").await.unwrap();
    caller.prompt("p", args! { a: "b" }).await.unwrap();
    assert_eq!(link.params()[1]["requestState"], "s");
    assert_eq!(link.params()[3]["arguments"], json!({"a": "b"}));
}

#[tokio::test]
async fn a_server_that_asks_for_ever_is_left_with_a_clear_error() {
    let ask = |_: Request| required(vec![("r", ClientRequest::Roots)], Some("the same"));
    let link = Fake::default().always(ask).link();
    let error = answering(&link, everything()).call("t", ()).await.unwrap_err();
    assert!(error.kind.is_validation_failed() && error.message.contains("rounds"), "{error}");
    assert_eq!(link.count(), 9);
    let link = Fake::default().always(ask).link();
    let options = CallOptions::default().rounds(0);
    caller_with(&link, everything(), options).call("t", ()).await.unwrap_err();
    assert_eq!(link.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_only_puts_a_call_off_is_asked_again_later() {
    let link = Fake::default()
        .then(required(vec![], Some("1")))
        .then(required(vec![], Some("2")))
        .then(ToolResult::text("done"))
        .link();
    caller(&link).call("t", ()).await.unwrap();
    let last = link.params()[2].clone();
    assert_eq!(last, json!({"name": "t", "requestState": "2"}));
    let link = Fake::default().always(|_| required(vec![], Some("s"))).link();
    let error = caller(&link).call("t", ()).await.unwrap_err();
    assert!(error.message.contains("deferred the call 8 times"), "{error}");
}

#[tokio::test]
async fn questions_that_break_the_protocol_end_the_call() {
    let many = (0..65).map(|_| ("k", ClientRequest::Roots)).collect::<Vec<_>>();
    let numbered: Vec<String> = (0..65).map(|n| n.to_string()).collect();
    let numbered = numbered.iter().map(|key| (&**key, ClientRequest::Roots)).collect();
    for (outcome, problem) in [
        (required(vec![], None), "without requests"),
        (required(many, None), "two input requests with the same key"),
        (required(numbered, None), "more than 64 input requests"),
    ] {
        let link = Fake::default().then(outcome).link();
        let error = answering(&link, everything()).call("t", ()).await.unwrap_err();
        assert!(error.kind.is_validation_failed() && error.message.contains(problem), "{error}");
        assert_eq!(link.count(), 1);
    }
}

#[tokio::test]
async fn a_question_nobody_answers_ends_the_call() {
    let link = Fake::default().always(|_| required(vec![("f", form())], None)).link();
    let error = caller(&link).call("t", ()).await.unwrap_err();
    assert!(error.kind.is_method_not_found(), "{error}");
    let refusing = ClientHandlerBuilder::new()
        .elicit(async |_| Err(Error::new(ErrorKind::RefusedPolicy).with_message("not today")));
    let error = answering(&link, refusing).call("t", ()).await.unwrap_err();
    assert!(error.message == "not today" && link.count() == 2);
}

#[tokio::test]
async fn the_users_no_is_an_answer() {
    let link = Fake::default()
        .then(required(vec![("f", form())], None))
        .then(ToolResult::error("declined"))
        .link();
    let declining = ClientHandlerBuilder::new().elicit(async |_| Ok(ElicitResult::decline()));
    assert!(answering(&link, declining).call("t", ()).await.unwrap().is_error);
    assert_eq!(link.params()[1]["inputResponses"], json!({"f": {"action": "decline"}}));
}

#[tokio::test]
async fn dropping_a_call_between_rounds_drops_its_answers() {
    struct Dropped(Arc<Mutex<usize>>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            *self.0.lock().unwrap() += 1;
        }
    }
    let dropped = Arc::new(Mutex::new(0));
    let count = dropped.clone();
    let never = ClientHandlerBuilder::new().roots(move || {
        let guard = Dropped(count.clone());
        async move {
            std::future::pending::<()>().await;
            drop(guard);
            Ok(vec![])
        }
    });
    let link = Fake::default().then(required(vec![("r", ClientRequest::Roots)], None)).link();
    let mut call = answering(&link, never).call("t", ()).into_future();
    assert!(support::poll_once(&mut call).is_pending());
    drop(call);
    assert_eq!((*dropped.lock().unwrap(), link.count()), (1, 1));
}

#[tokio::test]
async fn results_of_retries_are_never_kept() {
    let hint = wharf_model::CacheHint::private(60_000);
    let read = move || Outcome::from(Reply::Read(ReadResult::default().cache(hint)));
    let link = Fake::default()
        .then(required(vec![("r", ClientRequest::Roots)], None))
        .then(read())
        .then(read())
        .link();
    let caller = answering(&link, everything());
    for _ in 0..3 {
        caller.read("a:b").await.unwrap();
    }
    // The second read asked the server again; its own result was kept for the third.
    assert_eq!(link.count(), 3);
}
