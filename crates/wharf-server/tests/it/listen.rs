//! Subscriptions, and changes of the server at run time.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
};

use crate::support::*;
use wharf_model::{
    ActiveCall, ErrorKind, Event, LiveSubscriptionFilter, Method, Notification, Outcome, Peer,
    Principal, Reply, Request, RequestBuilder, Service, SubscriptionFilter,
};
use wharf_server::{CallLimits, Item, Prompt, Resource, Router, RouterBuilder, Tool};

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
    SubscriptionFilter::default()
        .tools(true)
        .prompts(true)
        .resources(true)
        .uris(uris(&["x:a", "x:b"]))
}

fn listen(filter: &LiveSubscriptionFilter) -> Request {
    let mut request = RequestBuilder::new(Method::Listen).build();
    request.filter = Some(filter.clone());
    request
}

/// Subscribes and reads the acknowledgement.
fn subscribe_and_ack(
    router: &Router,
    filter: SubscriptionFilter,
) -> (ActiveCall, SubscriptionFilter) {
    let mut active_call =
        start_without_runtime(router, listen(&LiveSubscriptionFilter::new(filter)));
    match poll(&mut active_call) {
        Poll::Ready(Event::Notify(Notification::Acknowledged(agreed))) => (active_call, agreed),
        other => panic!("not acknowledged: {other:?}"),
    }
}

