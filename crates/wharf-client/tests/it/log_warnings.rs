//! Ignored tools and unvalidated results are logged.

use crate::support::{FakeTransport, caller, page, tool};
use serde_json::{json, value::to_raw_value};
use tracing::Level;
use wharf_model::{Reply, ToolInfo, ToolResult};
use wharf_testbed::LogCatcher;

#[tokio::test]
async fn ignored_tools_are_logged_with_the_reason() {
    let (log, _guard) = LogCatcher::on_this_thread(Level::WARN);
    let bad =
        json!({"type": "object", "properties": {"x": {"type": "number", "x-mcp-header": "X"}}});
    let all = [
        ToolInfo::without_parameters("a"),
        ToolInfo::without_parameters("a"),
        ToolInfo::new("b", bad),
    ];
    let transport = FakeTransport::default()
        .with_param_headers()
        .then(Reply::Tools(page(all, None, 0)))
        .transport();
    caller(&transport).tools().all().await.unwrap();
    let said = log.lines();
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[0].contains("\"a\"") && said[0].contains("duplicate name"), "{said:?}");
    assert!(said[1].contains("\"b\"") && said[1].contains("x-mcp-header"), "{said:?}");
}

#[tokio::test]
async fn unvalidated_results_are_logged_with_the_reason() {
    let (log, _guard) = LogCatcher::on_this_thread(Level::WARN);
    let result = || ToolResult::text("x").structured(to_raw_value(&json!([1])).unwrap());
    let elsewhere =
        ToolInfo::without_parameters("t").output_schema(json!({"$ref": "https://x.test/a"}));
    let transport =
        FakeTransport::default().then(tool(elsewhere)).then(result()).then(result()).transport();
    let client = caller(&transport);
    client.tools().all().await.unwrap();
    client.call("t", ()).await.unwrap();
    client.call("t", ()).await.unwrap();
    let long = ToolInfo::without_parameters("u").output_schema(json!({"pattern": "(a?){20}b"}));
    let text = to_raw_value(&"a".repeat(2 << 20)).unwrap();
    let transport = FakeTransport::default()
        .then(tool(long))
        .then(ToolResult::text("x").structured(text))
        .transport();
    let client = caller(&transport);
    client.tools().all().await.unwrap();
    client.call("u", ()).await.unwrap();
    let said = log.lines();
    assert_eq!(said.len(), 2, "a schema is complained of once: {said:?}");
    assert!(said[0].contains("\"t\"") && said[0].contains("https://x.test/a"), "{said:?}");
    assert!(said[1].contains("\"u\"") && said[1].contains("limit of steps"), "{said:?}");
}
