//! Subscriptions, and changes of the server at run time.
#![allow(clippy::unwrap_used)]

mod support;

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
};

use support::*;
use wharf_model::{
    ActiveCall, ErrorKind, Event, LiveSubscriptionFilter, Method, Notification, Outcome, Peer,
    Principal, Reply, Request, RequestBuilder, Service, SubscriptionFilter,
};
use wharf_server::{Item, Limits, Prompt, Resource, Router, RouterBuilder, Tool};

fn everything() -> RouterBuilder {
    Router::builder()
        .add(Tool::new("t", async || "t"))
        .add(Prompt::new("p", async || "p"))
        .add(Resource::new("x:a", async || "a"))
        .add(Resource::new("x:secret", async || "s"))
}

fn uris(uris: &[&str]) -> BTreeSet<String> {
    uris.iter().map(|uri| (*uri).to_owned()).collect()
}

fn all() -> SubscriptionFilter {
    SubscriptionFilter {
        tools: true,
        prompts: true,
        resources: true,
        uris: uris(&["x:a", "x:b"]),
        ..SubscriptionFilter::default()
    }
}

fn listen(filter: &LiveSubscriptionFilter) -> Request {
    let mut request = RequestBuilder::new(Method::Listen).build();
    request.filter = Some(filter.clone());
    request
}

/// Subscribes and reads the acknowledgement.
fn begin(router: &Router, filter: SubscriptionFilter) -> (ActiveCall, SubscriptionFilter) {
    let mut exchange = start_still(router, listen(&LiveSubscriptionFilter::new(filter)));
    match poll(&mut exchange) {
        Poll::Ready(Event::Notify(Notification::Acknowledged(agreed))) => (exchange, agreed),
        other => panic!("not acknowledged: {other:?}"),
    }
}

/// All pending notifications.
fn hear(exchange: &mut ActiveCall) -> Vec<String> {
    let mut heard = Vec::new();
    loop {
        heard.push(match poll(exchange) {
            Poll::Pending => return heard,
            Poll::Ready(Event::Notify(notification)) => match notification {
                Notification::ToolsChanged => "tools".to_owned(),
                Notification::PromptsChanged => "prompts".to_owned(),
                Notification::ResourcesChanged => "resources".to_owned(),
                Notification::ResourceUpdated { uri } => uri.to_string(),
                Notification::ElicitationComplete { id } => format!("elicitation {id}"),
                other => panic!("{other:?}"),
            },
            Poll::Ready(Event::Done(Outcome::Complete(Reply::Listened))) => {
                heard.push("end".into());
                return heard;
            }
            Poll::Ready(other) => panic!("{other:?}"),
        });
    }
}

#[test]
fn the_acknowledgement_comes_first_and_says_what_is_agreed() {
    let (_, agreed) = begin(&everything().build().unwrap(), all());
    assert_eq!(agreed, all());
    let only_tools = Router::builder().add(Tool::new("t", async || ())).build().unwrap();
    let (_, agreed) = begin(&only_tools, all());
    assert_eq!(agreed, SubscriptionFilter { tools: true, ..SubscriptionFilter::default() });
    let quiet = everything().capabilities(|it| it.resources.as_mut().unwrap().subscribe = false);
    let (_, agreed) = begin(&quiet.build().unwrap(), all());
    assert_eq!(agreed, SubscriptionFilter { uris: BTreeSet::new(), ..all() });
}

