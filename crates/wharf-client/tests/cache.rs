//! Results that are kept for as long as the server allows.
#![allow(clippy::unwrap_used)]

mod support;

use serde_json::json;
use support::{Fake, SECOND, caller, caller_with, names, page};
use wharf_client::{CallOptions, ClientHandlerBuilder, args};
use wharf_model::{
    CacheHint, Error, ErrorKind, Notification, Outcome, PromptInfo, ReadResult, Reply, Request,
    ResourceContents, ResourceInfo, TemplateInfo, ToolInfo,
};

/// Answers everything, fresh for ten seconds.
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
async fn results_are_kept_while_they_are_fresh() {
    let link = Fake::default().always(fresh).link();
    let caller = caller(&link);
    for _ in 0..3 {
        assert_eq!(names(&caller.tools().all().await.unwrap()), ["t"]);
        caller.read("a:b").await.unwrap();
    }
    assert_eq!(link.count(), 2);
    caller.read("a:c").await.unwrap();
    assert_eq!(link.count(), 3, "other parameters are another result");
    tokio::time::advance(11 * SECOND).await;
    caller.tools().all().await.unwrap();
    caller.read("a:b").await.unwrap();
    assert_eq!(link.count(), 5);
}

#[tokio::test]
async fn who_wants_it_anew_gets_it_anew() {
    let link = Fake::default().always(fresh).link();
    let caller = caller(&link);
    caller.read("a:b").await.unwrap();
    caller.read("a:b").no_cache().await.unwrap();
    caller.tools().no_cache().all().await.unwrap();
    caller.tools().no_cache().all().await.unwrap();
    assert_eq!(link.count(), 4);
    // Metadata may change what comes back.
    caller.read("a:b").meta(args! { k: 1 }).await.unwrap();
    assert_eq!(link.count(), 5);
    for _ in 0..2 {
        caller.call("t", ()).await.unwrap();
    }
    assert_eq!(link.count(), 7, "calls of tools are never kept");
}

#[tokio::test]
async fn without_leave_nothing_is_kept() {
    let stale = |_| Outcome::from(Reply::Tools(page([ToolInfo::without_parameters("t")], None, 0)));
    let link = Fake::default().always(stale).link();
    let client = caller(&link);
    for _ in 0..2 {
        client.tools().all().await.unwrap();
    }
    assert_eq!(link.count(), 2);
    let link = Fake::default().always(fresh).link();
    let client = caller_with(&link, ClientHandlerBuilder::new(), CallOptions::default().cache(0));
    for _ in 0..2 {
        client.tools().all().await.unwrap();
    }
    assert_eq!(link.count(), 2);
}

#[tokio::test]
async fn news_of_a_change_ends_what_was_kept() {
    let link = Fake::default().always(fresh).link();
    let caller = caller(&link);
    let all = async || {
        let before = link.count();
        caller.tools().all().await.unwrap();
        caller.prompts().all().await.unwrap();
        caller.resources().all().await.unwrap();
        caller.templates().all().await.unwrap();
        caller.read("a:b").await.unwrap();
        link.sent()[before..].iter().map(|sent| sent.method.name()).collect::<Vec<_>>()
    };
    assert_eq!(all().await.len(), 5);
    assert!(all().await.is_empty());
    link.say(Notification::ToolsChanged);
    assert_eq!(all().await, ["tools/list"]);
    link.say(Notification::PromptsChanged);
    assert_eq!(all().await, ["prompts/list"]);
    link.say(Notification::ResourcesChanged);
    assert_eq!(all().await, ["resources/list", "resources/templates/list"]);
    link.say(Notification::ResourceUpdated { uri: "a:b".into() });
    assert_eq!(all().await, ["resources/read"]);
}

#[tokio::test]
async fn what_was_under_way_when_it_changed_is_not_kept() {
    let link = Fake::default()
        .play(async |request: Request, outbox| {
            outbox.notify(Notification::ResourceUpdated { uri: "a:b".into() });
            fresh(request)
        })
        .always(fresh)
        .link();
    let caller = caller(&link);
    for _ in 0..3 {
        caller.read("a:b").await.unwrap();
    }
    assert_eq!(link.count(), 2);
}

#[tokio::test]
async fn the_oldest_gives_way_and_the_large_is_not_kept() {
    let link = Fake::default().always(fresh).link();
    let client = caller_with(&link, ClientHandlerBuilder::new(), CallOptions::default().cache(2));
    for uri in ["a:1", "a:2", "a:3", "a:2", "a:3", "a:1"] {
        client.read(uri).await.unwrap();
    }
    assert_eq!(link.count(), 4);
    let large = |request: Request| {
        let contents = ResourceContents::text(request.target(), "x".repeat(5 << 20));
        Reply::Read(ReadResult::from(contents).cache(CacheHint::public(u64::MAX))).into()
    };
    let link = Fake::default().always(large).link();
    let client = caller(&link);
    for _ in 0..2 {
        client.read("a:b").await.unwrap();
    }
    assert_eq!(link.count(), 2);
}

#[tokio::test]
async fn errors_are_not_kept() {
    let link = Fake::default().then(Error::new(ErrorKind::InternalError)).always(fresh).link();
    let caller = caller(&link);
    caller.read("a:b").await.unwrap_err();
    caller.read("a:b").await.unwrap();
    assert_eq!(link.params(), [json!({"uri": "a:b"}), json!({"uri": "a:b"})]);
}
