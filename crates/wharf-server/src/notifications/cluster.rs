//! Forwards change notifications between the processes of one server.
//!
//! Every process notifies its own subscribers immediately, and the other processes over the bus.
//! Changes that the bus did not accept are kept, as a set, and retried. After a loss, a process
//! assumes that everything changed. So a change is notified at least once.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    mem,
    sync::{Arc, Weak},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;
use wharf_model::{
    Bus, BusSubscriber, ChangeVersion, CustomNotification, Lock, Notification, Timer,
};

use crate::{
    notifications::SubscriptionTable,
    router::{read_resource, state::ServerState},
};

/// Bus topic of changes.
const TOPIC: &str = "changes";
/// Maximum clock skew between two processes, including the delay of the bus. A change within it is
/// notified twice rather than not at all.
const CLOCK_SKEW: Duration = Duration::from_secs(30);
/// Maximum number of resource updates that are remembered, and that wait while the bus is
/// unavailable.
const MAX_UPDATES: usize = 1024;
/// Maximum bytes of unpublished notifications of extensions; the oldest are dropped.
const MAX_CUSTOM_BYTES: usize = 256 << 10;
/// First and longest delay before a publication is retried.
const RETRY_DELAYS: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(5)];

/// Returns the time as a change version that other processes can compare.
pub(crate) fn now() -> ChangeVersion {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    ChangeVersion::at(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// Subtracts the clock skew: the result is certainly earlier, by any clock.
pub(crate) fn minus_skew(version: ChangeVersion) -> ChangeVersion {
    ChangeVersion::at(version.number().saturating_sub(CLOCK_SKEW.as_millis() as u64))
}

/// Recent resource updates.
pub(crate) struct ResourceUpdates {
    known: BTreeMap<Arc<str>, ChangeVersion>,
    /// Anything may have changed up to this version.
    unknown: ChangeVersion,
}

impl ResourceUpdates {
    /// Creates the record of updates from `now` on.
    pub(crate) fn since(now: ChangeVersion) -> Self {
        ResourceUpdates { known: BTreeMap::new(), unknown: now }
    }

    pub(crate) fn record(&mut self, uri: Arc<str>, now: ChangeVersion) {
        if self.known.len() >= MAX_UPDATES && !self.known.contains_key(&uri) {
            *self = ResourceUpdates::since(now);
        }
        self.known.insert(uri, now);
    }

    /// Returns those of `uris` that may have been updated since.
    pub(crate) fn missed(
        &self,
        uris: &BTreeSet<String>,
        since: ChangeVersion,
    ) -> BTreeSet<Arc<str>> {
        let since = minus_skew(since);
        if self.unknown > since {
            return uris.iter().map(|uri| Arc::from(&**uri)).collect();
        }
        let changes = self.known.iter().filter(|(uri, at)| **at > since && uris.contains(&***uri));
        changes.map(|(uri, _)| uri.clone()).collect()
    }
}

/// Message of changes that one process sends to the others.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct ChangeMessage {
    /// Id of the sending process.
    from: u64,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    tools: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    prompts: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    resources: bool,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    updated: BTreeSet<String>,
    /// True if there were too many changes to list: anything may have changed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    anything: bool,
    /// Completed elicitations, for the process that sent them.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    done: BTreeSet<String>,
    /// Completed elicitations, with the names of the clients to notify.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    ended: BTreeMap<String, String>,
    /// Notifications of extensions, in order.
    #[serde(skip_serializing_if = "VecDeque::is_empty")]
    custom: VecDeque<CustomNotification>,
}

impl ChangeMessage {
    fn is_empty(&self) -> bool {
        let ChangeMessage {
            tools, prompts, resources, updated, anything, done, ended, custom, ..
        } = self;
        !(*tools || *prompts || *resources || *anything)
            && updated.is_empty()
            && done.is_empty()
            && ended.is_empty()
            && custom.is_empty()
    }

    /// Drops details that exceed the limits.
    fn bound(&mut self) {
        if self.updated.len() > MAX_UPDATES {
            self.anything = true;
            self.updated.clear();
        }
        while self.done.len() > MAX_UPDATES {
            self.done.pop_first();
        }
        while self.ended.len() > MAX_UPDATES {
            self.ended.pop_first();
        }
        let size = |it: &CustomNotification| it.heap_bytes();
        while self.custom.len() > MAX_UPDATES
            || self.custom.iter().map(size).sum::<usize>() > MAX_CUSTOM_BYTES
        {
            self.custom.pop_front();
        }
    }

    /// Puts back changes that were not sent.
    fn restore(&mut self, unsent: ChangeMessage) {
        self.tools |= unsent.tools;
        self.prompts |= unsent.prompts;
        self.resources |= unsent.resources;
        self.anything |= unsent.anything;
        self.updated.extend(unsent.updated);
        self.done.extend(unsent.done);
        self.ended.extend(unsent.ended);
        let later = mem::replace(&mut self.custom, unsent.custom);
        self.custom.extend(later);
        self.bound();
    }
}

/// Publishes changes to the other processes of a server. A trait object, so that a single process
/// does not link it.
pub(crate) trait ClusterPublisher: Send + Sync {
    /// Publishes a change that the subscribers of this process were notified of.
    fn publish(&self, notification: &Notification);
    /// Publishes that an elicitation is complete which this process did not send.
    fn publish_elicitation_done(&self, id: &str);
    /// Publishes that an elicitation is complete, and the name of the client to notify.
    fn finish_elicitation(&self, id: &str, name: &str);
}

/// Publishes changes over the bus.
struct BusPublisher {
    node: u64,
    bus: Arc<dyn Bus>,
    timer: Arc<dyn Timer>,
    /// The runtime to publish in, because changes are made on any thread.
    runtime: Option<Handle>,
    unsent: Arc<Lock<UnsentChanges>>,
    _subscription: Box<dyn std::any::Any + Send + Sync>,
}

#[derive(Default)]
struct UnsentChanges {
    changes: ChangeMessage,
    /// True while a task publishes the changes.
    publishing: bool,
}

/// Connects a server to the other processes on this bus.
pub(crate) fn join(server: &Arc<ServerState>, bus: Arc<dyn Bus>, timer: Arc<dyn Timer>) {
    let subscription_table = &server.subscription_table;
    let mut node = [0; 8];
    if getrandom::fill(&mut node).is_err() || subscription_table.publisher.get().is_some() {
        return;
    }
    let node = u64::from_ne_bytes(node);
    subscription_table.use_shared_clock();
    let subscription =
        bus.subscribe(TOPIC, Arc::new(ChangeSubscriber { server: Arc::downgrade(server), node }));
    let runtime = Handle::try_current().ok();
    let publisher = BusPublisher {
        node,
        bus,
        timer,
        runtime,
        unsent: Arc::default(),
        _subscription: subscription,
    };
    let _ = subscription_table.publisher.set(Box::new(publisher));
}

impl ClusterPublisher for BusPublisher {
    fn publish(&self, notification: &Notification) {
        self.enqueue(|changes| match notification {
            Notification::ToolsChanged => changes.tools = true,
            Notification::PromptsChanged => changes.prompts = true,
            Notification::ResourcesChanged => changes.resources = true,
            Notification::ResourceUpdated { uri } => {
                changes.updated.insert(uri.to_string());
            }
            Notification::Custom(it) => changes.custom.push_back((**it).clone()),
            // The process that runs a task sends its notifications.
            _ => {}
        });
    }

    fn publish_elicitation_done(&self, id: &str) {
        self.enqueue(|changes| {
            changes.done.insert(id.to_owned());
        });
    }

    fn finish_elicitation(&self, id: &str, name: &str) {
        self.enqueue(|changes| {
            changes.ended.insert(id.to_owned(), name.to_owned());
        });
    }
}

impl BusPublisher {
    fn enqueue(&self, add: impl FnOnce(&mut ChangeMessage)) {
        let mut unsent = self.unsent.lock();
        add(&mut unsent.changes);
        unsent.changes.bound();
        if unsent.publishing || unsent.changes.is_empty() {
            return;
        }
        let Some(runtime) = self.runtime.clone().or_else(|| Handle::try_current().ok()) else {
            // It is published together with the next change that is made inside a runtime.
            return;
        };
        unsent.publishing = true;
        drop(unsent);
        let (bus, timer, unsent) = (self.bus.clone(), self.timer.clone(), self.unsent.clone());
        runtime.spawn(publish_loop(self.node, bus, timer, unsent));
    }
}

/// Publishes the unsent changes, with retries, until there are none.
async fn publish_loop(
    node: u64,
    bus: Arc<dyn Bus>,
    timer: Arc<dyn Timer>,
    unsent: Arc<Lock<UnsentChanges>>,
) {
    let [mut wait, most] = RETRY_DELAYS;
    loop {
        let changes = {
            let mut unsent = unsent.lock();
            unsent.publishing = !unsent.changes.is_empty();
            if !unsent.publishing {
                return;
            }
            ChangeMessage { from: node, ..mem::take(&mut unsent.changes) }
        };
        let text = serde_json::to_vec(&changes).unwrap_or_default();
        if bus.publish(TOPIC, text).await.is_err() {
            unsent.lock().changes.restore(changes);
            timer.sleep_until(timer.now() + wait).await;
            wait = (wait * 2).min(most);
        }
    }
}

/// Receives changes from the other processes.
struct ChangeSubscriber {
    server: Weak<ServerState>,
    node: u64,
}

impl BusSubscriber for ChangeSubscriber {
    fn receive(&self, _: &str, message: &[u8]) {
        let Some(server) = self.server.upgrade() else { return };
        let changes: ChangeMessage = serde_json::from_slice(message).unwrap_or_default();
        if changes.from != self.node {
            apply_changes(&server, &server.subscription_table, changes);
        }
    }

    fn missed(&self) {
        if let Some(server) = self.server.upgrade() {
            mark_all_changed(&server);
        }
    }
}

fn apply_changes(
    server: &ServerState,
    subscription_table: &SubscriptionTable,
    changes: ChangeMessage,
) {
    if changes.anything {
        mark_all_changed(server);
    }
    let lists = [
        (changes.tools, Notification::ToolsChanged),
        (changes.prompts, Notification::PromptsChanged),
        (changes.resources, Notification::ResourcesChanged),
    ];
    for (_, notification) in lists.iter().filter(|(changed, _)| *changed) {
        subscription_table.notify_local(notification, |_| true);
    }
    for uri in changes.updated {
        let notification = Notification::ResourceUpdated { uri: (&*uri).into() };
        subscription_table.notify_local(&notification, |principal| {
            read_resource::may_subscribe(server, principal, &uri)
        });
    }
    for notification in changes.custom {
        let notification = Notification::Custom(Box::new(notification));
        subscription_table.notify_local(&notification, |_| true);
    }
    for id in changes.done {
        subscription_table.finish_elicitation(&id);
    }
    for (id, name) in changes.ended {
        subscription_table.elicitation_ended(&id, &name);
    }
}

fn mark_all_changed(server: &ServerState) {
    server
        .subscription_table
        .mark_all_changed(|principal, uri| read_resource::may_subscribe(server, principal, uri));
}
