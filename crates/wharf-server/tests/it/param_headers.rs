//! Arguments that HTTP clients mirror into `Mcp-Param-*` headers.

use crate::support::{call, error, now, start_without_runtime, text};
use serde_json::{Value, json};
use wharf_model::{Error, HeaderParams, Request};
use wharf_server::{RawArgs, Router, Tool};

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "region": {"type": ["string", "null"], "x-mcp-header": "Region"},
            "count": {"type": ["integer", "null"], "x-mcp-header": "Count"},
            "dry": {"type": ["boolean", "null"], "x-mcp-header": "Dry-Run"},
            "query": {},
            "who": {"type": ["object", "null"], "properties": {
                "tenant": {"type": "string", "x-mcp-header": "X-Tenant"},
                "name": {"type": "string"},
            }},
        },
    })
}

fn echo(name: &str, schema: Value) -> Tool {
    Tool::dynamic(name, schema, async |RawArgs(json): RawArgs| json.get().to_owned())
}

fn router() -> Router {
    let plain = echo("plain", json!({"type": "object"}));
    Router::builder().add(echo("query", schema())).add(plain).build().unwrap()
}

/// A call over HTTP; a value of `None` is malformed.
fn with(tool: &str, arguments: &str, headers: &[(&str, Option<&str>)]) -> Request {
    let mut request = call(tool, arguments);
    let pair =
        |(name, value): &(&str, Option<&str>)| (name.to_lowercase(), value.map(str::to_owned));
    request.mirrored = Some(headers.iter().map(pair).collect::<HeaderParams>());
    request
}

fn refused(arguments: &str, headers: &[(&str, Option<&str>)]) -> Error {
    let refusal = error(now(&router(), with("query", arguments, headers)));
    assert!(refusal.kind.is_header_mismatch(), "{arguments} {headers:?}: {refusal:?}");
    refusal
}