/// All pending notifications.
fn notifications(active_call: &mut ActiveCall) -> Vec<String> {
    let mut heard = Vec::new();
    loop {
        heard.push(match poll(active_call) {
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
fn the_acknowledgement_comes_first_with_the_accepted_filter() {
    let (_, agreed) = subscribe_and_ack(&everything().build().unwrap(), all());
    assert_eq!(agreed, all());
    let only_tools = Router::builder().add(Tool::new("t", async || ())).build().unwrap();
    let (_, agreed) = subscribe_and_ack(&only_tools, all());
    assert_eq!(agreed, SubscriptionFilter::default().tools(true));
    let quiet = everything().capabilities(|it| it.resources.as_mut().unwrap().subscribe = false);
    let (_, agreed) = subscribe_and_ack(&quiet.build().unwrap(), all());
    assert_eq!(agreed, all().uris(BTreeSet::<String>::new()));
}

#[test]
fn a_subscription_without_a_live_filter_reads_its_parameters() {
    let router = everything().build().unwrap();
    let request = RequestBuilder::new(Method::Listen)
        .param("notifications", r#"{"toolsListChanged":true}"#)
        .build();
    let mut active_call = start_without_runtime(&router, request);
    assert!(matches!(
        poll(&mut active_call),
        Poll::Ready(Event::Notify(Notification::Acknowledged(filter))) if filter.tools
    ));
    assert!(kind(now(&router, list(Method::Listen))).is_invalid_params());
}

#[test]
fn subscribers_are_notified_of_what_they_subscribed_to() {
    let router = everything().build().unwrap();
    let registry = router.registry();
    let (mut tools, _) = subscribe_and_ack(&router, SubscriptionFilter::default().tools(true));
    let (mut updates, _) =
        subscribe_and_ack(&router, SubscriptionFilter::default().uris(uris(&["x:a"])));
    let (mut wants_all, _) = subscribe_and_ack(&router, all());
    registry.tools_changed();
    registry.prompts_changed();
    registry.resources_changed();
    registry.resource_updated("x:a");
    registry.resource_updated("x:elsewhere");
    assert_eq!(notifications(&mut tools), ["tools"]);
    assert_eq!(notifications(&mut updates), ["x:a"]);
    assert_eq!(notifications(&mut wants_all), ["tools", "prompts", "resources", "x:a"]);
    assert!(notifications(&mut wants_all).is_empty());
}

#[test]
fn a_late_subscription_is_notified_once_of_missed_changes() {
    let router = everything().build().unwrap();
    let registry = router.registry();
    registry.prompts_changed();
    let since = router.change_version().unwrap();
    registry.tools_changed();
    registry.resources_changed();
    registry.tools_changed();
    let late = |since, filter| {
        let mut request = listen(&LiveSubscriptionFilter::new(filter));
        request.since = since;
        let mut active_call = start_without_runtime(&router, request);
        assert!(matches!(poll(&mut active_call), Poll::Ready(Event::Notify(_))));
        active_call
    };
    let mut wants_all = late(Some(since), all());
    assert_eq!(notifications(&mut wants_all), ["tools", "resources"]);
    let wants = SubscriptionFilter::default().resources(true).prompts(true);
    assert_eq!(notifications(&mut late(Some(since), wants)), ["resources"]);
    assert!(notifications(&mut late(None, all())).is_empty());
    assert!(notifications(&mut late(router.change_version(), all())).is_empty());
    registry.tools_changed();
    assert_eq!(notifications(&mut wants_all), ["tools"]);
}

#[test]
fn a_session_edits_its_filter_while_subscribed() {
    let router = everything().build().unwrap();
    let filter = LiveSubscriptionFilter::new(SubscriptionFilter::default());
    let mut active_call = start_without_runtime(&router, listen(&filter));
    assert!(matches!(poll(&mut active_call), Poll::Ready(Event::Notify(_))));
    router.registry().resource_updated("x:a");
    assert!(notifications(&mut active_call).is_empty());
    filter.edit(|filter| filter.uris.insert("x:a".into()));
    router.registry().resource_updated("x:a");
    assert_eq!(notifications(&mut active_call), ["x:a"]);
    router.registry().resource_updated("x:a");
    filter.edit(|filter| filter.uris.clear());
    assert!(notifications(&mut active_call).is_empty(), "unsubscribed before it was sent");
}

#[test]
fn a_slow_subscriber_uses_bounded_memory() {
    let router = everything().build().unwrap();
    let (mut slow, _) = subscribe_and_ack(&router, all());
    for _ in 0..10_000 {
        router.registry().tools_changed();
        router.registry().resource_updated("x:a");
        router.registry().resource_updated("x:b");
    }
    assert_eq!(notifications(&mut slow), ["tools", "x:a", "x:b"]);
}

#[test]
fn adding_and_removing_notifies_subscribers() {
    let router = everything().build().unwrap();
    let registry = router.registry();
    let (mut listener, _) = subscribe_and_ack(&router, all());
    registry.add(Tool::new("late", async || "late")).unwrap();
    assert_eq!(notifications(&mut listener), ["tools"]);
    assert_eq!(text(now(&router, call("late", "{}"))), "late");
    assert!(registry.add(Tool::new("late", async || "again")).is_err());
    assert!(notifications(&mut listener).is_empty(), "nothing changed");
    assert!(registry.remove_tool("late"));
    assert!(!registry.remove_tool("late"));
    assert_eq!(notifications(&mut listener), ["tools"]);
    assert!(kind(now(&router, call("late", "{}"))).is_tool_not_found());

    registry.add(Prompt::new("late", async || "late")).unwrap();
    registry.add(Resource::new("x:late", async || "late")).unwrap();
    assert_eq!(notifications(&mut listener), ["prompts", "resources"]);
    assert!(registry.remove_prompt("late") && registry.remove_resource("x:late"));
    assert_eq!(notifications(&mut listener), ["prompts", "resources"]);
    assert!(!registry.remove_prompt("late") && !registry.remove_resource("x:late"));
}

#[test]
fn templates_can_be_added_and_removed_too() {
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
fn an_error_at_run_time_changes_nothing() {
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
async fn a_running_call_continues_when_its_tool_is_removed() {
    let router = Router::builder()
        .add(Tool::new("slow", async || {
            tokio::task::yield_now().await;
            "done"
        }))
        .build()
        .unwrap();
    let mut active_call = start(&router, call("slow", "{}"));
    assert!(poll(&mut active_call).is_pending());
    assert!(router.registry().remove_tool("slow"));
    assert_eq!(text(done(active_call).await), "done");
}

#[test]
fn subscriptions_have_their_own_limit() {
    let limits = CallLimits::default().listens(2).concurrent(1).queue(0);
    let router = everything().limits(limits).build().unwrap();
    let first = subscribe_and_ack(&router, all());
    let _second = subscribe_and_ack(&router, all());
    let third = now(&router, listen(&LiveSubscriptionFilter::new(all())));
    assert!(kind(third).is_overloaded());
    assert_eq!(text(now(&router, call("t", "{}"))), "t", "calls are counted separately");
    drop(first);
    let _third = subscribe_and_ack(&router, all());
}

#[test]
fn the_resources_of_a_subscription_are_limited() {
    let router = everything().limits(CallLimits::default().subscriptions(2));
    let router = router.build().unwrap();
    let following = |names: &[&str]| SubscriptionFilter::default().uris(uris(names));
    assert_eq!(subscribe_and_ack(&router, following(&["x:1", "x:2"])).1.uris.len(), 2);
    assert_eq!(
        subscribe_and_ack(&router, following(&["x:1", "x:2", "x:3"])).1.uris,
        uris(&["x:1", "x:2"])
    );
}

#[test]
fn a_subscription_is_limited_in_bytes_and_acknowledges_only_what_fits() {
    let limits = CallLimits::default().subscription_bytes(10_000);
    let router = everything().limits(limits).build().unwrap();
    let long = |n: usize| format!("x:{n:04}{}", "y".repeat(994));
    let filter = SubscriptionFilter::default().uris((0..900).map(long));
    let (_listen, agreed) = subscribe_and_ack(&router, filter);
    assert_eq!(agreed.uris, (0..10).map(long).collect());
}

#[test]
fn subscriptions_of_one_caller_leave_room_for_other_callers() {
    let limits = CallLimits::default().listens(8).subscription_total(8 * 1064);
    let router = everything().limits(limits).build().unwrap();
    let following = |count: usize| {
        SubscriptionFilter::default()
            .tools(true)
            .uris((0..count).map(|n| format!("x:{n:04}{}", "y".repeat(994))))
    };
    let listening = |name: &str, count: usize| {
        let filter = LiveSubscriptionFilter::new(following(count));
        let mut active_call = start_without_runtime(&router, by(listen(&filter), name));
        match poll(&mut active_call) {
            Poll::Ready(Event::Notify(Notification::Acknowledged(it))) => Ok((active_call, it)),
            Poll::Ready(Event::Done(outcome)) => Err(kind(outcome)),
            other => panic!("{other:?}"),
        }
    };
    let hogs: Vec<_> = (0..20).map_while(|_| listening("hog", 2).ok()).collect();
    assert_eq!(hogs.len(), 6, "three quarters of all subscriptions");
    assert!(listening("hog", 0).unwrap_err().is_overloaded());
    let follows: usize = hogs.iter().map(|(_, agreed)| agreed.uris.len()).sum();
    assert_eq!(follows, 4, "half of all bytes");
    assert!(hogs.iter().all(|(_, agreed)| agreed.tools), "filters without cost are accepted");
    let (_listen, agreed) = listening("alice", 2).unwrap();
    assert_eq!(agreed.uris.len(), 2);
    drop(hogs);
    let (_listen, agreed) = listening("hog", 4).unwrap();
    assert_eq!(agreed.uris.len(), 2, "all is released: the free share is halved until it fits");
}

#[test]
fn a_session_whose_filter_does_not_fit_is_rejected() {
    let limits = CallLimits::default().subscription_total(1000);
    let router = everything().limits(limits).build().unwrap();
    let filter = LiveSubscriptionFilter::new(SubscriptionFilter::default().uris(uris(&["x:a"])));
    filter.edit(|filter| filter.uris.insert(format!("x:{}", "y".repeat(994))));
    let mut request = listen(&filter);
    request.since = Some(wharf_model::ChangeVersion::FIRST);
    assert!(kind(now(&router, request)).is_overloaded());
    assert_eq!(filter.read(|filter| filter.uris.len()), 2, "nothing is dropped silently");
}

#[tokio::test(start_paused = true)]
async fn a_subscription_has_no_deadline() {
    let router = everything().build().unwrap();
    let mut active_call = start(&router, listen(&LiveSubscriptionFilter::new(all())));
    assert!(matches!(next_notification(&mut active_call).await, Notification::Acknowledged(_)));
    let hours = std::time::Duration::from_secs(100 * 3600);
    assert!(tokio::time::timeout(hours, next(&mut active_call)).await.is_err());
    router.registry().tools_changed();
    assert!(matches!(next_notification(&mut active_call).await, Notification::ToolsChanged));
}

#[test]
fn shutdown_ends_subscriptions_after_pending_notifications() {
    let router = everything().build().unwrap();
    let (mut listener, _) = subscribe_and_ack(&router, all());
    assert!(notifications(&mut listener).is_empty());
    router.registry().tools_changed();
    router.shutdown();
    assert_eq!(notifications(&mut listener), ["tools", "end"]);
    let (mut late, _) = subscribe_and_ack(&router, all());
    assert_eq!(notifications(&mut late), ["end"]);
    assert_eq!(text(now(&router, call("t", "{}"))), "t", "calls still work");
}

#[tokio::test]
async fn shutdown_wakes_a_waiting_subscriber() {
    let router = everything().build().unwrap();
    let active_call = start(&router, listen(&LiveSubscriptionFilter::new(all())));
    let waiting = tokio::spawn(done(active_call));
    tokio::task::yield_now().await;
    router.shutdown();
    assert!(matches!(waiting.await.unwrap(), Outcome::Complete(Reply::Listened)));
}

#[test]
fn updates_of_hidden_resources_are_not_notified() {
    let router = everything()
        .access(|principal: Option<&Principal>, item: Item<'_>| {
            principal.is_some() || !item.name().contains("secret")
        })
        .build()
        .unwrap();
    let filter = || {
        LiveSubscriptionFilter::new(SubscriptionFilter::default().uris(uris(&["x:a", "x:secret"])))
    };
    let mut anonymous = start_without_runtime(&router, listen(&filter()));
    let mut alice = start_without_runtime(&router, by(listen(&filter()), "alice"));
    for active_call in [&mut anonymous, &mut alice] {
        assert!(matches!(poll(active_call), Poll::Ready(Event::Notify(_))));
    }
    router.registry().resource_updated("x:a");
    router.registry().resource_updated("x:secret");
    assert_eq!(notifications(&mut anonymous), ["x:a"]);
    assert_eq!(notifications(&mut alice), ["x:a", "x:secret"]);
}

#[tokio::test]
async fn only_the_elicited_client_is_notified_of_the_completion() {
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
        let mut active_call = start_without_runtime(&router, request);
        assert!(matches!(poll(&mut active_call), Poll::Ready(Event::Notify(_))));
        active_call
    };
    let (mut asked_hears, mut other_hears) = (listener(&asked), listener(&other));
    let mut request = call("sign_in", "{}").from_peer(asked.clone());
    request.asks = InputMode::Deliver;
    let mut active_call = start(&router, request);
    assert!(matches!(next(&mut active_call).await, Event::ClientRequest(..)));
    router.registry().elicitation_complete("id-1");
    router.registry().elicitation_complete("unknown");
    assert_eq!(notifications(&mut asked_hears), ["elicitation id-1"]);
    assert!(notifications(&mut other_hears).is_empty());
}
