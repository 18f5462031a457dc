//! Hostile input from clients: nothing panics, blocks or grows without bound. A test that would
//! take forever is ended by nextest and fails.

use std::sync::{Arc, LazyLock};

use crate::support::*;
use proptest::prelude::*;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use wharf_model::{Body, ErrorKind, InputMode, Method, Outcome, Peer, Request, RequestBuilder};
use wharf_server::{Args, ClientRequestError, Ctx, Prompt, RawArgs, Resource, Router, Tool, Uri};

#[derive(Deserialize, JsonSchema)]
#[serde(tag = "op")]
#[allow(dead_code)]
enum Expression {
    Negate { of: Box<Expression> },
    Absolute { of: Box<Expression> },
    Number { n: i64 },
}

#[derive(Deserialize, JsonSchema)]
#[allow(dead_code)]
struct Evaluate {
    expression: Expression,
}

fn nested(depth: usize, inner: &str, open: &str) -> String {
    format!("{}{inner}{}", open.repeat(depth), "}".repeat(depth))
}

#[test]
fn a_wrong_value_of_a_recursive_type_is_refused_at_once() {
    let tool = Tool::inline("evaluate", |_: Args<Evaluate>| "evaluated");
    let router = Router::builder().add(tool).build().unwrap();
    let expression = |depth, leaf: &str| {
        let value = nested(depth, leaf, r#"{"op":"Negate","of":"#);
        now(&router, call("evaluate", &format!(r#"{{"expression":{value}}}"#)))
    };
    assert_eq!(text(expression(50, r#"{"op":"Number","n":1}"#)), "evaluated");
    for leaf in [r#"{"op":"Number","n":"x"}"#, r#"{"op":"Halve"}"#, "1"] {
        let refused = error(expression(50, leaf));
        assert_eq!(refused.kind, ErrorKind::InvalidToolArguments);
        assert!(refused.message.len() < 1000, "{}", refused.message);
    }
    // The message of the type's own deserializer is reported when the schema is not consulted.
    assert!(error(expression(50, r#"{"op":"Halve"}"#)).message.contains("Halve"));
}

#[test]
fn a_schema_that_branches_at_each_level_is_validated_quickly() {
    let again = json!({"properties": {"next": {"$ref": "#/$defs/node"}}});
    for keyword in ["allOf", "anyOf", "oneOf"] {
        let node = json!({"type": "object", keyword: [again, again]});
        let schema = json!({"type": "object", "$ref": "#/$defs/node", "$defs": {"node": node}});
        let tool = Tool::dynamic("walk", schema, async |_: RawArgs| "walked");
        let router = Router::builder().add(tool).build().unwrap();
        for leaf in ["{}", "1"] {
            let refused = now(&router, call("walk", &nested(100, leaf, r#"{"next":"#)));
            if leaf == "1" {
                assert!(error(refused).message.contains("too long"), "{keyword}");
            }
        }
    }
}

#[test]
fn raw_arguments_that_are_not_json_are_the_callers_fault() {
    let tool = Tool::dynamic("raw", json!({"type": "object"}), async |_: RawArgs| "read");
    let router = Router::builder().add(tool).build().unwrap();
    let refused = error(now(&router, call("raw", r#"{"id":"",}"#)));
    assert!(refused.kind.is_caller_fault() && refused.message.contains("key must be"), "{refused}");
}

#[test]
fn the_number_of_reported_problems_is_limited() {
    let numbers = json!({"type": "array", "items": {"type": "string"}});
    let schema = json!({"type": "object", "properties": {"texts": numbers}});
    let tool = Tool::dynamic("join", schema, async |_: RawArgs| "joined");
    let router = Router::builder().add(tool).build().unwrap();
    for count in [9, 4_095, 200_000] {
        let texts = vec!["0"; count].join(",");
        let told = error(now(&router, call("join", &format!(r#"{{"texts":[{texts}]}}"#)))).message;
        assert!(told.contains("`texts.0`: 0 is not of type \"string\""), "{told}");
        assert!(told.contains("`texts.7`") && !told.contains("`texts.8`"), "{told}");
    }
}

#[derive(Deserialize, JsonSchema)]
struct Id(#[schemars(range(min = 5))] u64);

#[derive(Deserialize, JsonSchema)]
struct Pick {
    id: Id,
    also: Option<Id>,
    #[serde(default)]
    more: Vec<u32>,
}

#[test]
fn strings_are_validated_as_the_type_they_represent() {
    fn show(Args(Pick { id, also, more }): Args<Pick>) -> String {
        format!("{} {:?} {more:?}", id.0, also.map(|id| id.0))
    }
    let router = Router::builder()
        .add(Prompt::inline("pick", show))
        .add(Resource::inline("pick://{id}{/more*}{?also}", show))
        .build()
        .unwrap();
    let said = |json: &str| {
        let message = messages(now(&router, get("pick", json))).messages.remove(0);
        message.content.as_text().unwrap().to_owned()
    };
    assert_eq!(said(r#"{"id":"7"}"#), "7 None []");
    assert_eq!(said(r#"{"id":"007","also":"9","more":"3"}"#), "7 Some(9) [3]");
    let found = |uri: &str| match &contents(now(&router, read(uri))).contents[0].body {
        Body::Text(text) => text.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(found("pick://7/1/2?also=9"), "7 Some(9) [1, 2]");
    for json in [r#"{"id":"4"}"#, r#"{"id":"7","also":"4"}"#] {
        assert_eq!(kind(now(&router, get("pick", json))), ErrorKind::InvalidPromptArguments);
    }
    for uri in ["pick://4", "pick://7?also=4", "pick://7/x"] {
        assert_eq!(kind(now(&router, read(uri))), ErrorKind::InvalidParams, "{uri}");
    }
}

#[test]
fn duplicate_keys_are_rejected_where_they_are_checked() {
    let schema = json!({"type": "object", "properties": {"amount": {"maximum": 100}}});
    let tool = Tool::dynamic("pay", schema, async |RawArgs(json): RawArgs| json.get().to_owned());
    let router = Router::builder().add(tool).build().unwrap();
    assert_eq!(text(now(&router, call("pay", r#"{"amount":1}"#))), r#"{"amount":1}"#);
    let refused = error(now(&router, call("pay", r#"{"amount":1000,"amount":1}"#)));
    assert_eq!(refused.kind, ErrorKind::InvalidToolArguments);
    assert!(refused.message.contains("`amount` is written twice"), "{}", refused.message);
}

#[test]
fn arguments_are_an_object_even_where_a_type_reads_lists() {
    let router = Router::builder()
        .add(Tool::inline("pick", |Args(pick): Args<Pick>| pick.id.0))
        .add(Tool::inline("raw", |RawArgs(json): RawArgs| json.get().to_owned()))
        .build()
        .unwrap();
    for tool in ["pick", "raw"] {
        for wrong in ["[7,null,[]]", "7", r#""{}""#] {
            let refused = kind(now(&router, call(tool, wrong)));
            assert_eq!(refused, ErrorKind::InvalidToolArguments, "{tool} {wrong}");
        }
    }
    assert_eq!(text(now(&router, call("raw", " {} "))), "{}");
    assert_eq!(text(now(&router, call("pick", r#"{"id":7.0}"#))), "7");
}

#[test]
fn an_error_does_not_repeat_long_values() {
    let router = Router::builder()
        .add(Prompt::inline("pick", |_: Args<Pick>| "picked"))
        .add(Tool::inline("pick", |_: Args<Pick>| "picked"))
        .build()
        .unwrap();
    let long = json!({"id": "x".repeat(1_000_000)}).to_string();
    for request in [get("pick", &long), call("pick", &long)] {
        assert!(error(now(&router, request)).message.len() < 2_000);
    }
}

static EVERYTHING: LazyLock<Router> = LazyLock::new(|| {
    async fn ask(_: RawArgs, ctx: Ctx) -> Result<String, ClientRequestError> {
        let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}});
        ctx.ask_form("k", "What?", schema).await.map(|answer| answer.to_string())
    }
    let schema = json!({"type": "object", "properties": {"s": {"pattern": "^a+$"}}});
    Router::builder()
        .add(Tool::new("ask", ask))
        .add(Tool::dynamic("checked", schema, async |_: RawArgs| "fine"))
        .add(Tool::inline("typed", |_: Args<Evaluate>| "fine"))
        .add(Prompt::inline("pick", |_: Args<Pick>| "picked").complete_from("id", ["1", "2"]))
        .add(Resource::inline("pick://{id}{/more*}{?also}", |_: Args<Pick>| "picked"))
        .add(Resource::inline("any://{+path}{;a,b}{#end}", |_: Uri| "any"))
        .build()
        .unwrap()
});

/// A request from a client that supports form elicitation.
fn able(mut request: Request) -> Request {
    let forms = serde_json::from_value(json!({"elicitation": {"form": {}}})).unwrap();
    request.asks = InputMode::Suspend;
    request.from_peer(Arc::new(Peer::new(None, forms)))
}

#[test]
fn a_hundred_thousand_responses_are_handled() {
    let mut responses: serde_json::Map<String, Value> =
        (0..100_000).map(|n| (n.to_string(), json!({"action": "accept"}))).collect();
    let asking = |responses: &serde_json::Map<_, _>, state: Option<&str>| {
        let request = RequestBuilder::new(Method::CallTool).target("ask");
        let request = request.input_responses(&Value::from(responses.clone()).to_string());
        let request = match state {
            Some(state) => request.request_state(state),
            None => request,
        };
        now(&EVERYTHING, able(request.build()))
    };
    let Outcome::InputRequired(required) = asking(&responses, None) else { panic!() };
    let state = required.state.unwrap();
    // Responses to requests that were not sent are not stored in the state.
    assert!(state.len() < 1000, "{}", state.len());
    let Outcome::InputRequired(required) = asking(&responses, Some(&state)) else { panic!() };
    assert!(required.state.unwrap().len() < 1000);
    responses.insert("k".into(), json!({"action": "accept", "content": {"a": "b"}}));
    assert_eq!(text(asking(&responses, Some(&state))), r#"{"a":"b"}"#);
}

#[test]
fn a_state_is_bound_to_arguments_to_the_last_digit() {
    let asking = |arguments: &str, state: Option<&str>| {
        let request = RequestBuilder::new(Method::CallTool).target("ask").arguments(arguments);
        let request = request.input_responses(r#"{"k":{"action":"accept","content":{"a":"b"}}}"#);
        match state {
            Some(state) => now(&EVERYTHING, able(request.request_state(state).build())),
            None => {
                let request = RequestBuilder::new(Method::CallTool).target("ask");
                now(&EVERYTHING, able(request.arguments(arguments).build()))
            }
        }
    };
    let alike = [
        (r#"{"x":1e999,"amount":1}"#, r#"{"x":1e999,"amount":1000}"#),
        (r#"{"amount":100000000000000000001}"#, r#"{"amount":100000000000000000002}"#),
        (r#"{"amount":1,"amount":5}"#, r#"{"amount":9,"amount":5}"#),
        (r#"{"amount":0.10000000000000000001}"#, r#"{"amount":0.10000000000000000002}"#),
    ];
    for (first, second) in alike {
        let Outcome::InputRequired(required) = asking(first, None) else { panic!() };
        let state = required.state.unwrap();
        assert_eq!(text(asking(first, Some(&state))), r#"{"a":"b"}"#, "{first}");
        assert_eq!(kind(asking(second, Some(&state))), ErrorKind::InvalidRequestState, "{second}");
    }
}

/// Returns whether a handler or the framework panicked.
fn panicked(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Failed(error) => error.kind == ErrorKind::InternalError,
        outcome => format!("{outcome:?}").contains(ErrorKind::ToolPanicked.message()),
    }
}

/// Strings that resemble valid input, and strings that do not.
fn texts() -> impl Strategy<Value = String> {
    prop_oneof![
        ".*",
        "(pick|any)://[a-z0-9%/?=&;#.{}]{0,40}",
        r#"\{("(id|also|more|s|expression)":("[a0-9]*"|[0-9.e-]{1,9}|null|\[\]|\{\}),?){0,3}\}"#,
        (1_usize..400).prop_map(|depth| format!("{}{}", "[".repeat(depth), "]".repeat(depth))),
    ]
}

proptest! {
    #[test]
    fn nothing_that_a_client_sends_panics(a in texts(), b in texts()) {
            let quoted = Value::from(a.as_str()).to_string();
        let mut requests = vec![read(&a), get(&a, &b), get("pick", &b), call(&a, &b)];
        requests.extend(["ask", "checked", "typed"].map(|tool| call(tool, &b)));
        for reference in [json!({"type": "ref/prompt", "name": "pick"}), json!({"type": "ref/resource", "uri": a})] {
            requests.push(complete(&reference.to_string(), "id", &b));
            requests.push(complete(&reference.to_string(), &b, &a));
        }
        requests.push(complete(&b, &quoted, &a));
        let ask = || RequestBuilder::new(Method::CallTool).target("ask");
        requests.push(able(ask().request_state(&a).build()));
        requests.push(able(ask().arguments(&b).input_responses(&b).build()));
        let answered = format!(r#"{{"k":{quoted},"j":{{}}}}"#);
        requests.push(able(ask().input_responses(&answered).meta(&b).build()));
        requests.push(RequestBuilder::new(Method::ListTools).cursor(&a).build());
        requests.push(RequestBuilder::new(Method::Listen).param("notifications", &quoted).build());
        for request in requests {
            let about = format!("{request:?}");
            let outcome = now(&EVERYTHING, request);
            prop_assert!(!panicked(&outcome), "{about}: {outcome:?}");
        }
    }
}
