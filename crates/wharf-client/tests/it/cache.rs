//! The cache of results.

use crate::support::{FakeTransport, SECOND, caller, caller_with, names, page};
use serde_json::json;
use wharf_client::{CallOptions, ClientHandlerBuilder, args};
use wharf_model::{
    CacheHint, Error, ErrorKind, Notification, Outcome, PromptInfo, ReadResult, Reply, Request,
    ResourceContents, ResourceInfo, TemplateInfo, ToolInfo,
};

/// Answers every request, with a time to live of ten seconds.
fn fresh(request: Request) -> Outcome {
    use wharf_model::Method::*;
    let ttl = 10_000;
    match request.method {
        ListTools => Reply::Tools(page([ToolInfo::without_parameters("t")], None, ttl)),
        ListPrompts => Reply::Prompts(page([PromptInfo::new("p")], None, ttl)),
        ListResources => Reply::Resources(page([ResourceInfo::new("a:b", "r")], None, ttl)),
        ListTemplates => Reply::Templates(page([TemplateInfo::new("a:{b}", "t")], None, ttl)),
        ReadResource => {
            let contents = ResourceContents::text(request.target(), "x");
            Reply::Read(ReadResult::from(contents).cache(CacheHint::public(ttl)))
        }
        _ => Reply::Tool(wharf_model::ToolResult::text("x")),
    }
    .into()
}

#[tokio::test(start_paused = true)]
async fn results_are_cached_for_their_time_to_live() {
    let transport = FakeTransport::default().always(fresh).transport();
    let caller = caller(&transport);
    for _ in 0..3 {
        assert_eq!(names(&caller.tools().all().await.unwrap()), ["t"]);
        caller.read("a:b").await.unwrap();
    }
    assert_eq!(transport.count(), 2);
    caller.read("a:c").await.unwrap();
    assert_eq!(transport.count(), 3, "other parameters are another result");
    tokio::time::advance(11 * SECOND).await;
    caller.tools().all().await.unwrap();
    caller.read("a:b").await.unwrap();
    assert_eq!(transport.count(), 5);
}

#[tokio::test]
async fn no_cache_bypasses_the_cache() {
    let transport = FakeTransport::default().always(fresh).transport();
    let caller = caller(&transport);
    caller.read("a:b").await.unwrap();
    caller.read("a:b").no_cache().await.unwrap();
    caller.tools().no_cache().all().await.unwrap();
    caller.tools().no_cache().all().await.unwrap();
    assert_eq!(transport.count(), 4);
    // `_meta` may change the result.
    caller.read("a:b").meta(args! { k: 1 }).await.unwrap();
    assert_eq!(transport.count(), 5);
    for _ in 0..2 {
        caller.call("t", ()).await.unwrap();
    }
    assert_eq!(transport.count(), 7, "calls of tools are never kept");
}

#[tokio::test]
async fn results_without_a_time_to_live_are_not_cached() {
    let stale = |_| Outcome::from(Reply::Tools(page([ToolInfo::without_parameters("t")], None, 0)));
    let transport = FakeTransport::default().always(stale).transport();
    let client = caller(&transport);
    for _ in 0..2 {
        client.tools().all().await.unwrap();
    }
    assert_eq!(transport.count(), 2);
    let transport = FakeTransport::default().always(fresh).transport();
    let client =
        caller_with(&transport, ClientHandlerBuilder::new(), CallOptions::default().cache(0));
    for _ in 0..2 {
        client.tools().all().await.unwrap();
    }
    assert_eq!(transport.count(), 2);
}

#[tokio::test]
async fn change_notifications_invalidate_the_cache() {
    let transport = FakeTransport::default().always(fresh).transport();
    let caller = caller(&transport);
    let all = async || {
        let before = transport.count();
        caller.tools().all().await.unwrap();
        caller.prompts().all().await.unwrap();
        caller.resources().all().await.unwrap();
        caller.templates().all().await.unwrap();
        caller.read("a:b").await.unwrap();
        transport.sent()[before..].iter().map(|sent| sent.method.name()).collect::<Vec<_>>()
    };
    assert_eq!(all().await.len(), 5);
    assert!(all().await.is_empty());
    transport.notify(Notification::ToolsChanged);
    assert_eq!(all().await, ["tools/list"]);
    transport.notify(Notification::PromptsChanged);
    assert_eq!(all().await, ["prompts/list"]);
    transport.notify(Notification::ResourcesChanged);
    assert_eq!(all().await, ["resources/list", "resources/templates/list"]);
    transport.notify(Notification::ResourceUpdated { uri: "a:b".into() });
    assert_eq!(all().await, ["resources/read"]);
}

#[tokio::test]
async fn a_result_in_flight_during_a_change_is_not_cached() {
    let transport = FakeTransport::default()
        .play(async |request: Request, outbox| {
            outbox.notify(Notification::ResourceUpdated { uri: "a:b".into() });
            fresh(request)
        })
        .always(fresh)
        .transport();
    let caller = caller(&transport);
    for _ in 0..3 {
        caller.read("a:b").await.unwrap();
    }
    assert_eq!(transport.count(), 2);
}

#[tokio::test]
async fn the_oldest_entry_is_evicted_and_large_results_are_not_cached() {
    let transport = FakeTransport::default().always(fresh).transport();
    let client =
        caller_with(&transport, ClientHandlerBuilder::new(), CallOptions::default().cache(2));
    for uri in ["a:1", "a:2", "a:3", "a:2", "a:3", "a:1"] {
        client.read(uri).await.unwrap();
    }
    assert_eq!(transport.count(), 4);
    let large = |request: Request| {
        let contents = ResourceContents::text(request.target(), "x".repeat(5 << 20));
        Reply::Read(ReadResult::from(contents).cache(CacheHint::public(u64::MAX))).into()
    };
    let transport = FakeTransport::default().always(large).transport();
    let client = caller(&transport);
    for _ in 0..2 {
        client.read("a:b").await.unwrap();
    }
    assert_eq!(transport.count(), 2);
}

#[tokio::test]
async fn errors_are_not_cached() {
    let transport = FakeTransport::default()
        .then(Error::new(ErrorKind::InternalError))
        .always(fresh)
        .transport();
    let caller = caller(&transport);
    caller.read("a:b").await.unwrap_err();
    caller.read("a:b").await.unwrap();
    assert_eq!(transport.params(), [json!({"uri": "a:b"}), json!({"uri": "a:b"})]);
}
