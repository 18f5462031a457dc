//! Tools: arguments, results and errors.

use crate::support::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use wharf_model::{Content, Error, ErrorKind, Method, Principal, Reply, ToolResult};
use wharf_server::{Args, Ctx, Extension, Json, RawArgs, Router, State, Tool, ToolError};

#[derive(Deserialize, JsonSchema)]
struct Add {
    /// The first number.
    a: i64,
    b: i64,
}

#[derive(Serialize, JsonSchema)]
struct Sum {
    sum: i64,
}

async fn add(Args(Add { a, b }): Args<Add>) -> i64 {
    a + b
}

fn with(tool: Tool) -> Router {
    Router::builder().add(tool).build().unwrap()
}

#[test]
fn a_typed_tool_lists_its_schema_and_can_be_called() {
    let tool = Tool::new("add", add).description("Adds.").title("Add").read_only();
    assert_eq!(
        **tool.info().input_schema,
        json!({
            "type": "object",
            "properties": {
                "a": {"type": "integer", "description": "The first number."},
                "b": {"type": "integer"},
            },
            "required": ["a", "b"],
        })
    );
    let router = with(tool);
    assert_eq!(text(now(&router, call("add", r#"{"a":1,"b":2}"#))), "3");
    assert_eq!(text(now(&router, call("add", r#"{"a":1.0,"b":2}"#))), "3");
}

#[test]
fn properties_keep_the_order_of_the_signature() {
    #[derive(Deserialize, JsonSchema)]
    #[allow(dead_code)]
    struct Zebra {
        z: u8,
        a: u8,
        m: u8,
    }
    let tool = Tool::new("z", async |_: Args<Zebra>| ());
    let names: Vec<_> =
        tool.info().input_schema["properties"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["z", "a", "m"]);
}

#[test]
fn a_tool_without_arguments_has_an_empty_schema() {
    let tool = Tool::new("ping", async || "pong");
    assert_eq!(
        **tool.info().input_schema,
        json!({"type": "object", "additionalProperties": false})
    );
    let router = with(tool);
    assert_eq!(text(now(&router, call("ping", "{}"))), "pong");
    let request = wharf_model::RequestBuilder::new(Method::CallTool).target("ping").build();
    assert_eq!(text(now(&router, request)), "pong");
    assert_eq!(text(now(&router, call("ping", "null"))), "pong");
    assert_eq!(kind(now(&router, call("ping", r#"{"x":1}"#))), ErrorKind::InvalidToolArguments);
}

#[test]
fn json_is_structured_and_text_with_a_schema() {
    let tool = Tool::new("sum", async |Args(Add { a, b }): Args<Add>| Json(Sum { sum: a + b }));
    let schema = tool.info().output_schema.clone().unwrap();
    assert_eq!(schema["properties"], json!({"sum": {"type": "integer"}}));
    assert_eq!(schema["type"], "object");
    assert!(schema.get("title").is_none() && schema.get("$schema").is_none());
    let result = crate::support::tool(now(&with(tool), call("sum", r#"{"a":1,"b":2}"#)));
    assert_eq!(result.structured.unwrap().get(), r#"{"sum":3}"#);
    assert_eq!(result.content, [Content::text(r#"{"sum":3}"#)]);
}

#[test]
fn any_json_needs_no_output_schema() {
    let tool = Tool::new("any", async || Json(json!([1, null])));
    assert!(tool.info().output_schema.is_none());
    let result = crate::support::tool(now(&with(tool), call("any", "{}")));
    assert_eq!(result.structured.unwrap().get(), "[1,null]");
}

#[test]
fn everything_a_tool_may_return() {
    let router = Router::builder()
        .add(Tool::new("string", async || String::from("s")))
        .add(Tool::new("str", async || "s"))
        .add(Tool::new("float", async || 0.5))
        .add(Tool::new("bool", async || true))
        .add(Tool::new("unit", async || ()))
        .add(Tool::new("content", async || Content::image([1, 2], "image/png")))
        .add(Tool::new("list", async || vec![Content::text("a"), Content::text("b")]))
        .add(Tool::new("array", async || [Content::text("a"), Content::link("x:y", "y")]))
        .add(Tool::new("result", async || ToolResult::text("r").with_meta("k", 1)))
        .add(Tool::new("ok", async || Ok::<_, ToolError>("fine")))
        .build()
        .unwrap();
    let run = |name: &str| crate::support::tool(now(&router, call(name, "{}")));
    assert_eq!(run("string").content, [Content::text("s")]);
    assert_eq!(run("str").content, [Content::text("s")]);
    assert_eq!(run("float").content, [Content::text("0.5")]);
    assert_eq!(run("bool").content, [Content::text("true")]);
    assert_eq!(run("unit"), ToolResult::default());
    assert!(matches!(run("content").content[..], [Content::Image(_)]));
    assert_eq!(run("list").content.len(), 2);
    assert!(matches!(run("array").content[..], [Content::Text(_), Content::Link(_)]));
    assert_eq!(run("result").meta.unwrap()["k"], 1);
    assert_eq!(run("ok").content, [Content::text("fine")]);
}

#[test]
fn an_error_is_internal_or_a_text_for_the_model() {
    #[derive(Debug)]
    struct Outer(std::num::ParseIntError);
    impl std::fmt::Display for Outer {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("cannot read the order")
        }
    }
    impl std::error::Error for Outer {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            Some(&self.0)
        }
    }
    let router = Router::builder()
        .add(Tool::new("std", async || Ok::<_, ToolError>("x".parse::<i64>()?)))
        .add(Tool::new("outer", async || Err::<(), _>(Outer("x".parse::<i64>().unwrap_err()))))
        .add(Tool::new("shown", async || "x".parse::<i64>().map_err(ToolError::new)))
        .add(Tool::new("text", async || Err::<(), _>(ToolError::new("try again"))))
        .add(Tool::new("named", async || Err::<(), _>(Error::new(ErrorKind::RefusedPolicy))))
        .add(Tool::new("question", async || {
            Err::<(), _>(Error::new(ErrorKind::AccessDenied))?;
            Ok::<_, ToolError>(())
        }))
        .build()
        .unwrap();
    let failed = |name: &str| {
        let result = crate::support::tool(now(&router, call(name, "{}")));
        assert!(result.is_error);
        result.content[0].as_text().unwrap().to_owned()
    };
    for (name, source) in
        [("std", "invalid digit found in string"), ("outer", "cannot read the order")]
    {
        let internal = error(now(&router, call(name, "{}")));
        assert_eq!(internal, Error::new(ErrorKind::ToolExecutionFailed));
        let logged = std::error::Error::source(&internal).unwrap();
        assert_eq!(logged.to_string(), source);
    }
    assert_eq!(failed("shown"), "invalid digit found in string");
    assert_eq!(failed("text"), "try again");
    assert_eq!(kind(now(&router, call("named", "{}"))), ErrorKind::RefusedPolicy);
    assert_eq!(kind(now(&router, call("question", "{}"))), ErrorKind::AccessDenied);
}

#[test]
fn a_missing_capability_error_keeps_its_kind() {
    use wharf_model::ClientCapability;
    use wharf_server::ClientRequestError;
    let lacking = || ClientRequestError::Unsupported(ClientCapability::Sampling);
    let outcome = ToolError::from(lacking()).into_outcome();
    assert_eq!(kind(outcome), ErrorKind::MissingClientCapability);
    let declined =
        crate::support::tool(ToolError::from(ClientRequestError::Declined).into_outcome());
    assert!(declined.is_error);
}

#[test]
fn an_error_of_a_step_keeps_its_text() {
    use wharf_server::StepError;
    let spent = crate::support::tool(ToolError::from(StepError::Spent).into_outcome());
    assert_eq!(spent.content[0].as_text().unwrap(), StepError::Spent.to_string());
    let store = StepError::Store(Error::new(ErrorKind::Overloaded));
    assert_eq!(kind(ToolError::from(store).into_outcome()), ErrorKind::Overloaded);
}

#[test]
fn wrong_arguments_are_explained_so_that_a_model_can_correct_them() {
    let router = with(Tool::new("add", add));
    let error = error(now(&router, call("add", r#"{"a":"one"}"#)));
    assert_eq!(error.kind, ErrorKind::InvalidToolArguments);
    for part in ["`add`", "`a`", "integer", "\"b\"", "required", "a: integer, b: integer"] {
        assert!(error.message.contains(part), "{part}: {}", error.message);
    }
    assert_eq!(kind(now(&router, call("add", "[]"))), ErrorKind::InvalidToolArguments);
    assert_eq!(kind(now(&router, call("add", "null"))), ErrorKind::InvalidToolArguments);
}

#[test]
fn a_huge_wrong_argument_gives_a_short_text() {
    let router = with(Tool::new("add", add));
    let arguments = json!({"a": "x".repeat(1_000_000), "b": ["y".repeat(1_000_000)]}).to_string();
    assert!(error(now(&router, call("add", &arguments))).message.len() < 4096);
}

#[test]
fn schema_constraints_beyond_the_type_are_enforced() {
    #[derive(Deserialize, JsonSchema)]
    struct Order {
        #[schemars(range(min = 1, max = 10))]
        count: u32,
        #[schemars(regex(pattern = "^[a-z]+$"))]
        name: Option<String>,
        #[schemars(email)]
        mail: Option<String>,
    }
    let router = with(Tool::new("order", async |Args(it): Args<Order>| {
        let _ = (it.name, it.mail);
        it.count
    }));
    let bad = |arguments: &str| error(now(&router, call("order", arguments))).message.into_owned();
    assert_eq!(text(now(&router, call("order", r#"{"count":10}"#))), "10");
    assert!(bad(r#"{"count":11}"#).contains("`count`"));
    assert!(bad(r#"{"count":1,"name":"A"}"#).contains("`name`"));
    assert!(bad(r#"{"count":1,"mail":"nobody"}"#).contains("`mail`"));
}

#[test]
fn a_runtime_tool_validates_arguments_and_results() {
    let input = json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {"n": {"type": "integer", "minimum": 1}},
        "required": ["n"],
    });
    let output =
        json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let tool = Tool::dynamic("echo", input, async |RawArgs(json): RawArgs| {
        let swapped = json.get().replace("5", "\"five\"");
        ToolResult::json(&serde_json::from_str::<serde_json::Value>(&swapped).unwrap()).unwrap()
    })
    .output_schema(output);
    let router = with(tool);
    assert_eq!(text(now(&router, call("echo", r#"{"n":2}"#))), r#"{"n":2}"#);
    assert_eq!(kind(now(&router, call("echo", r#"{"n":0}"#))), ErrorKind::InvalidToolArguments);
    assert_eq!(kind(now(&router, call("echo", "{}"))), ErrorKind::InvalidToolArguments);
    assert_eq!(kind(now(&router, call("echo", r#"{"n":5}"#))), ErrorKind::OutputSchemaMismatch);
}

#[test]
fn an_empty_object_is_validated_too() {
    let schema = json!({"type": "object", "minProperties": 1});
    let router = with(Tool::dynamic("t", schema, async |_: RawArgs| ()));
    assert_eq!(kind(now(&router, call("t", "{}"))), ErrorKind::InvalidToolArguments);
}

#[test]
fn a_result_without_structured_content_breaks_its_output_schema() {
    let schema = json!({"type": "object"});
    let router = Router::builder()
        .add(Tool::new("plain", async || "text").output_schema(schema.clone()))
        .add(Tool::new("error", async || ToolResult::error("no")).output_schema(schema))
        .build()
        .unwrap();
    assert_eq!(kind(now(&router, call("plain", "{}"))), ErrorKind::OutputSchemaMismatch);
    assert!(crate::support::tool(now(&router, call("error", "{}"))).is_error);
}

#[test]
fn extractors_provide_state_principal_extension_and_context() {
    #[derive(Clone)]
    struct Db(&'static str);
    #[derive(Clone)]
    struct Region(&'static str);
    let tool = Tool::new(
        "all",
        async |State(db): State<Db>,
               principal: Principal,
               region: Option<Extension<Region>>,
               Args(Add { a, b }): Args<Add>,
               ctx: Ctx| {
            let region = region.map_or("none", |Extension(Region(name))| name);
            format!("{} {} {region} {} {}", db.0, principal.id(), a + b, ctx.is_cancelled())
        },
    );
    let router = Router::builder().state(Db("db")).add(tool).build().unwrap();
    let request = || by(call("all", r#"{"a":1,"b":1}"#), "alice");
    assert_eq!(text(now(&router, request())), "db alice none 2 false");
    let mut with_region = request();
    with_region.scope.insert(Region("eu"));
    assert_eq!(text(now(&router, with_region)), "db alice eu 2 false");
    let anonymous = call("all", r#"{"a":1,"b":1}"#);
    assert_eq!(kind(now(&router, anonymous)), ErrorKind::Unauthenticated);
}

#[test]
fn a_missing_extension_is_an_internal_error() {
    let router = with(Tool::new("x", async |Extension(n): Extension<u8>| n));
    assert_eq!(kind(now(&router, call("x", "{}"))), ErrorKind::InternalError);
}

#[test]
fn unknown_tools_are_named() {
    let error = error(now(&with(Tool::new("a", async || ())), call("b", "{}")));
    assert_eq!((error.kind, &*error.message), (ErrorKind::ToolNotFound, "Unknown tool: b"));
}

#[test]
fn panics_anywhere_are_error_results() {
    #[derive(JsonSchema)]
    struct Grenade;
    impl<'de> Deserialize<'de> for Grenade {
        fn deserialize<D: serde::Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
            panic!("in extraction")
        }
    }
    #[derive(Deserialize, JsonSchema)]
    #[allow(dead_code)]
    struct Holder {
        grenade: Grenade,
    }
    fn boom() -> String {
        panic!("secret")
    }
    let router = Router::builder()
        .add(Tool::new("future", async || boom()))
        .add(Tool::inline("inline", boom))
        .add(Tool::new("extract", async |_: Args<Holder>| ()))
        .build()
        .unwrap();
    for (name, arguments) in [("future", "{}"), ("inline", "{}"), ("extract", r#"{"grenade":1}"#)] {
        let result = crate::support::tool(now(&router, call(name, arguments)));
        assert!(result.is_error, "{name}");
        assert!(!result.content[0].as_text().unwrap().contains("secret"));
    }
}

#[test]
fn twelve_parameters_fit() {
    type E = Option<Extension<u8>>;
    let tool = Tool::new(
        "twelve",
        async |_: E, _: E, _: E, _: E, _: E, _: E, _: E, _: E, _: E, _: E, _: E, _: E| "ok",
    );
    assert_eq!(text(now(&with(tool), call("twelve", "{}"))), "ok");
}

#[test]
fn a_server_without_tools_has_no_tool_methods() {
    let router = Router::builder().build().unwrap();
    for method in [Method::ListTools, Method::CallTool] {
        let error = error(now(&router, list(method)));
        assert_eq!(error.kind, ErrorKind::CapabilityNotSupported);
        assert_eq!(error.data.unwrap()["method"], method.name());
    }
    assert!(matches!(
        now(&router, list(Method::Discover)),
        wharf_model::Outcome::Complete(Reply::Discover(_))
    ));
    assert_eq!(kind(now(&router, list(Method::Sample))), ErrorKind::MethodNotFound);
}

#[derive(Deserialize, JsonSchema)]
#[allow(dead_code)]
struct Place {
    city: String,
    #[schemars(range(max = 90))]
    latitude: i8,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Speed {
    Fast,
    Slow,
}

#[derive(Deserialize, JsonSchema)]
#[allow(dead_code)]
struct Trip {
    from: Option<Place>,
    speed: Speed,
    to: Place,
}

#[test]
fn errors_in_an_optional_struct_name_the_field() {
    let router = with(Tool::inline("go", |_: Args<Trip>| ()));
    let told = |from: serde_json::Value| {
        let arguments =
            json!({"from": from, "speed": "fast", "to": {"city": "Rome", "latitude": 41}});
        error(now(&router, call("go", &arguments.to_string()))).message.into_owned()
    };
    for (from, expected) in [
        (json!({"city": 1, "latitude": 1}), "- `from.city`: 1 is not of type \"string\""),
        (json!({"latitude": 1}), "- `from`: \"city\" is a required property"),
        (json!({"city": "x", "latitude": 91}), "- `from.latitude`: 91 is greater than"),
    ] {
        let text = told(from);
        assert!(text.contains(expected) && !text.contains("any of"), "{text}");
    }
    let text = told(json!(1));
    let takes = "It takes: from?: object or null, speed: \"fast\" or \"slow\", to: object";
    assert!(text.contains(takes), "{text}");
}
