//! Table of the subscriptions of a server, and the delivery of change notifications to them.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    future::poll_fn,
    sync::{
        Arc, MutexGuard, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
};

use wharf_model::{
    ChangeVersion, LiveSubscriptionFilter, Lock, Notification, Outbox, Peer, Principal, Request,
    ServerCapabilities, SubscriptionFilter, TASKS_EXTENSION,
};

use crate::notifications::{
    cluster,
    cluster::{ClusterPublisher, ResourceUpdates},
    subscription_limits::SubscriptionPermit,
};
use crate::notifications::{
    pending::PendingNotifications,
    url_elicitations::{MAX_ELICITATIONS, UrlElicitation},
};

/// Subscriptions of one server.
pub(crate) struct SubscriptionTable {
    pub(super) subscriptions: usize,
    pub(super) closed: AtomicBool,
    pub(super) subscribers: Lock<SubscriberSet>,
    pub(super) elicitations: Lock<VecDeque<UrlElicitation>>,
    /// Publishes changes to the other processes of the server, if there are any.
    pub(crate) publisher: OnceLock<Box<dyn ClusterPublisher>>,
}

/// Active subscriptions, and the versions of the last changes for those that resume.
pub(super) struct SubscriberSet {
    next: u64,
    all: BTreeMap<u64, Arc<SubscriberState>>,
    now: ChangeVersion,
    tools: ChangeVersion,
    prompts: ChangeVersion,
    resources: ChangeVersion,
    /// Recent resource updates, kept if a subscription may resume from another process.
    updates: Option<ResourceUpdates>,
}

/// One subscription. Its pending notifications are a set, so a slow subscriber needs little memory
/// whatever happens, and a publisher never waits for it (back-pressure by coalescing).
pub(super) struct SubscriberState {
    pub(super) filter: LiveSubscriptionFilter,
    /// `None` if the client introduced itself only in this request: then it has no other state
    /// here.
    pub(super) peer: Option<Arc<Peer>>,
    pub(super) pending: Lock<PendingNotifications>,
    pub(super) permit: SubscriptionPermit,
    /// Extensions with notifications that the client declared; `None` if there are none.
    extensions: Option<Arc<BTreeSet<String>>>,
}

/// Permit of a subscription, and the extensions that its client declared.
pub(crate) struct SubscriptionOptions {
    pub(crate) permit: SubscriptionPermit,
    pub(crate) extensions: Option<Arc<BTreeSet<String>>>,
}

/// Registration of a subscription, removed on drop.
pub(crate) struct ActiveSubscription {
    subscription_table: Arc<SubscriptionTable>,
    number: u64,
    subscriber: Arc<SubscriberState>,
}

impl SubscriptionTable {
    pub(crate) fn new(subscriptions: usize) -> Arc<Self> {
        Arc::new(SubscriptionTable {
            subscriptions,
            closed: AtomicBool::new(false),
            subscribers: Lock::new(SubscriberSet {
                next: 0,
                all: BTreeMap::new(),
                now: ChangeVersion::FIRST,
                tools: ChangeVersion::FIRST,
                prompts: ChangeVersion::FIRST,
                resources: ChangeVersion::FIRST,
                updates: None,
            }),
            elicitations: Lock::default(),
            publisher: OnceLock::new(),
        })
    }

    /// Switches change versions to wall-clock times, which all processes of the server can compare.
    pub(crate) fn use_shared_clock(&self) {
        let mut subscribers = self.subscribers.lock();
        subscribers.updates = Some(ResourceUpdates::since(cluster::now()));
        // Earlier changes are unknown.
        subscribers.mark_all_changed();
    }

    /// Returns the current change version, for subscriptions that resume later.
    pub(crate) fn change_version(&self) -> ChangeVersion {
        self.subscribers.lock().time()
    }

    /// Adds a subscription; it receives the changes since the version in `request`.
    pub(crate) fn listen(
        self: &Arc<Self>,
        filter: LiveSubscriptionFilter,
        request: &Request,
        options: SubscriptionOptions,
        may_subscribe: impl Fn(Option<&Principal>, &str) -> bool,
    ) -> ActiveSubscription {
        let (since, peer) = (request.since, request.known_peer().cloned());
        let mut subscribers = self.subscribers.lock();
        filter.set_authenticated_principal(request.principal());
        let mut missed = BTreeSet::new();
        let number = subscribers.next;
        subscribers.next += 1;
        let pending = since.map_or_else(PendingNotifications::default, |it| subscribers.missed(it));
        if let (Some(since), Some(updates)) = (since, &subscribers.updates) {
            missed = filter.read(|filter| updates.missed(&filter.uris, since));
        }
        let pending = Lock::new(pending);
        let SubscriptionOptions { permit, extensions } = options;
        let subscriber = Arc::new(SubscriberState { filter, peer, pending, permit, extensions });
        subscribers.all.insert(number, subscriber.clone());
        drop(subscribers);
        // The closure is foreign code that may call back: no lock may be held.
        let principal = subscriber.filter.listener();
        missed.retain(|uri| may_subscribe(principal.as_deref(), uri));
        subscriber.pending.lock().uris.extend(missed);
        if since.is_some() {
            self.send_completed_elicitations(&subscriber);
        }
        ActiveSubscription { subscription_table: self.clone(), number, subscriber }
    }

