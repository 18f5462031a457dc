//! Subscriptions in several processes, notified over one bus.
#![allow(clippy::unwrap_used)]

mod support;

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

use support::*;
use wharf_model::{
    ActiveCall, Bus, BusSubscriber, ChangeVersion, ClientCapabilities, Error, ErrorKind, Event,
    InputMode, LiveSubscriptionFilter, Method, Notification, Peer, Principal, Request,
    RequestBuilder, Service, Stored, SubscriptionFilter, Timer,
};
use wharf_server::{Item, Prompt, Resource, Router, RouterBuilder, Tool};

/// A bus in memory that can be disconnected.
#[derive(Default)]
struct Line {
    ears: Arc<Mutex<Vec<Weak<dyn BusSubscriber>>>>,
    cut: Arc<AtomicBool>,
}

impl Bus for Line {
    fn publish(&self, topic: &str, message: Vec<u8>) -> Stored<()> {
        let (ears, cut, topic) = (self.ears.clone(), self.cut.clone(), topic.to_owned());
        Box::pin(async move {
            if cut.load(Ordering::SeqCst) {
                return Err(Error::new(ErrorKind::TemporarilyUnavailable));
            }
            let ears = ears.lock().unwrap().clone();
            ears.iter().filter_map(Weak::upgrade).for_each(|ear| ear.hear(&topic, &message));
            Ok(())
        })
    }

    fn subscribe(&self, _: &str, ear: Arc<dyn BusSubscriber>) -> Box<dyn Any + Send + Sync> {
        self.ears.lock().unwrap().push(Arc::downgrade(&ear));
        Box::new(ear)
    }
}