#[test]
fn headers_that_match_let_the_call_through() {
    for (arguments, headers) in [
        ("{}", &[][..]),
        (r#"{"region":null,"dry":null,"who":null,"count":null}"#, &[]),
        (r#"{"region":"us-west1"}"#, &[("region", Some("us-west1"))]),
        (r#"{"r\u0065gion":"\u0061b"}"#, &[("region", Some("ab"))]),
        (r#"{"region":""}"#, &[("region", Some(""))]),
        (r#"{"region":"Grüße, 世界\n"}"#, &[("region", Some("Grüße, 世界\n"))]),
        (r#"{"count":42}"#, &[("count", Some("42"))]),
        (r#"{"count":42.0}"#, &[("count", Some("42"))]),
        (r#"{"count":42}"#, &[("count", Some("4.2e1"))]),
        (r#"{"dry":true,"count":-1}"#, &[("dry-run", Some("true")), ("count", Some("-1"))]),
        (r#"{"who":{"tenant":"t","name":"n"}}"#, &[("x-tenant", Some("t"))]),
        (r#"{"who":{"name":"n"}}"#, &[]),
        // Headers without an annotated parameter are not checked.
        (r#"{"query":"q"}"#, &[("query", Some("other")), ("other", None), ("other", Some("x"))]),
        // Nor are nested properties with the name of an annotated one.
        (r#"{"query":{"region":"x","who":{"tenant":"y"}}}"#, &[]),
        (
            r#" { "region" : "a" , "query" : [ 1 , { "region" : "b" } ] } "#,
            &[("region", Some("a"))],
        ),
    ] {
        let arguments = arguments.trim();
        assert_eq!(text(now(&router(), with("query", arguments, headers))), arguments);
    }
}

#[test]
fn headers_that_do_not_match_stop_the_call() {
    for (arguments, headers, named) in [
        // missing
        (r#"{"region":"a"}"#, &[][..], "Mcp-Param-Region"),
        (r#"{"who":{"tenant":"t"}}"#, &[], "Mcp-Param-X-Tenant"),
        (r#"{"dry":false}"#, &[("count", Some("1"))], "Mcp-Param-Count"),
        // present without an argument
        ("{}", &[("region", Some("a"))], "Mcp-Param-Region"),
        (r#"{"region":null}"#, &[("region", Some("null"))], "Mcp-Param-Region"),
        (r#"{"region":null}"#, &[("region", Some(""))], "Mcp-Param-Region"),
        (r#"{"who":null}"#, &[("x-tenant", Some("t"))], "Mcp-Param-X-Tenant"),
        (r#"{"tenant":"t"}"#, &[("x-tenant", Some("t"))], "Mcp-Param-X-Tenant"),
        ("{}", &[("region", None)], "Mcp-Param-Region"),
        // different
        (r#"{"region":"a"}"#, &[("region", Some("b"))], "Mcp-Param-Region"),
        (r#"{"region":"a"}"#, &[("region", Some("A"))], "Mcp-Param-Region"),
        (r#"{"region":"a "}"#, &[("region", Some("a"))], "Mcp-Param-Region"),
        (r#"{"count":42}"#, &[("count", Some("43"))], "Mcp-Param-Count"),
        (r#"{"count":42}"#, &[("count", Some("forty-two"))], "Mcp-Param-Count"),
        (
            r#"{"count":9007199254740993}"#,
            &[("count", Some("9007199254740992"))],
            "Mcp-Param-Count",
        ),
        (r#"{"dry":true}"#, &[("dry-run", Some("True"))], "Mcp-Param-Dry-Run"),
        (r#"{"dry":true}"#, &[("dry-run", Some("false"))], "Mcp-Param-Dry-Run"),
        // malformed, and more than once
        (r#"{"region":"a"}"#, &[("region", None)], "Mcp-Param-Region"),
        (r#"{"region":"a"}"#, &[("region", Some("a")), ("Region", Some("a"))], "Mcp-Param-Region"),
        (r#"{"region":"a"}"#, &[("region", Some("a")), ("region", None)], "Mcp-Param-Region"),
        // a value that no header can represent
        (r#"{"region":["a"]}"#, &[("region", Some("[\"a\"]"))], "Mcp-Param-Region"),
        (r#"{"region":{}}"#, &[], "Mcp-Param-Region"),
    ] {
        let error = refused(arguments, headers);
        assert_eq!(error.data.unwrap()["header"], named, "{arguments} {headers:?}");
        assert!(error.message.contains(named));
    }
}

/// Parsers differ: some take the first of two values, some the last.
#[test]
fn a_duplicate_mirrored_argument_is_rejected() {
    for arguments in [
        r#"{"region":"a","region":"b"}"#,
        r#"{"region":"b","region":"a"}"#,
        r#"{"region":"a","r\u0065gion":"b"}"#,
        r#"{"region":"a","region":null}"#,
        r#"{"region":null,"region":"a"}"#,
    ] {
        refused(arguments, &[("region", Some("a"))]);
    }
    refused(r#"{"who":{"tenant":"t"},"who":{"tenant":"u"}}"#, &[("x-tenant", Some("t"))]);
    refused(r#"{"who":{"tenant":"t","tenant":"u"}}"#, &[("x-tenant", Some("t"))]);
}

#[test]
fn headers_of_runtime_tools_are_checked_too() {
    let router = router();
    router.registry().add(echo("late", schema())).unwrap();
    let wrong = with("late", r#"{"region":"a"}"#, &[("region", Some("b"))]);
    assert!(error(now(&router, wrong)).kind.is_header_mismatch());
    let right = with("late", r#"{"region":"a"}"#, &[("region", Some("a"))]);
    text(now(&router, right));
}

#[test]
fn without_headers_or_annotations_nothing_is_compared() {
    let router = router();
    text(now(&router, call("query", r#"{"region":"a"}"#)));
    text(now(&router, with("plain", r#"{"region":"a"}"#, &[("region", Some("b"))])));
    let unknown = error(now(&router, with("none", "{}", &[("region", Some("b"))])));
    assert!(unknown.kind.is_tool_not_found());
}

#[test]
fn other_arguments_may_be_large_and_unusual() {
    let deep = format!("{}{}", "[".repeat(100), "]".repeat(100));
    let many = vec!["{}"; 100_000].join(",");
    let arguments = format!(r#"{{"query":[{many}],"x":{deep},"region":"a"}}"#);
    let request = with("query", &arguments, &[("region", Some("b"))]);
    assert!(error(now(&router(), request)).kind.is_header_mismatch());
    // Arguments that are not an object are rejected as such.
    let outcome = now(&router(), with("query", "[1]", &[("region", Some("b"))]));
    assert!(error(outcome).kind.is_invalid_tool_arguments());
    drop(start_without_runtime(&router(), with("query", "{", &[])));
}