#[test]
fn a_listen_without_a_live_filter_reads_its_parameters() {
    let router = everything().build().unwrap();
    let request = RequestBuilder::new(Method::Listen)
        .param("notifications", r#"{"toolsListChanged":true}"#)
        .build();
    let mut exchange = start_still(&router, request);
    assert!(matches!(
        poll(&mut exchange),
        Poll::Ready(Event::Notify(Notification::Acknowledged(filter))) if filter.tools
    ));
    assert!(kind(now(&router, list(Method::Listen))).is_invalid_params());
}

#[test]
fn listeners_hear_what_they_want_and_nothing_else() {
    let router = everything().build().unwrap();
    let registry = router.registry();
    let (mut tools, _) =
        begin(&router, SubscriptionFilter { tools: true, ..SubscriptionFilter::default() });
    let (mut updates, _) = begin(
        &router,
        SubscriptionFilter { uris: uris(&["x:a"]), ..SubscriptionFilter::default() },
    );
    let (mut wants_all, _) = begin(&router, all());
    registry.tools_changed();
    registry.prompts_changed();
    registry.resources_changed();
    registry.resource_updated("x:a");
    registry.resource_updated("x:elsewhere");
    assert_eq!(hear(&mut tools), ["tools"]);
    assert_eq!(hear(&mut updates), ["x:a"]);
    assert_eq!(hear(&mut wants_all), ["tools", "prompts", "resources", "x:a"]);
    assert!(hear(&mut wants_all).is_empty());
}

#[test]
fn a_listen_that_begins_late_hears_once_what_it_has_missed() {
    let router = everything().build().unwrap();
    let registry = router.registry();
    registry.prompts_changed();
    let since = router.moment().unwrap();
    registry.tools_changed();
    registry.resources_changed();
    registry.tools_changed();
    let late = |since, filter| {
        let mut request = listen(&LiveSubscriptionFilter::new(filter));
        request.since = since;
        let mut exchange = start_still(&router, request);
        assert!(matches!(poll(&mut exchange), Poll::Ready(Event::Notify(_))));
        exchange
    };
    let mut wants_all = late(Some(since), all());
    assert_eq!(hear(&mut wants_all), ["tools", "resources"]);
    let wants =
        SubscriptionFilter { resources: true, prompts: true, ..SubscriptionFilter::default() };
    assert_eq!(hear(&mut late(Some(since), wants)), ["resources"]);
    assert!(hear(&mut late(None, all())).is_empty());
    assert!(hear(&mut late(router.moment(), all())).is_empty());
    registry.tools_changed();
    assert_eq!(hear(&mut wants_all), ["tools"]);
}

#[test]
fn a_session_edits_its_filter_while_it_listens() {
    let router = everything().build().unwrap();
    let filter = LiveSubscriptionFilter::new(SubscriptionFilter::default());
    let mut exchange = start_still(&router, listen(&filter));
    assert!(matches!(poll(&mut exchange), Poll::Ready(Event::Notify(_))));
    router.registry().resource_updated("x:a");
    assert!(hear(&mut exchange).is_empty());
    filter.edit(|filter| filter.uris.insert("x:a".into()));
    router.registry().resource_updated("x:a");
    assert_eq!(hear(&mut exchange), ["x:a"]);
    router.registry().resource_updated("x:a");
    filter.edit(|filter| filter.uris.clear());
    assert!(hear(&mut exchange).is_empty(), "unsubscribed before it was sent");
}

#[test]
fn a_slow_listener_costs_little_however_much_happens() {
    let router = everything().build().unwrap();
    let (mut slow, _) = begin(&router, all());
    for _ in 0..10_000 {
        router.registry().tools_changed();
        router.registry().resource_updated("x:a");
        router.registry().resource_updated("x:b");
    }
    assert_eq!(hear(&mut slow), ["tools", "x:a", "x:b"]);
}

#[test]
fn adding_and_removing_tells_listeners() {
    let router = everything().build().unwrap();
    let registry = router.registry();
    let (mut listener, _) = begin(&router, all());
    registry.add(Tool::new("late", async || "late")).unwrap();
    assert_eq!(hear(&mut listener), ["tools"]);
    assert_eq!(text(now(&router, call("late", "{}"))), "late");
    assert!(registry.add(Tool::new("late", async || "again")).is_err());
    assert!(hear(&mut listener).is_empty(), "nothing changed");
    assert!(registry.remove_tool("late"));
    assert!(!registry.remove_tool("late"));
    assert_eq!(hear(&mut listener), ["tools"]);
    assert!(kind(now(&router, call("late", "{}"))).is_tool_not_found());

    registry.add(Prompt::new("late", async || "late")).unwrap();
    registry.add(Resource::new("x:late", async || "late")).unwrap();
    assert_eq!(hear(&mut listener), ["prompts", "resources"]);
    assert!(registry.remove_prompt("late") && registry.remove_resource("x:late"));
    assert_eq!(hear(&mut listener), ["prompts", "resources"]);
    assert!(!registry.remove_prompt("late") && !registry.remove_resource("x:late"));
}

#[test]
fn templates_come_and_go_too() {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Id {
        id: String,
    }
    let router = everything().build().unwrap();
    let template = Resource::new("y:{id}", async |it: wharf_server::Args<Id>| it.0.id);
    router.registry().add(template).unwrap();
    assert!(matches!(now(&router, read("y:1")), Outcome::Complete(_)));
    assert!(router.registry().remove_resource("y:{id}"));
    assert!(kind(now(&router, read("y:1"))).is_resource_not_found());
}

#[test]
fn a_problem_at_run_time_changes_nothing() {
    let router = everything().build().unwrap();
    let error = router.registry().add(Tool::new("a b", async || ())).unwrap_err();
    assert!(error.to_string().contains("tool `a b`"));
    let needy = Tool::new("needy", async |_: wharf_server::State<u8>| ());
    assert!(router.registry().add(needy).is_err());
}

#[test]
fn a_panic_while_the_list_changes_leaves_it_as_it_was() {
    let explode = Arc::new(AtomicBool::new(false));
    let armed = explode.clone();
    let router = everything()
        .capabilities(move |_| assert!(!armed.load(Ordering::SeqCst), "armed"))
        .build()
        .unwrap();
    let registry = router.registry();
    let add = |name: &str| registry.add(Tool::inline(name, || "x"));
    explode.store(true, Ordering::SeqCst);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| add("first")));
    assert!(panicked.is_err());
    explode.store(false, Ordering::SeqCst);
    assert_eq!(kind(now(&router, call("first", "{}"))), ErrorKind::ToolNotFound);
    add("first").unwrap();
    assert_eq!(text(now(&router, call("first", "{}"))), "x");
}

