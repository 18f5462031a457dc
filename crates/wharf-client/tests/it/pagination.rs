//! Pagination.

use std::sync::Arc;

use crate::support::{FakeTransport, answering, caller, caller_with, names, page, tool, tools};
use futures_util::StreamExt;
use serde_json::json;
use wharf_client::{CallOptions, ClientHandlerBuilder};
use wharf_model::{
    Error, ErrorKind, Notification, Outcome, PromptInfo, Reply, ResourceInfo, TemplateInfo,
    ToolInfo, ToolResult,
};

#[tokio::test]
async fn all_pages_are_read_in_order() {
    // An empty cursor is a cursor.
    let transport = FakeTransport::default()
        .then(tools(&["a", "b"], Some("")))
        .then(tools(&[], Some("2")))
        .then(tools(&["c"], None))
        .transport();
    let all = caller(&transport).tools().all().await.unwrap();
    assert_eq!(names(&all), ["a", "b", "c"]);
    assert_eq!(transport.params(), [json!({}), json!({"cursor": ""}), json!({"cursor": "2"})]);
}

#[tokio::test]
async fn every_list_is_a_stream_that_reads_pages_as_needed() {
    let transport = FakeTransport::default()
        .then(Reply::Resources(page([ResourceInfo::new("a:b", "r")], Some("1"), 0)))
        .then(Reply::Templates(page([TemplateInfo::new("a:{b}", "t")], None, 0)))
        .then(Reply::Prompts(page([PromptInfo::new("p")], None, 0)))
        .transport();
    let caller = caller(&transport);
    let mut resources = caller.resources();
    assert_eq!(resources.next().await.unwrap().unwrap().name, "r");
    drop(resources);
    assert_eq!(transport.count(), 1, "the second page was not asked for");
    let templates: Vec<_> = StreamExt::collect(caller.templates()).await;
    assert_eq!(templates[0].as_ref().unwrap().name, "t");
    let mut prompts = caller.prompts();
    assert_eq!(prompts.next().await.unwrap().unwrap().name, "p");
    assert!(prompts.next().await.is_none() && prompts.next().await.is_none());
}

#[tokio::test]
async fn endless_pagination_is_stopped() {
    let transport = FakeTransport::default().always(|_| tools(&[], Some("same"))).transport();
    let error = caller(&transport).tools().all().await.unwrap_err();
    assert!(error.message().contains("a cursor that it sent before"), "{error}");
    assert_eq!(transport.count(), 2);

    let count = std::sync::atomic::AtomicUsize::new(0);
    let transport = FakeTransport::default()
        .always(move |_| {
            let n = count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            tools(&[&n.to_string()], Some(&n.to_string()))
        })
        .transport();
    let options = CallOptions::default().pages(10);
    let listing = caller_with(&transport, ClientHandlerBuilder::new(), options).tools();
    let items: Vec<_> = StreamExt::collect(listing).await;
    assert_eq!((items.len(), transport.count()), (11, 10));
    let error = items[10].as_ref().unwrap_err();
    assert!(error.kind().is_content_too_large() && error.message().contains("10 pages"), "{error}");

    let transport = FakeTransport::default().then(tools(&["a", "b", "c"], None)).transport();
    let caller =
        caller_with(&transport, ClientHandlerBuilder::new(), CallOptions::default().items(2));
    let error = caller.tools().all().await.unwrap_err();
    assert!(error.message().contains("2 items"), "{error}");
}

#[tokio::test]
async fn an_error_ends_a_list() {
    let transport = FakeTransport::default()
        .then(tools(&["a"], Some("1")))
        .then(Error::new(ErrorKind::InternalError))
        .transport();
    let mut tools = caller(&transport).tools();
    assert!(tools.next().await.unwrap().is_ok());
    assert!(tools.next().await.unwrap().unwrap_err().kind().is_internal_error());
    assert!(tools.next().await.is_none());
}

#[tokio::test]
async fn the_first_of_two_tools_with_one_name_counts() {
    let info = |title: &str| Arc::new(ToolInfo::without_parameters("a").title(title));
    let first = page([(*info("first")).clone()], Some("1"), 0);
    let second = page([(*info("second")).clone()], None, 0);
    let transport =
        FakeTransport::default().then(Reply::Tools(first)).then(Reply::Tools(second)).transport();
    let all = caller(&transport).tools().all().await.unwrap();
    assert_eq!(all, [info("first")]);
}

#[tokio::test]
async fn a_list_that_changes_meanwhile_is_read_again_once() {
    let transport = FakeTransport::default()
        .then(tools(&["a"], Some("1")))
        .play(async |_, outbox| {
            // Notifications during a call count like those outside of calls.
            outbox.notify(Notification::ToolsChanged);
            tools(&["b"], None)
        })
        .then(tools(&["c"], None))
        .transport();
    let all = caller(&transport).tools().all().await.unwrap();
    assert_eq!((names(&all), transport.count()), (vec!["c"], 3));

    let stale = || Error::new(ErrorKind::InvalidParams).with_message("no such cursor");
    let transport = FakeTransport::default()
        .then(tools(&["a"], Some("1")))
        .then(stale())
        .then(tools(&["c"], Some("2")))
        .then(stale())
        .transport();
    let error = caller(&transport).tools().all().await.unwrap_err();
    assert_eq!(error, stale());
    assert_eq!(transport.count(), 4);
    let transport = FakeTransport::default().then(stale()).transport();
    assert_eq!(caller(&transport).tools().all().await.unwrap_err(), stale());
}

