//! Validation of results against output schemas.

use std::time::Duration;

use crate::support::{FakeTransport, SECOND, answering, caller, caller_with, tool};
use serde_json::{Value, json, value::to_raw_value};
use tokio::time::{advance, sleep};
use wharf_client::{CallError, CallOptions, ClientHandlerBuilder};
use wharf_model::{Notification, Outbox, ToolInfo, ToolResult};

fn result(structured: &Value) -> ToolResult {
    ToolResult::text("x").structured(to_raw_value(structured).unwrap())
}

/// Lists a tool with this output schema, and calls it.
async fn called(schema: Value, result: ToolResult) -> Result<ToolResult, CallError> {
    let info = ToolInfo::without_parameters("t").output_schema(schema);
    let transport = FakeTransport::default().then(tool(info)).then(result).transport();
    let caller = caller(&transport);
    caller.tools().all().await.unwrap();
    caller.call("t", ()).await
}

fn numbers() -> Value {
    json!({"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}},
        "required": ["n"]})
}

#[tokio::test]
async fn structured_content_must_match_its_schema() {
    called(numbers(), result(&json!({"n": 1}))).await.unwrap();
    let error = called(numbers(), result(&json!({"n": 0}))).await.unwrap_err();
    assert!(error.kind().is_output_schema_mismatch(), "{error}");
    assert!(error.message().contains("`t`") && error.message().contains("`n`"), "{error}");
    let error = called(numbers(), ToolResult::text("x")).await.unwrap_err();
    assert!(error.message().contains("no structured content"), "{error}");
    // A failed result is not validated.
    assert!(called(numbers(), ToolResult::error("x")).await.unwrap().is_error);
}

#[tokio::test]
async fn results_are_not_validated_without_a_listed_tool_or_if_disabled() {
    let transport = FakeTransport::default().then(result(&json!({"n": 0}))).transport();
    answering(&transport, ClientHandlerBuilder::new()).call("t", ()).await.unwrap();
    let info = ToolInfo::without_parameters("t").output_schema(numbers());
    let transport =
        FakeTransport::default().then(tool(info)).then(result(&json!({"n": 0}))).transport();
    let options = CallOptions::default().validate_output(false);
    let caller = caller_with(&transport, ClientHandlerBuilder::new(), options);
    caller.tools().all().await.unwrap();
    caller.call("t", ()).await.unwrap();
}

fn nested(depth: usize) -> Value {
    (0..depth).fold(json!({"type": "string"}), |inner, _| json!({"properties": {"a": inner}}))
}

fn doubling(times: usize) -> Value {
    let mut defs = serde_json::Map::new();
    defs.insert("a0".into(), json!({"type": "string"}));
    for n in 1..=times {
        let down = json!({"$ref": format!("#/$defs/a{}", n - 1)});
        defs.insert(format!("a{n}"), json!({"allOf": [down, down]}));
    }
    json!({"$ref": format!("#/$defs/a{times}"), "$defs": defs})
}

fn many(count: usize) -> Value {
    let all: serde_json::Map<String, Value> =
        (0..count).map(|n| (n.to_string(), json!({"type": "string"}))).collect();
    json!({"properties": all})
}