#[test]
fn the_first_tool_at_run_time_brings_the_capability() {
    let router = Router::builder().build().unwrap();
    assert!(kind(now(&router, call("t", "{}"))).is_capability_not_supported());
    router.registry().add(Tool::new("t", async || "t")).unwrap();
    assert_eq!(text(now(&router, call("t", "{}"))), "t");
}

#[tokio::test]
async fn a_call_that_runs_goes_on_when_its_tool_is_removed() {
    let router = Router::builder()
        .add(Tool::new("slow", async || {
            tokio::task::yield_now().await;
            "done"
        }))
        .build()
        .unwrap();
    let mut exchange = start(&router, call("slow", "{}"));
    assert!(poll(&mut exchange).is_pending());
    assert!(router.registry().remove_tool("slow"));
    assert_eq!(text(done(exchange).await), "done");
}

#[test]
fn listens_have_a_cap_of_their_own() {
    let limits = Limits { listens: 2, concurrent: 1, queue: 0, ..Limits::default() };
    let router = everything().limits(limits).build().unwrap();
    let first = begin(&router, all());
    let _second = begin(&router, all());
    let third = now(&router, listen(&LiveSubscriptionFilter::new(all())));
    assert!(kind(third).is_overloaded());
    assert_eq!(text(now(&router, call("t", "{}"))), "t", "calls are counted apart");
    drop(first);
    let _third = begin(&router, all());
}

