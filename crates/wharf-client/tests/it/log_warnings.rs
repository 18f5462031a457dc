//! Ignored tools and unvalidated results are logged.

use std::{
    fmt,
    sync::{Arc, Mutex},
};

use crate::support::{FakeTransport, caller, page, tool};
use serde_json::{json, value::to_raw_value};
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};
use wharf_model::{Reply, ToolInfo, ToolResult};

/// Records every warning as text.
#[derive(Clone, Default)]
struct LogRecorder(Arc<Mutex<Vec<String>>>);

struct FieldText(String);

impl Visit for FieldText {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0 += &format!(" {field}={value:?}");
    }
}

impl Subscriber for LogRecorder {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("wharf_client") && *metadata.level() == Level::WARN
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = FieldText(String::new());
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

#[tokio::test]
async fn ignored_tools_are_logged_with_the_reason() {
    let record = LogRecorder::default();
    let _guard = tracing::subscriber::set_default(record.clone());
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
    let said = record.0.lock().unwrap().clone();
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[0].contains("\"a\"") && said[0].contains("duplicate name"), "{said:?}");
    assert!(said[1].contains("\"b\"") && said[1].contains("x-mcp-header"), "{said:?}");
}

#[tokio::test]
async fn unvalidated_results_are_logged_with_the_reason() {
    let record = LogRecorder::default();
    let _guard = tracing::subscriber::set_default(record.clone());
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
    let said = record.0.lock().unwrap().clone();
    assert_eq!(said.len(), 2, "a schema is complained of once: {said:?}");
    assert!(said[0].contains("\"t\"") && said[0].contains("https://x.test/a"), "{said:?}");
    assert!(said[1].contains("\"u\"") && said[1].contains("too long"), "{said:?}");
}