    /// Notifies every subscriber whose filter matches and that `is_allowed` accepts, in all
    /// processes.
    pub(crate) fn publish(
        &self,
        notification: &Notification,
        is_allowed: impl Fn(Option<&Principal>) -> bool,
    ) {
        self.notify_local(notification, is_allowed);
        if let Some(publisher) = self.publisher.get() {
            publisher.publish(notification);
        }
    }

    /// Notifies the subscribers of this process.
    pub(crate) fn notify_local(
        &self,
        notification: &Notification,
        is_allowed: impl Fn(Option<&Principal>) -> bool,
    ) {
        let mut subscribers = self.subscribers.lock();
        // Under one lock, so that a new subscriber receives the change once.
        subscribers.record(notification);
        let all_subscribers = subscribers.all_subscribers();
        drop(subscribers);
        self.add_to(&all_subscribers, notification, is_allowed);
    }

    /// Notifies the subscribers of this process. Subscriptions that resume later do not receive the notification.
    pub(crate) fn deliver(
        &self,
        notification: &Notification,
        is_allowed: impl Fn(Option<&Principal>) -> bool,
    ) {
        let all_subscribers = self.subscribers.lock().all_subscribers();
        self.add_to(&all_subscribers, notification, is_allowed);
    }

    fn add_to(
        &self,
        subscribers: &[Arc<SubscriberState>],
        notification: &Notification,
        is_allowed: impl Fn(Option<&Principal>) -> bool,
    ) {
        for subscriber in subscribers {
            if subscriber.filter.read(|filter| filter.includes(notification))
                && is_allowed(subscriber.filter.listener().as_deref())
            {
                subscriber.add(notification, self.subscriptions);
            }
        }
    }

    /// Returns the tasks that any subscription follows, of those that `asked` selects.
    pub(crate) fn followed_tasks(&self, asked: impl Fn(&str) -> bool) -> BTreeSet<String> {
        let all_subscribers = self.subscribers.lock().all_subscribers();
        let mut followed = BTreeSet::new();
        for subscriber in all_subscribers {
            subscriber.filter.read(|filter| {
                followed.extend(filter.tasks.iter().filter(|id| asked(id)).cloned());
            });
        }
        followed
    }

    /// Notifies all subscribers of all possible changes, because messages of other processes may
    /// have been lost.
    pub(crate) fn mark_all_changed(
        &self,
        may_subscribe: impl Fn(Option<&Principal>, &str) -> bool,
    ) {
        let mut subscribers = self.subscribers.lock();
        subscribers.mark_all_changed();
        let all_subscribers = subscribers.all_subscribers();
        drop(subscribers);
        for subscriber in all_subscribers {
            let mut uris = subscriber.filter.read(|filter| filter.uris.clone());
            let principal = subscriber.filter.listener();
            uris.retain(|uri| may_subscribe(principal.as_deref(), uri));
            let mut pending = subscriber.pending.lock();
            (pending.tools, pending.prompts, pending.resources) = (true, true, true);
            pending.uris.extend(uris.into_iter().map(Arc::from));
            subscriber.wake(pending);
        }
    }

    /// Ends every subscription gracefully, and later ones as soon as they begin.
    pub(crate) fn shutdown(&self) {
        self.closed.store(true, Ordering::Release);
        let subscribers = self.subscribers.lock().all_subscribers();
        subscribers.iter().for_each(|subscriber| subscriber.wake(subscriber.pending.lock()));
    }
}

impl SubscriberSet {
    pub(super) fn all_subscribers(&self) -> Vec<Arc<SubscriberState>> {
        self.all.values().cloned().collect()
    }

    /// Records the change of a list for subscriptions that resume later. Resource updates are
    /// recorded only if several processes share the server.
    fn record(&mut self, notification: &Notification) {
        let changed = match notification {
            Notification::ToolsChanged => &mut self.tools,
            Notification::PromptsChanged => &mut self.prompts,
            Notification::ResourcesChanged => &mut self.resources,
            Notification::ResourceUpdated { uri } => {
                if let Some(updates) = &mut self.updates {
                    updates.record(uri.clone(), cluster::now());
                }
                return;
            }
            _ => return,
        };
        self.now = match self.updates {
            Some(_) => cluster::now().max(self.now.next()),
            None => self.now.next(),
        };
        *changed = self.now;
    }