impl Line {
    fn missed(&self) {
        let ears = self.ears.lock().unwrap().clone();
        ears.iter().filter_map(Weak::upgrade).for_each(|ear| ear.missed());
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
fn fleet(build: impl Fn() -> RouterBuilder) -> (Arc<Line>, [Router; 3]) {
    let line = Arc::new(Line::default());
    let timer: Arc<dyn Timer> = Arc::new(TokioTimer);
    let node = |_| {
        let router = build().build().unwrap();
        router.join_fleet(line.clone(), &timer);
        router
    };
    let routers = [0, 1, 2].map(node);
    (line, routers)
}

fn filter(uris: &[&str]) -> SubscriptionFilter {
    let uris: BTreeSet<String> = uris.iter().map(|uri| (*uri).to_owned()).collect();
    SubscriptionFilter {
        tools: true,
        prompts: true,
        resources: true,
        uris,
        ..SubscriptionFilter::default()
    }
}

fn listen(filter: SubscriptionFilter, since: Option<ChangeVersion>) -> Request {
    let mut request = RequestBuilder::new(Method::Listen).build();
    request.filter = Some(LiveSubscriptionFilter::new(filter));
    request.since = since;
    request
}

fn begin(router: &Router, request: Request) -> ActiveCall {
    let mut exchange = start_still(router, request);
    assert!(matches!(poll(&mut exchange), Poll::Ready(Event::Notify(_))));
    exchange
}

/// All pending notifications, after all processes had their turn.
async fn hear(exchange: &mut ActiveCall) -> Vec<String> {
    tokio::time::sleep(Duration::from_millis(1)).await;
    let mut heard = Vec::new();
    while let Poll::Ready(event) = poll(exchange) {
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
async fn what_changes_in_one_process_is_told_once_in_each() {
    let (_line, routers) = fleet(everything);
    let mut listeners = routers.each_ref().map(|it| begin(it, listen(filter(&["x:a"]), None)));
    for router in &routers {
        router.registry().tools_changed();
        for listener in &mut listeners {
            assert_eq!(hear(listener).await, ["tools"]);
        }
        router.registry().resource_updated("x:a");
        router.registry().resource_updated("x:b");
        for listener in &mut listeners {
            assert_eq!(hear(listener).await, ["x:a"]);
        }
        router.registry().prompts_changed();
        router.registry().resources_changed();
        for listener in &mut listeners {
            assert_eq!(hear(listener).await, ["prompts", "resources"]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn who_may_not_see_a_resource_hears_nothing_of_it_from_elsewhere() {
    let guarded = || {
        everything().access(|principal: Option<&Principal>, item: Item<'_>| {
            principal.is_some() || !item.name().contains("secret")
        })
    };
    let (line, [here, there, _]) = fleet(guarded);
    let wanted = || listen(filter(&["x:a", "x:secret"]), None);
    let (mut anonymous, mut alice) =
        (begin(&there, wanted()), begin(&there, by(wanted(), "alice")));
    here.registry().resource_updated("x:secret");
    assert!(hear(&mut anonymous).await.is_empty());
    assert_eq!(hear(&mut alice).await, ["x:secret"]);
    // Nor when all resources are reported as changed after missed messages.
    line.missed();
    assert_eq!(hear(&mut anonymous).await, ["tools", "prompts", "resources", "x:a"]);
    let late = listen(filter(&["x:a", "x:secret"]), Some(ChangeVersion::FIRST));
    let heard = hear(&mut begin(&there, late)).await;
    assert_eq!(heard, ["tools", "prompts", "resources", "x:a"]);
}

#[tokio::test(start_paused = true)]
async fn changes_wait_for_a_bus_that_is_gone() {
    let (line, [here, there, _]) = fleet(everything);
    let mut listener = begin(&there, listen(filter(&["x:a"]), None));
    line.cut.store(true, Ordering::SeqCst);
    here.registry().tools_changed();
    here.registry().resource_updated("x:a");
    for number in 0..5000 {
        here.registry().resource_updated(format!("y:{number}"));
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(hear(&mut listener).await.is_empty());
    line.cut.store(false, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(60)).await;
    // Too many changes to record them one by one, so everything is reported as changed.
    assert_eq!(hear(&mut listener).await, ["tools", "prompts", "resources", "x:a"]);
}

#[tokio::test(start_paused = true)]
async fn who_comes_to_another_process_hears_what_was_missed() {
    let (_line, [here, there, _]) = fleet(everything);
    let since = here.moment();
    there.registry().tools_changed();
    there.registry().resource_updated("x:a");
    let heard = hear(&mut begin(&here, listen(filter(&["x:a", "x:b"]), since))).await;
    assert!(heard.contains(&"tools".to_owned()) && heard.contains(&"x:a".to_owned()));
    // A process that has just started has no record of earlier changes.
    let (_line, [late, ..]) = fleet(everything);
    let heard = hear(&mut begin(&late, listen(filter(&["x:a", "x:b"]), since))).await;
    assert_eq!(heard, ["tools", "prompts", "resources", "x:a", "x:b"]);
    // A subscriber that was there all the time is not notified twice, even much later.
    let later = ChangeVersion::at(since.unwrap().number() + 120_000);
    assert!(hear(&mut begin(&here, listen(filter(&["x:a"]), Some(later)))).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_elicitation_is_complete_wherever_its_client_listens() {
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
        let (_line, [asks, hears, completes]) = fleet(signing);
        let listener = |name| {
            let request = listen(filter(&[]), Some(hears.moment().unwrap()));
            begin(&hears, request.from_peer(peer(name)))
        };
        let mut early = listens_first.then(|| (listener("alice"), listener("bob")));
        let mut request = call("sign_in", "{}").from_peer(peer("alice"));
        request.asks = InputMode::Deliver;
        let mut exchange = start(&asks, request);
        assert!(matches!(next(&mut exchange).await, Event::ClientRequest(..)));
        completes.registry().elicitation_complete("unknown");
        completes.registry().elicitation_complete("id-1");
        tokio::time::sleep(Duration::from_millis(1)).await;
        let (alice, bob) = early.get_or_insert_with(|| (listener("alice"), listener("bob")));
        let done = |heard: Vec<String>| {
            heard.into_iter().filter(|it| it.starts_with("done")).collect::<Vec<_>>()
        };
        assert_eq!(done(hear(alice).await), ["done id-1"]);
        assert!(done(hear(bob).await).is_empty());
    }
}