#[test]
fn a_listen_follows_just_so_many_resources() {
    let router = everything().limits(Limits { subscriptions: 2, ..Limits::default() });
    let router = router.build().unwrap();
    let following =
        |names: &[&str]| SubscriptionFilter { uris: uris(names), ..SubscriptionFilter::default() };
    assert_eq!(begin(&router, following(&["x:1", "x:2"])).1.uris.len(), 2);
    assert_eq!(begin(&router, following(&["x:1", "x:2", "x:3"])).1.uris, uris(&["x:1", "x:2"]));
}

#[test]
fn what_a_listen_follows_is_bounded_in_bytes_and_the_rest_is_not_acknowledged() {
    let limits = Limits { subscription_bytes: 10_000, ..Limits::default() };
    let router = everything().limits(limits).build().unwrap();
    let long = |n: usize| format!("x:{n:04}{}", "y".repeat(994));
    let filter =
        SubscriptionFilter { uris: (0..900).map(long).collect(), ..SubscriptionFilter::default() };
    let (_listen, agreed) = begin(&router, filter);
    assert_eq!(agreed.uris, (0..10).map(long).collect());
}

#[test]
fn a_caller_that_listens_as_much_as_it_can_leaves_room_for_others() {
    let limits = Limits { listens: 8, subscription_total: 8 * 1064, ..Limits::default() };
    let router = everything().limits(limits).build().unwrap();
    let following = |count: usize| SubscriptionFilter {
        tools: true,
        uris: (0..count).map(|n| format!("x:{n:04}{}", "y".repeat(994))).collect(),
        ..SubscriptionFilter::default()
    };
    let listening = |name: &str, count: usize| {
        let filter = LiveSubscriptionFilter::new(following(count));
        let mut exchange = start_still(&router, by(listen(&filter), name));
        match poll(&mut exchange) {
            Poll::Ready(Event::Notify(Notification::Acknowledged(it))) => Ok((exchange, it)),
            Poll::Ready(Event::Done(outcome)) => Err(kind(outcome)),
            other => panic!("{other:?}"),
        }
    };
    let hogs: Vec<_> = (0..20).map_while(|_| listening("hog", 2).ok()).collect();
    assert_eq!(hogs.len(), 6, "three quarters of all listens");
    assert!(listening("hog", 0).unwrap_err().is_overloaded());
    let follows: usize = hogs.iter().map(|(_, agreed)| agreed.uris.len()).sum();
    assert_eq!(follows, 4, "half of all bytes");
    assert!(hogs.iter().all(|(_, agreed)| agreed.tools), "what costs nothing is heard");
    let (_listen, agreed) = listening("alice", 2).unwrap();
    assert_eq!(agreed.uris.len(), 2);
    drop(hogs);
    let (_listen, agreed) = listening("hog", 4).unwrap();
    assert_eq!(agreed.uris.len(), 2, "all is given back: what is free is halved until it fits");
}

#[test]
fn a_session_that_cannot_follow_all_it_was_promised_is_refused() {
    let limits = Limits { subscription_total: 1000, ..Limits::default() };
    let router = everything().limits(limits).build().unwrap();
    let filter = LiveSubscriptionFilter::new(SubscriptionFilter {
        uris: uris(&["x:a"]),
        ..SubscriptionFilter::default()
    });
    filter.edit(|filter| filter.uris.insert(format!("x:{}", "y".repeat(994))));
    let mut request = listen(&filter);
    request.since = Some(wharf_model::ChangeVersion::FIRST);
    assert!(kind(now(&router, request)).is_overloaded());
    assert_eq!(filter.read(|filter| filter.uris.len()), 2, "nothing is left out silently");
}

#[tokio::test(start_paused = true)]
async fn a_listen_has_no_deadline() {
    let router = everything().build().unwrap();
    let mut exchange = start(&router, listen(&LiveSubscriptionFilter::new(all())));
    assert!(matches!(heard(&mut exchange).await, Notification::Acknowledged(_)));
    let hours = std::time::Duration::from_secs(100 * 3600);
    assert!(tokio::time::timeout(hours, next(&mut exchange)).await.is_err());
    router.registry().tools_changed();
    assert!(matches!(heard(&mut exchange).await, Notification::ToolsChanged));
}