    /// Records that anything may have changed.
    fn mark_all_changed(&mut self) {
        self.now = cluster::now().max(self.now.next());
        (self.tools, self.prompts, self.resources) = (self.now, self.now, self.now);
        if let Some(updates) = &mut self.updates {
            *updates = ResourceUpdates::since(self.now);
        }
    }

    /// Returns the current version: after all recorded changes, and by the clock if processes
    /// compare it.
    fn time(&self) -> ChangeVersion {
        match self.updates {
            Some(_) => cluster::now().max(self.now),
            None => self.now,
        }
    }

    fn missed(&self, since: ChangeVersion) -> PendingNotifications {
        let since = if self.updates.is_some() { cluster::minus_skew(since) } else { since };
        PendingNotifications::lists(
            self.tools > since,
            self.prompts > since,
            self.resources > since,
        )
    }
}

impl SubscriberState {
    pub(super) fn add(&self, notification: &Notification, subscriptions: usize) {
        let mut pending = self.pending.lock();
        match notification {
            Notification::ToolsChanged => pending.tools = true,
            Notification::PromptsChanged => pending.prompts = true,
            Notification::ResourcesChanged => pending.resources = true,
            Notification::ResourceUpdated { uri } => {
                // A session may have unsubscribed: only resources that it still follows count.
                if pending.uris.len() >= subscriptions {
                    self.filter
                        .read(|filter| pending.uris.retain(|it| filter.uris.contains(&**it)));
                }
                pending.uris.insert(uri.clone());
            }
            Notification::ElicitationComplete { id } => {
                if pending.elicitations.len() >= MAX_ELICITATIONS {
                    pending.elicitations.pop_front();
                }
                pending.elicitations.push_back(id.clone());
            }
            Notification::Task(_) | Notification::TaskProgress { .. } => {
                if pending.sent.len() >= subscriptions {
                    self.filter
                        .read(|filter| pending.remove_tasks(|id| !filter.tasks.contains(id)));
                }
                if !pending.add_task(notification, |bytes| self.permit.reserve(bytes)) {
                    return;
                }
            }
            Notification::Custom(it) => {
                let declared =
                    self.extensions.as_ref().is_some_and(|ids| ids.contains(&it.extension));
                if !declared || !pending.custom.push(it, |bytes| self.permit.reserve(bytes)) {
                    return;
                }
            }
            _ => return,
        }
        self.wake(pending);
    }

    fn wake(&self, mut pending: MutexGuard<'_, PendingNotifications>) {
        let waker = pending.waker.take();
        drop(pending);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl ActiveSubscription {
    /// Notifies this subscriber only.
    pub(crate) fn notify(&self, notification: &Notification) {
        self.subscriber.add(notification, self.subscription_table.subscriptions);
    }

    /// Sends notifications, no faster than the client reads, until the server shuts down.
    pub(crate) async fn run(&self, outbox: &Outbox) {
        // No notification is stored in this future: thousands of them wait at a time.
        while poll_fn(|cx| self.poll_send(outbox, cx)).await {
            outbox.wait_for_capacity().await;
        }
    }

    /// Sends the next notification; false at the end.
    fn poll_send(&self, outbox: &Outbox, cx: &Context<'_>) -> Poll<bool> {
        let next = ready!(self.poll_next(cx));
        let more = next.is_some();
        // A session may have edited its filter since.
        let wanted = next.filter(|notification| {
            matches!(notification, Notification::ElicitationComplete { .. })
                || self.subscriber.filter.read(|filter| filter.includes(notification))
        });
        wanted.into_iter().for_each(|notification| outbox.notify(notification));
        Poll::Ready(more)
    }

    /// `None` at the end.
    fn poll_next(&self, cx: &Context<'_>) -> Poll<Option<Notification>> {
        let mut pending = self.subscriber.pending.lock();
        if let Some(notification) = pending.take() {
            return Poll::Ready(Some(notification));
        }
        let old = pending.waker.replace(cx.waker().clone());
        drop(pending);
        drop(old);
        if self.subscription_table.closed.load(Ordering::Acquire) {
            Poll::Ready(None)
        } else {
            Poll::Pending
        }
    }
}

impl Drop for ActiveSubscription {
    fn drop(&mut self) {
        self.subscription_table.subscribers.lock().all.remove(&self.number);
    }
}

/// Restricts `filter` to the notifications that a server with these capabilities sends.
pub(crate) fn restrict(filter: &mut SubscriptionFilter, capabilities: &ServerCapabilities) {
    let resources = capabilities.resources.as_ref();
    filter.tools &= capabilities.tools.as_ref().is_some_and(|it| it.list_changed);
    filter.prompts &= capabilities.prompts.as_ref().is_some_and(|it| it.list_changed);
    filter.resources &= resources.is_some_and(|it| it.list_changed);
    if !resources.is_some_and(|it| it.subscribe) {
        filter.uris.clear();
    }
    if !capabilities.extensions.contains_key(TASKS_EXTENSION) {
        filter.tasks.clear();
    }
}
