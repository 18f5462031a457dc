//! Subscriptions in several processes, notified over one bus.

use std::{
    any::Any,
    collections::BTreeSet,
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
    time::Duration,
};

use crate::support::*;
use wharf_model::{
    ActiveCall, Bus, BusSubscriber, ChangeVersion, ClientCapabilities, Error, ErrorKind, Event,
    InputMode, LiveSubscriptionFilter, Method, Notification, Peer, Principal, Request,
    RequestBuilder, Service, Stored, SubscriptionFilter, Timer,
};
use wharf_server::{Item, Prompt, Resource, Router, RouterBuilder, Tool};
use wharf_testbed::TokioTimer;

/// A bus in memory that can be disconnected.
#[derive(Default)]
struct TestBus {
    subscribers: Arc<Mutex<Vec<Weak<dyn BusSubscriber>>>>,
    cut: Arc<AtomicBool>,
}

impl Bus for TestBus {
    fn publish(&self, topic: &str, message: Vec<u8>) -> Stored<()> {
        let (subscribers, cut, topic) =
            (self.subscribers.clone(), self.cut.clone(), topic.to_owned());
        Box::pin(async move {
            if cut.load(Ordering::SeqCst) {
                return Err(Error::new(ErrorKind::TemporarilyUnavailable));
            }
            let subscribers = subscribers.lock().unwrap().clone();
            subscribers
                .iter()
                .filter_map(Weak::upgrade)
                .for_each(|subscriber| subscriber.receive(&topic, &message));
            Ok(())
        })
    }

    fn subscribe(&self, _: &str, subscriber: Arc<dyn BusSubscriber>) -> Box<dyn Any + Send + Sync> {
        self.subscribers.lock().unwrap().push(Arc::downgrade(&subscriber));
        Box::new(subscriber)
    }
}

impl TestBus {
    fn missed(&self) {
        let subscribers = self.subscribers.lock().unwrap().clone();
        subscribers.iter().filter_map(Weak::upgrade).for_each(|subscriber| subscriber.missed());
    }
}

fn everything() -> RouterBuilder {
    Router::builder()
        .add(Tool::new("t", async || "t"))
        .add(Prompt::new("p", async || "p"))
        .add(Resource::new("x:a", async || "a"))
        .add(Resource::new("x:secret", async || "s"))
}

/// Three routers on one bus.
fn cluster(build: impl Fn() -> RouterBuilder) -> (Arc<TestBus>, [Router; 3]) {
    let bus = Arc::new(TestBus::default());
    let timer: Arc<dyn Timer> = Arc::new(TokioTimer);
    let node = |_| {
        let router = build().build().unwrap();
        router.join_cluster(bus.clone(), &timer);
        router
    };
    let routers = [0, 1, 2].map(node);
    (bus, routers)
}

fn filter(uris: &[&str]) -> SubscriptionFilter {
    let uris: BTreeSet<String> = uris.iter().map(|uri| (*uri).to_owned()).collect();
    SubscriptionFilter::default().tools(true).prompts(true).resources(true).uris(uris)
}

fn listen(filter: SubscriptionFilter, since: Option<ChangeVersion>) -> Request {
    let mut request = RequestBuilder::new(Method::Listen).build();
    request.filter = Some(LiveSubscriptionFilter::new(filter));
    request.since = since;
    request
}

fn subscribe_and_ack(router: &Router, request: Request) -> ActiveCall {
    let mut active_call = start_without_runtime(router, request);
    assert!(matches!(poll(&mut active_call), Poll::Ready(Event::Notify(_))));
    active_call
}

/// All pending notifications, after all processes had their turn.
async fn notifications(active_call: &mut ActiveCall) -> Vec<String> {
    tokio::time::sleep(Duration::from_millis(1)).await;
    let mut heard = Vec::new();
    while let Poll::Ready(event) = poll(active_call) {
        heard.push(match event {
            Event::Notify(Notification::ToolsChanged) => "tools".to_owned(),
            Event::Notify(Notification::PromptsChanged) => "prompts".to_owned(),
            Event::Notify(Notification::ResourcesChanged) => "resources".to_owned(),
            Event::Notify(Notification::ResourceUpdated { uri }) => uri.to_string(),
            Event::Notify(Notification::ElicitationComplete { id }) => format!("done {id}"),
            other => panic!("{other:?}"),
        });
    }
    heard
}