#[test]
fn shutdown_ends_listens_in_good_order_after_what_they_have_yet_to_hear() {
    let router = everything().build().unwrap();
    let (mut listener, _) = begin(&router, all());
    assert!(hear(&mut listener).is_empty());
    router.registry().tools_changed();
    router.shutdown();
    assert_eq!(hear(&mut listener), ["tools", "end"]);
    let (mut late, _) = begin(&router, all());
    assert_eq!(hear(&mut late), ["end"]);
    assert_eq!(text(now(&router, call("t", "{}"))), "t", "calls go on");
}

#[tokio::test]
async fn shutdown_wakes_a_listener_that_waits() {
    let router = everything().build().unwrap();
    let exchange = start(&router, listen(&LiveSubscriptionFilter::new(all())));
    let waiting = tokio::spawn(done(exchange));
    tokio::task::yield_now().await;
    router.shutdown();
    assert!(matches!(waiting.await.unwrap(), Outcome::Complete(Reply::Listened)));
}

#[test]
fn updates_of_hidden_resources_are_not_told() {
    let router = everything()
        .access(|principal: Option<&Principal>, item: Item<'_>| {
            principal.is_some() || !item.name().contains("secret")
        })
        .build()
        .unwrap();
    let filter = || {
        LiveSubscriptionFilter::new(SubscriptionFilter {
            uris: uris(&["x:a", "x:secret"]),
            ..SubscriptionFilter::default()
        })
    };
    let mut anonymous = start_still(&router, listen(&filter()));
    let mut alice = start_still(&router, by(listen(&filter()), "alice"));
    for exchange in [&mut anonymous, &mut alice] {
        assert!(matches!(poll(exchange), Poll::Ready(Event::Notify(_))));
    }
    router.registry().resource_updated("x:a");
    router.registry().resource_updated("x:secret");
    assert_eq!(hear(&mut anonymous), ["x:a"]);
    assert_eq!(hear(&mut alice), ["x:a", "x:secret"]);
}

#[tokio::test]
async fn only_the_client_that_was_asked_hears_that_an_elicitation_is_complete() {
    use wharf_model::{ClientCapabilities, InputMode};
    let router = Router::builder()
        .add(Tool::new("sign_in", async |ctx: wharf_server::Ctx| {
            ctx.ask_url_as("k", "id-1", "Sign in.", "https://example.com").await?;
            Ok::<_, wharf_server::ToolError>("signed in")
        }))
        .build()
        .unwrap();
    let peer = || {
        let capabilities = r#"{"elicitation":{"form":{},"url":{}}}"#;
        let capabilities: ClientCapabilities = serde_json::from_str(capabilities).unwrap();
        Arc::new(Peer::new(None, capabilities))
    };
    let (asked, other) = (peer(), peer());
    let listener = |peer: &Arc<Peer>| {
        let request = listen(&LiveSubscriptionFilter::new(SubscriptionFilter::default()))
            .from_peer(peer.clone());
        let mut exchange = start_still(&router, request);
        assert!(matches!(poll(&mut exchange), Poll::Ready(Event::Notify(_))));
        exchange
    };
    let (mut asked_hears, mut other_hears) = (listener(&asked), listener(&other));
    let mut request = call("sign_in", "{}").from_peer(asked.clone());
    request.asks = InputMode::Deliver;
    let mut exchange = start(&router, request);
    assert!(matches!(next(&mut exchange).await, Event::ClientRequest(..)));
    router.registry().elicitation_complete("id-1");
    router.registry().elicitation_complete("unknown");
    assert_eq!(hear(&mut asked_hears), ["elicitation id-1"]);
    assert!(hear(&mut other_hears).is_empty());
}
