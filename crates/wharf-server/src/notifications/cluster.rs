//! What the processes of one server tell each other's listeners.
//!
//! Every process tells its own listeners at once, and the bus tells the others. What the bus does
//! not take is kept, as a set, until it does; what a process may have missed it supposes to have
//! happened. So a change is told at least once.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;
use wharf_model::{Bus, BusSubscriber, ChangeVersion, Notification, Timer};

use crate::{
    notifications::Hub,
    router::{dispatch, state::Core},
};

/// Where it is said.
const TOPIC: &str = "changes";
/// How far the clocks of two processes may lie apart, with time for the bus to carry something. What
/// happened within it is told twice rather than not at all.
const SKEW: Duration = Duration::from_secs(30);
/// How many updates of resources are remembered, and how many wait for a bus that is gone.
const UPDATES: usize = 1024;
/// How soon a bus that is gone is tried again, at first and at last.
const AGAIN: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(5)];

/// The time, as a moment that other processes understand.
pub(crate) fn now() -> ChangeVersion {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    ChangeVersion::at(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// A moment that was certainly before this one, by whichever clock.
pub(crate) fn before(moment: ChangeVersion) -> ChangeVersion {
    ChangeVersion::at(moment.number().saturating_sub(SKEW.as_millis() as u64))
}

/// What happened to resources of late.
pub(crate) struct Updates {
    known: BTreeMap<Arc<str>, ChangeVersion>,
    /// Up to when anything may have happened.
    unknown: ChangeVersion,
}

impl Updates {
    /// Knows what happens from now on.
    pub(crate) fn since(now: ChangeVersion) -> Self {
        Updates { known: BTreeMap::new(), unknown: now }
    }

    pub(crate) fn note(&mut self, uri: Arc<str>, now: ChangeVersion) {
        if self.known.len() >= UPDATES && !self.known.contains_key(&uri) {
            *self = Updates::since(now);
        }
        self.known.insert(uri, now);
    }

    /// Which of these may have been updated since.
    pub(crate) fn missed(
        &self,
        uris: &BTreeSet<String>,
        since: ChangeVersion,
    ) -> BTreeSet<Arc<str>> {
        let since = before(since);
        if self.unknown > since {
            return uris.iter().map(|uri| Arc::from(&**uri)).collect();
        }
        let news = self.known.iter().filter(|(uri, at)| **at > since && uris.contains(&***uri));
        news.map(|(uri, _)| uri.clone()).collect()
    }
}

/// What one process tells the others at once.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct News {
    /// Who says it.
    from: u64,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    tools: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    prompts: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    resources: bool,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    updated: BTreeSet<String>,
    /// More than can be told: anything may have changed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    anything: bool,
    /// Elicitations that are done, for whoever began them.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    done: BTreeSet<String>,
    /// The same, by the names of the clients that should hear of it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    ended: BTreeMap<String, String>,
}

impl News {
    fn is_empty(&self) -> bool {
        let News { tools, prompts, resources, updated, anything, done, ended, .. } = self;
        !(*tools || *prompts || *resources || *anything)
            && updated.is_empty()
            && done.is_empty()
            && ended.is_empty()
    }

    /// Forgets details when they are too many.
    fn bound(&mut self) {
        if self.updated.len() > UPDATES {
            self.anything = true;
            self.updated.clear();
        }
        while self.done.len() > UPDATES {
            self.done.pop_first();
        }
        while self.ended.len() > UPDATES {
            self.ended.pop_first();
        }
    }

    /// Takes back what was not told.
    fn restore(&mut self, untold: News) {
        self.tools |= untold.tools;
        self.prompts |= untold.prompts;
        self.resources |= untold.resources;
        self.anything |= untold.anything;
        self.updated.extend(untold.updated);
        self.done.extend(untold.done);
        self.ended.extend(untold.ended);
        self.bound();
    }
}

/// What the other processes of a server are told. A server without any does not link how.
pub(crate) trait TellOthers: Send + Sync {
    /// Tells the others what the listeners of this process were told.
    fn pass_on(&self, notification: &Notification);
    /// An elicitation is done that this process knows nothing of.
    fn ask_who_knows(&self, id: &str);
    /// An elicitation is done, and a client of this name should hear of it.
    fn finish_elicitation(&self, id: &str, name: &str);
}

/// Tells the other processes of a server.
struct Relay {
    node: u64,
    bus: Arc<dyn Bus>,
    timer: Arc<dyn Timer>,
    /// Changes are made on any thread.
    runtime: Option<Handle>,
    untold: Arc<Mutex<Untold>>,
    _heard: Box<dyn std::any::Any + Send + Sync>,
}

#[derive(Default)]
struct Untold {
    news: News,
    /// Whether somebody tells it right now.
    telling: bool,
}

/// Makes a server one of those on this bus.
pub(crate) fn join(core: &Arc<Core>, bus: Arc<dyn Bus>, timer: Arc<dyn Timer>) {
    let hub = &core.hub;
    let mut node = [0; 8];
    if getrandom::fill(&mut node).is_err() || hub.relay.get().is_some() {
        return;
    }
    let node = u64::from_ne_bytes(node);
    hub.keep_time();
    let heard = bus.subscribe(TOPIC, Arc::new(Hearing { core: Arc::downgrade(core), node }));
    let runtime = Handle::try_current().ok();
    let relay = Relay { node, bus, timer, runtime, untold: Arc::default(), _heard: heard };
    let _ = hub.relay.set(Box::new(relay));
}

impl TellOthers for Relay {
    fn pass_on(&self, notification: &Notification) {
        self.say(|news| match notification {
            Notification::ToolsChanged => news.tools = true,
            Notification::PromptsChanged => news.prompts = true,
            Notification::ResourcesChanged => news.resources = true,
            Notification::ResourceUpdated { uri } => {
                news.updated.insert(uri.to_string());
            }
            // Whoever runs a task tells of it.
            _ => {}
        });
    }

    fn ask_who_knows(&self, id: &str) {
        self.say(|news| {
            news.done.insert(id.to_owned());
        });
    }

    fn finish_elicitation(&self, id: &str, name: &str) {
        self.say(|news| {
            news.ended.insert(id.to_owned(), name.to_owned());
        });
    }
}

impl Relay {
    fn say(&self, add: impl FnOnce(&mut News)) {
        let mut untold = lock(&self.untold);
        add(&mut untold.news);
        untold.news.bound();
        if untold.telling || untold.news.is_empty() {
            return;
        }
        let Some(runtime) = self.runtime.clone().or_else(|| Handle::try_current().ok()) else {
            // It is told with whatever is said in a runtime.
            return;
        };
        untold.telling = true;
        drop(untold);
        let (bus, timer, untold) = (self.bus.clone(), self.timer.clone(), self.untold.clone());
        runtime.spawn(tell(self.node, bus, timer, untold));
    }
}

/// Tells all that is to be told, however long that takes.
async fn tell(node: u64, bus: Arc<dyn Bus>, timer: Arc<dyn Timer>, untold: Arc<Mutex<Untold>>) {
    let [mut wait, most] = AGAIN;
    loop {
        let news = {
            let mut untold = lock(&untold);
            untold.telling = !untold.news.is_empty();
            if !untold.telling {
                return;
            }
            News { from: node, ..mem::take(&mut untold.news) }
        };
        let text = serde_json::to_vec(&news).unwrap_or_default();
        if bus.publish(TOPIC, text).await.is_err() {
            lock(&untold).news.restore(news);
            timer.sleep_until(timer.now() + wait).await;
            wait = (wait * 2).min(most);
        }
    }
}

/// Hears the other processes.
struct Hearing {
    core: Weak<Core>,
    node: u64,
}

impl BusSubscriber for Hearing {
    fn hear(&self, _: &str, message: &[u8]) {
        let Some(core) = self.core.upgrade() else { return };
        let news: News = serde_json::from_slice(message).unwrap_or_default();
        if news.from != self.node {
            heed(&core, &core.hub, news);
        }
    }

    fn missed(&self) {
        if let Some(core) = self.core.upgrade() {
            suppose_everything(&core);
        }
    }
}

fn heed(core: &Core, hub: &Hub, news: News) {
    if news.anything {
        suppose_everything(core);
    }
    let lists = [
        (news.tools, Notification::ToolsChanged),
        (news.prompts, Notification::PromptsChanged),
        (news.resources, Notification::ResourcesChanged),
    ];
    for (_, notification) in lists.iter().filter(|(changed, _)| *changed) {
        hub.tell(notification, |_| true);
    }
    for uri in news.updated {
        let notification = Notification::ResourceUpdated { uri: (&*uri).into() };
        hub.tell(&notification, |principal| dispatch::may_follow(core, principal, &uri));
    }
    for id in news.done {
        hub.finish_elicitation(&id);
    }
    for (id, name) in news.ended {
        hub.elicitation_ended(&id, &name);
    }
}

fn suppose_everything(core: &Core) {
    core.hub.suppose_everything(|principal, uri| dispatch::may_follow(core, principal, uri));
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