#[tokio::test(start_paused = true)]
async fn a_change_is_notified_once_in_each_process() {
    let (_bus, routers) = cluster(everything);
    let mut listeners =
        routers.each_ref().map(|it| subscribe_and_ack(it, listen(filter(&["x:a"]), None)));
    for router in &routers {
        router.registry().tools_changed();
        for listener in &mut listeners {
            assert_eq!(notifications(listener).await, ["tools"]);
        }
        router.registry().resource_updated("x:a");
        router.registry().resource_updated("x:b");
        for listener in &mut listeners {
            assert_eq!(notifications(listener).await, ["x:a"]);
        }
        router.registry().prompts_changed();
        router.registry().resources_changed();
        for listener in &mut listeners {
            assert_eq!(notifications(listener).await, ["prompts", "resources"]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn updates_of_hidden_resources_are_not_notified_from_other_processes() {
    let guarded = || {
        everything().access(|principal: Option<&Principal>, item: Item<'_>| {
            principal.is_some() || !item.name().contains("secret")
        })
    };
    let (bus, [here, there, _]) = cluster(guarded);
    let wanted = || listen(filter(&["x:a", "x:secret"]), None);
    let (mut anonymous, mut alice) =
        (subscribe_and_ack(&there, wanted()), subscribe_and_ack(&there, by(wanted(), "alice")));
    here.registry().resource_updated("x:secret");
    assert!(notifications(&mut anonymous).await.is_empty());
    assert_eq!(notifications(&mut alice).await, ["x:secret"]);
    // Nor when all resources are reported as changed after missed messages.
    bus.missed();
    assert_eq!(notifications(&mut anonymous).await, ["tools", "prompts", "resources", "x:a"]);
    let late = listen(filter(&["x:a", "x:secret"]), Some(ChangeVersion::FIRST));
    let heard = notifications(&mut subscribe_and_ack(&there, late)).await;
    assert_eq!(heard, ["tools", "prompts", "resources", "x:a"]);
}

#[tokio::test(start_paused = true)]
async fn changes_are_queued_while_the_bus_is_down() {
    let (bus, [here, there, _]) = cluster(everything);
    let mut listener = subscribe_and_ack(&there, listen(filter(&["x:a"]), None));
    bus.cut.store(true, Ordering::SeqCst);
    here.registry().tools_changed();
    here.registry().resource_updated("x:a");
    for number in 0..5000 {
        here.registry().resource_updated(format!("y:{number}"));
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(notifications(&mut listener).await.is_empty());
    bus.cut.store(false, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(60)).await;
    // Too many changes to record them one by one, so everything is reported as changed.
    assert_eq!(notifications(&mut listener).await, ["tools", "prompts", "resources", "x:a"]);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_moves_to_another_process_gets_missed_changes() {
    let (_bus, [here, there, _]) = cluster(everything);
    let since = here.change_version();
    there.registry().tools_changed();
    there.registry().resource_updated("x:a");
    let heard =
        notifications(&mut subscribe_and_ack(&here, listen(filter(&["x:a", "x:b"]), since))).await;
    assert!(heard.contains(&"tools".to_owned()) && heard.contains(&"x:a".to_owned()));
    // A process that has just started has no record of earlier changes.
    let (_bus, [late, ..]) = cluster(everything);
    let heard =
        notifications(&mut subscribe_and_ack(&late, listen(filter(&["x:a", "x:b"]), since))).await;
    assert_eq!(heard, ["tools", "prompts", "resources", "x:a", "x:b"]);
    // A subscriber that was there all the time is not notified twice, even much later.
    let later = ChangeVersion::at(since.unwrap().number() + 120_000);
    assert!(
        notifications(&mut subscribe_and_ack(&here, listen(filter(&["x:a"]), Some(later))))
            .await
            .is_empty()
    );
}

#[tokio::test(start_paused = true)]
async fn elicitation_completion_is_notified_in_every_process() {
    let signing = || {
        Router::builder().add(Tool::new("sign_in", async |ctx: wharf_server::Ctx| {
            ctx.ask_url_as("k", "id-1", "Sign in.", "https://example.com").await?;
            Ok::<_, wharf_server::ToolError>("signed in")
        }))
    };
    let peer = |name: &str| {
        let capabilities = r#"{"elicitation":{"form":{},"url":{}}}"#;
        let capabilities: ClientCapabilities = serde_json::from_str(capabilities).unwrap();
        Arc::new(Peer::new(None, capabilities).named(name))
    };
    for listens_first in [true, false] {
        let (_bus, [asks, hears, completes]) = cluster(signing);
        let listener = |name| {
            let request = listen(filter(&[]), Some(hears.change_version().unwrap()));
            subscribe_and_ack(&hears, request.from_peer(peer(name)))
        };
        let mut early = listens_first.then(|| (listener("alice"), listener("bob")));
        let mut request = call("sign_in", "{}").from_peer(peer("alice"));
        request.asks = InputMode::Deliver;
        let mut active_call = start(&asks, request);
        assert!(matches!(next(&mut active_call).await, Event::ClientRequest(..)));
        completes.registry().elicitation_complete("unknown");
        completes.registry().elicitation_complete("id-1");
        tokio::time::sleep(Duration::from_millis(1)).await;
        let (alice, bob) = early.get_or_insert_with(|| (listener("alice"), listener("bob")));
        let done = |heard: Vec<String>| {
            heard.into_iter().filter(|it| it.starts_with("done")).collect::<Vec<_>>()
        };
        assert_eq!(done(notifications(alice).await), ["done id-1"]);
        assert!(done(notifications(bob).await).is_empty());
    }
}