#[tokio::test]
async fn schemas_that_cannot_be_checked_do_not_fail_calls() {
    let patterns: Vec<Value> = (0..100).map(|n| json!({"pattern": format!("a{n}")})).collect();
    for bomb in [
        nested(100),
        doubling(60),
        many(100_000),
        json!({"allOf": patterns}),
        json!({"pattern": "(a+)+$"}),
        json!({"pattern": "((a{1000}){1000}){1000}"}),
        json!({"pattern": "^(?=.*a)(?=.*b)((x+x+)+y)"}),
        json!({"pattern": "("}),
        json!({"$ref": "https://evil.test/schema.json"}),
        json!({"$ref": "file:///etc/passwd"}),
        json!({"$ref": "#/nowhere"}),
        json!({"$schema": "https://evil.test/dialect"}),
        json!({"$ref": "#"}),
        json!({"allOf": [{"$ref": "#"}]}),
        json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}),
        json!({"anyOf": [{"$ref": "#"}, {"not": {"$ref": "#"}}]}),
        json!({"type": "array", "items": {"format": "regex"}}),
        json!(true),
        json!(17),
    ] {
        called(
            bomb.clone(),
            result(&json!({"a": ["x"], "b": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!"})),
        )
        .await
        .ok();
        called(bomb, result(&json!("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!"))).await.ok();
    }
}

#[tokio::test]
async fn schemas_that_cannot_be_checked_accept_every_result() {
    for unchecked in [
        nested(100),
        many(5_000),
        json!({"type": "string", "$ref": "https://evil.test/schema.json"}),
        json!({"type": "string", "pattern": "(a{1000}){100}"}),
    ] {
        let name = unchecked.to_string();
        let passed = called(unchecked, result(&json!([1]))).await;
        assert!(passed.is_ok(), "{name:.200}: {passed:?}");
    }
}

#[tokio::test]
async fn schemas_that_look_costly_are_checked_where_they_are_not() {
    for costly in [
        doubling(60),
        json!({"type": "string", "pattern": "^(?=.*a)b"}),
        json!({"$dynamicRef": "#a", "$defs": {"a": {"$dynamicAnchor": "a", "type": "string"}}}),
        json!({"allOf": [{"prefixItems": [true]}], "unevaluatedItems": false}),
    ] {
        let name = costly.to_string();
        let error = called(costly, result(&json!([1, 2]))).await.unwrap_err();
        assert!(error.kind().is_output_schema_mismatch(), "{name}: {error}");
    }
}

/// Every level is evaluated twice, and each evaluation depends on the next.
fn branching(levels: usize) -> Value {
    let mut defs = serde_json::Map::new();
    defs.insert("a0".into(), json!({"type": "string"}));
    for n in 1..=levels {
        let down = json!({"properties": {"a": {"$ref": format!("#/$defs/a{}", n - 1)}}});
        defs.insert(format!("a{n}"), json!({"anyOf": [down, down]}));
    }
    json!({"$ref": format!("#/$defs/a{levels}"), "$defs": defs})
}

/// The same without references, with keywords that evaluate everything twice.
fn unevaluated(levels: usize) -> Value {
    (0..levels).fold(json!({"type": "string"}), |inner, _| {
        let here = json!({"properties": {"a": inner}, "required": ["a"]});
        json!({"anyOf": [here], "unevaluatedProperties": false})
    })
}

#[tokio::test]
async fn schemas_that_branch_at_every_level_of_a_value_take_no_longer_for_it() {
    let deep = (0..60).fold(json!({"b": 1}), |inner, _| json!({"a": inner}));
    let turn = json!({"properties": {"a": {"$ref": "#"}, "b": {"type": "string"}}});
    for schema in [
        branching(60),
        unevaluated(20),
        json!({"anyOf": [turn, turn]}),
        json!({"oneOf": [turn, turn]}),
        json!({"anyOf": [turn], "unevaluatedProperties": false}),
        json!({"$dynamicAnchor": "a", "anyOf": [{"properties": {"a": {"$dynamicRef": "#a"}}}]}),
    ] {
        called(schema, result(&deep)).await.ok();
    }
    for (schema, levels) in [(branching(60), 60), (unevaluated(20), 20)] {
        let ends = (0..levels).fold(json!("x"), |inner, _| json!({"a": inner}));
        called(schema, result(&ends)).await.unwrap();
    }
    // Plain references are followed, and detected.
    let error =
        called(json!({"$ref": "#/$defs/n", "$defs": {"n": {"type": "null"}}}), result(&deep));
    assert!(error.await.unwrap_err().kind().is_output_schema_mismatch());
}

#[tokio::test]
async fn results_that_would_take_too_long_to_check_are_accepted() {
    let long: Vec<u8> = vec![0; 300_000];
    called(json!({"type": "array", "items": {"minimum": 1}}), result(&json!(long))).await.unwrap();
    let text = "a".repeat(2 << 20);
    called(json!({"pattern": "(a?){20}b"}), result(&json!(text))).await.unwrap();
    let choices: Vec<u32> = (0..20_000).collect();
    let mut picked: Vec<u32> = vec![19_999; 20_000];
    picked.push(20_001);
    let schema = json!({"type": "array", "items": {"enum": choices}});
    called(schema, result(&json!(picked))).await.unwrap();
}

/// A large result is checked on another thread: the call is pending meanwhile. A small one is
/// checked inline.
#[tokio::test]
async fn large_results_are_checked_off_the_runtimes_threads() {
    for (size, at_once) in [(10, true), (100_000, false)] {
        let info = ToolInfo::without_parameters("t").output_schema(numbers());
        let structured = result(&json!({"n": 0, "text": "x".repeat(size)}));
        let transport = FakeTransport::default().then(tool(info)).then(structured).transport();
        let caller = caller(&transport);
        caller.tools().all().await.unwrap();
        let mut call = caller.call("t", ()).into_future();
        let first = crate::support::poll_once(&mut call);
        assert_eq!(first.is_ready(), at_once, "{size}");
        let error = match first {
            std::task::Poll::Ready(end) => end.unwrap_err(),
            std::task::Poll::Pending => call.await.unwrap_err(),
        };
        assert!(error.kind().is_output_schema_mismatch(), "{error}");
    }
}

/// The check of a large result has the rest of the call's timeout, which progress restarted. Its thread is busy here.
#[test]
fn a_check_ends_with_the_timeout_of_its_call() {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).max_blocking_threads(1).build().unwrap();
    runtime.block_on(async {
        let structured = result(&json!({"n": 1, "text": "x".repeat(100_000)}));
        let call = async move |_, outbox: Outbox| {
            sleep(6 * SECOND).await;
            outbox.notify(Notification::Progress { progress: 1.0, total: None, message: None });
            sleep(8 * SECOND).await;
            structured.into()
        };
        let info = ToolInfo::without_parameters("t").output_schema(numbers());
        let transport = FakeTransport::default().then(tool(info)).play(call).transport();
        let options = CallOptions::default().idle(10 * SECOND);
        let caller = caller_with(&transport, ClientHandlerBuilder::new(), options);
        caller.tools().all().await.unwrap();
        let (release, released) = std::sync::mpsc::channel::<()>();
        let busy = tokio::task::spawn_blocking(move || released.recv());

        let mut call = caller.call("t", ()).into_future();
        for wait in [0, 6000, 8000, 1900] {
            advance(Duration::from_millis(wait)).await;
            assert!(crate::support::poll_once(&mut call).is_pending(), "{wait}");
        }
        advance(Duration::from_millis(200)).await;
        let end = crate::support::poll_once(&mut call);
        let std::task::Poll::Ready(Err(error)) = end else { panic!("{end:?}") };
        assert!(error.kind().is_request_timeout(), "{error:?}");
        drop(release);
        assert!(busy.await.unwrap().is_err());
    });
}