fn annotated(name: &str, annotation: serde_json::Value) -> ToolInfo {
    let region = json!({"type": "string", "x-mcp-header": annotation});
    let deep = json!({"type": "object", "properties": {"on": {"type": "boolean", "x-mcp-header": "On"},
        "count": {"type": "integer", "x-mcp-header": "Count"}}});
    let schema = json!({"type": "object", "properties": {"region": region, "deep": deep}});
    ToolInfo::new(name, schema)
}

#[tokio::test]
async fn tools_with_invalid_header_annotations_are_ignored_if_the_transport_sends_headers() {
    let list = || {
        let all = [annotated("good", json!("Region")), annotated("bad", json!("no name"))];
        Outcome::from(Reply::Tools(page(all, None, 0)))
    };
    let transport = FakeTransport::default().then(list()).transport();
    assert_eq!(names(&caller(&transport).tools().all().await.unwrap()), ["good", "bad"]);
    let transport = FakeTransport::default().with_param_headers().then(list()).transport();
    let caller = caller(&transport);
    assert_eq!(names(&caller.tools().all().await.unwrap()), ["good"]);
    let error = caller.call("bad", ()).await.unwrap_err();
    assert!(error.kind().is_tool_schema_invalid() && error.message().contains("region"), "{error}");
    assert_eq!(transport.count(), 1);
}

#[tokio::test]
async fn arguments_are_sent_as_headers_according_to_the_listed_schema() {
    let transport = FakeTransport::default()
        .with_param_headers()
        .then(ToolResult::default())
        .then(tool(annotated("t", json!("Region"))))
        .always(|_| ToolResult::default().into())
        .transport();
    let caller = answering(&transport, ClientHandlerBuilder::new());
    let deep = json!({"on": true, "count": 42});
    let arguments = json!({"region": "é\"x", "deep": deep});
    caller.call("t", &arguments).await.unwrap();
    caller.tools().all().await.unwrap();
    caller.call("t", &arguments).await.unwrap();
    caller.call("t", json!({"region": null, "deep": {}})).await.unwrap();
    let sent = transport.sent();
    let of = |call: usize, name: &str| -> Vec<Option<String>> {
        let mirrored = sent[call].mirrored.as_ref().unwrap();
        mirrored.of(name).map(|it| it.map(str::to_owned)).collect()
    };
    assert!(of(0, "Region").is_empty(), "nobody knew the schema yet");
    assert_eq!(of(2, "Region"), [Some("é\"x".to_owned())]);
    assert_eq!(of(2, "On"), [Some("true".to_owned())]);
    assert_eq!(of(2, "Count"), [Some("42".to_owned())]);
    assert!(of(3, "Region").is_empty() && of(3, "On").is_empty());
    let error = caller.call("t", json!({"region": ["a"]})).await.unwrap_err();
    assert!(error.kind().is_invalid_params() && error.message().contains("Region"), "{error}");
}

#[tokio::test]
async fn transports_without_headers_send_no_param_headers() {
    let transport = FakeTransport::default()
        .then(tool(annotated("t", json!("Region"))))
        .then(ToolResult::default())
        .transport();
    let caller = caller(&transport);
    caller.tools().all().await.unwrap();
    caller.call("t", json!({"region": "a"})).await.unwrap();
    assert!(transport.sent()[1].mirrored.is_none());
}

/// Endless pages of this size; each is sent after `pause`.
fn heavy(weight: usize, pause: std::time::Duration) -> Arc<FakeTransport> {
    let count = std::sync::atomic::AtomicUsize::new(0);
    let transport = FakeTransport::default().always_does(move |_, _| {
        let n = count.fetch_add(1, std::sync::atomic::Ordering::SeqCst).to_string();
        let mut page = page([ToolInfo::without_parameters(&*n)], Some(&n), 0);
        let items = page.body.items.clone();
        page.body = Arc::new(wharf_model::PageBody { weight, ..wharf_model::PageBody::new(items) });
        Box::pin(async move {
            tokio::time::sleep(pause).await;
            Reply::Tools(page).into()
        })
    });
    transport.transport()
}

#[tokio::test(start_paused = true)]
async fn a_list_has_a_limit_in_bytes() {
    let transport = heavy(1 << 20, std::time::Duration::ZERO);
    let error = caller(&transport).tools().all().await.unwrap_err();
    assert!(error.kind().is_content_too_large() && error.message().contains("bytes"), "{error}");
    assert_eq!(transport.count(), 65);
    let transport = heavy(10, std::time::Duration::ZERO);
    let options = CallOptions::default().listed(25);
    caller_with(&transport, ClientHandlerBuilder::new(), options).tools().all().await.unwrap_err();
    assert_eq!(transport.count(), 3);
}

#[tokio::test(start_paused = true)]
async fn all_pages_together_have_one_deadline() {
    let transport = heavy(1, 10 * crate::support::SECOND);
    let begun = tokio::time::Instant::now();
    let options = CallOptions::default().total(35 * crate::support::SECOND);
    let error = caller_with(&transport, ClientHandlerBuilder::new(), options)
        .tools()
        .all()
        .await
        .unwrap_err();
    assert!(error.kind().is_request_timeout(), "{error}");
    assert_eq!((begun.elapsed(), transport.count()), (35 * crate::support::SECOND, 4));
}
