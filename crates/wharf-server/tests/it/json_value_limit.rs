//! Limit on the number of values in a JSON document, checked before it is parsed into a tree.

use std::sync::Arc;

use crate::support::{call, completion, get, messages, now, text};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use wharf_model::{
    ClientCapability, ElicitResult, ErrorKind, InputMode, Method, Outcome, Peer, RequestBuilder,
};
use wharf_server::{Args, CallLimits, Ctx, HandlerTest, Prompt, RawArgs, Router, Tool};

const MOST: usize = 1_000;

#[derive(Deserialize, JsonSchema)]
struct Plain {
    list: Vec<u8>,
}

#[derive(Deserialize, JsonSchema)]
struct Checked {
    #[schemars(length(min = 1))]
    list: Vec<u8>,
}

#[derive(Deserialize, JsonSchema)]
struct WordArgs {
    word: Option<String>,
}

fn router() -> Router {
    let schema = json!({"type": "object", "properties": {"list": {"minItems": 1}}});
    Router::builder()
        .limits(CallLimits::default().argument_values(MOST))
        .add(Tool::inline("plain", |Args(it): Args<Plain>| it.list.len()))
        .add(Tool::inline("checked", |Args(it): Args<Checked>| it.list.len()))
        .add(Tool::dynamic("dynamic", schema, async |_: RawArgs| "taken"))
        .add(
            Prompt::inline("prompt", |Args(it): Args<WordArgs>| it.word.unwrap_or_default())
                .complete_from("word", ["hello"]),
        )
        .build()
        .unwrap()
}

/// Arguments with this number of values: an object, its list, and the items.
fn arguments(values: usize, item: &str) -> String {
    format!(r#"{{"list":[{}]}}"#, vec![item; values - 2].join(","))
}

fn refused(outcome: Outcome, expected: ErrorKind) {
    let error = crate::support::error(outcome);
    assert_eq!(error.kind, expected);
    assert!(error.message.contains("more than 1000 values"), "{}", error.message);
}

#[test]
fn schema_validation_is_limited_in_values() {
    let router = router();
    for tool in ["checked", "dynamic"] {
        crate::support::tool(now(&router, call(tool, &arguments(MOST, "0"))));
        let outcome = now(&router, call(tool, &arguments(MOST + 1, "0")));
        refused(outcome, ErrorKind::InvalidToolArguments);
    }
    // Commas in a string are not values.
    let long = format!(r#"{{"list":["{}"]}}"#, "[{,".repeat(MOST));
    assert_eq!(text(now(&router, call("dynamic", &long))), "taken");
}

#[test]
fn a_type_reads_any_number_of_values() {
    let router = router();
    assert_eq!(text(now(&router, call("plain", &arguments(100_002, "0")))), "100000");
}

#[test]
fn lenient_parsing_is_limited_in_values() {
    let router = router();
    assert_eq!(text(now(&router, call("plain", &arguments(MOST, "1.0")))), "998");
    let outcome = now(&router, call("plain", &arguments(MOST + 1, "1.0")));
    refused(outcome, ErrorKind::InvalidToolArguments);
}

#[test]
fn prompts_and_completions_have_the_limit_too() {
    let router = router();
    messages(now(&router, get("prompt", &arguments(MOST, "0"))));
    let outcome = now(&router, get("prompt", &arguments(MOST + 1, "0")));
    refused(outcome, ErrorKind::InvalidPromptArguments);

    // Eight values in addition to those in the list: three objects, four strings and the list.
    let complete = |values: usize| {
        let items = vec!["0"; values - 8].join(",");
        let reference = format!(r#"{{"type":"ref/prompt","name":"prompt","x":[{items}]}}"#);
        now(&router, crate::support::complete(&reference, "word", "h"))
    };
    assert_eq!(completion(complete(MOST)).values, ["hello"]);
    refused(complete(MOST + 1), ErrorKind::InvalidParams);
}

#[tokio::test]
async fn client_responses_have_the_limit_too() {
    async fn ask(ctx: Ctx) -> String {
        assert!(ctx.can(ClientCapability::Elicitation));
        let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
        format!("{:?}", ctx.ask_form("n", "How many?", schema).await)
    }
    let limits = CallLimits::default().argument_values(MOST);
    let router =
        crate::context_support::builder(Tool::new("ask", ask)).limits(limits).build().unwrap();
    // A response has its action and its content; the content has `n`, `x` and the items of the
    // list.
    let answer = |values: usize| ElicitResult::accept(json!({"n": 1, "x": vec![0; values - 5]}));
    let test = |values| HandlerTest::tool(&router, "ask").answer("n", answer(values));
    assert!(test(MOST).run(InputMode::Deliver).await.text().starts_with("Ok"));
    let refused_text = test(MOST + 1).run(InputMode::Deliver).await.text();
    assert!(refused_text.contains("more than 1000 values"), "{refused_text}");

    let responses = |values| {
        let answers = json!({"n": answer(values)}).to_string();
        let request =
            RequestBuilder::new(Method::CallTool).target("ask").input_responses(&answers).build();
        let peer = Arc::new(Peer::new(None, crate::context_support::everything()));
        let mut request = request.from_peer(peer);
        request.asks = InputMode::Suspend;
        now(&router, request)
    };
    assert!(text(responses(MOST - 1)).starts_with("Ok"));
    refused(responses(MOST), ErrorKind::InvalidParams);
}
