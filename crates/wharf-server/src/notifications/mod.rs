//! Tells listeners what has changed.

pub(crate) mod cluster;
pub(crate) mod pending;
pub(crate) mod subscription_limits;
pub(crate) mod url_elicitations;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    future::poll_fn,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
};

use wharf_model::{
    ChangeVersion, LiveSubscriptionFilter, Notification, Outbox, Peer, Principal, Request,
    ServerCapabilities, SubscriptionFilter, TASKS_EXTENSION,
};

use crate::notifications::{
    cluster::{TellOthers, Updates},
    subscription_limits::Admitted,
};
use crate::notifications::{
    pending::Pending,
    url_elicitations::{ELICITATIONS, Elicitation},
};

/// All listeners of one server.
pub(crate) struct Hub {
    subscriptions: usize,
    closed: AtomicBool,
    listeners: Mutex<Listeners>,
    elicitations: Mutex<VecDeque<Elicitation>>,
    /// Tells the other processes of the server, if there are any.
    pub(crate) relay: OnceLock<Box<dyn TellOthers>>,
}

/// Who listens, and what those who come late have missed.
struct Listeners {
    next: u64,
    all: BTreeMap<u64, Arc<Listener>>,
    now: ChangeVersion,
    tools: ChangeVersion,
    prompts: ChangeVersion,
    resources: ChangeVersion,
    /// What happened to resources of late, where a listener may come from another process.
    updates: Option<Updates>,
}

/// One listen. What it has yet to hear is a set, so a slow listener holds little however much
/// happens, and whoever publishes never waits.
struct Listener {
    filter: LiveSubscriptionFilter,
    /// None if the client said only with this listen who it is: nothing else is known of that one.
    peer: Option<Arc<Peer>>,
    pending: Mutex<Pending>,
    admitted: Admitted,
}

/// A place among the listeners, given up when dropped.
pub(crate) struct Listening {
    hub: Arc<Hub>,
    number: u64,
    listener: Arc<Listener>,
}

impl Hub {
    pub(crate) fn new(subscriptions: usize) -> Arc<Self> {
        Arc::new(Hub {
            subscriptions,
            closed: AtomicBool::new(false),
            listeners: Mutex::new(Listeners {
                next: 0,
                all: BTreeMap::new(),
                now: ChangeVersion::FIRST,
                tools: ChangeVersion::FIRST,
                prompts: ChangeVersion::FIRST,
                resources: ChangeVersion::FIRST,
                updates: None,
            }),
            elicitations: Mutex::default(),
            relay: OnceLock::new(),
        })
    }

    /// From now on, moments are times that all processes of the server understand.
    pub(crate) fn keep_time(&self) {
        let mut listeners = lock(&self.listeners);
        listeners.updates = Some(Updates::since(cluster::now()));
        // Nobody knows what happened before.
        listeners.note_everything();
    }

    /// What time it is for those who listen later.
    pub(crate) fn moment(&self) -> ChangeVersion {
        lock(&self.listeners).time()
    }

    /// Takes a listener in, who hears of what has changed since the moment that `request` names.
    pub(crate) fn listen(
        self: &Arc<Self>,
        filter: LiveSubscriptionFilter,
        request: &Request,
        admitted: Admitted,
        may_follow: impl Fn(Option<&Principal>, &str) -> bool,
    ) -> Listening {
        let (since, peer) = (request.since, request.known_peer().cloned());
        let mut listeners = lock(&self.listeners);
        filter.begin_as(request.principal());
        let mut missed = BTreeSet::new();
        let number = listeners.next;
        listeners.next += 1;
        let pending = since.map_or_else(Pending::default, |it| listeners.missed(it));
        if let (Some(since), Some(updates)) = (since, &listeners.updates) {
            missed = filter.read(|filter| updates.missed(&filter.uris, since));
        }
        let pending = Mutex::new(pending);
        let listener = Arc::new(Listener { filter, peer, pending, admitted });
        listeners.all.insert(number, listener.clone());
        drop(listeners);
        // Code of others, which may come back here: not while anything is locked.
        let principal = listener.filter.listener();
        missed.retain(|uri| may_follow(principal.as_deref(), uri));
        lock(&listener.pending).uris.extend(missed);
        if since.is_some() {
            self.tell_of_elicitations(&listener);
        }
        Listening { hub: self.clone(), number, listener }
    }

    /// Tells every listener that wants to hear it and that `may_hear` it, in all processes.
    pub(crate) fn publish(
        &self,
        notification: &Notification,
        may_hear: impl Fn(Option<&Principal>) -> bool,
    ) {
        self.tell(notification, may_hear);
        if let Some(relay) = self.relay.get() {
            relay.pass_on(notification);
        }
    }

    /// Tells the listeners of this process.
    pub(crate) fn tell(
        &self,
        notification: &Notification,
        may_hear: impl Fn(Option<&Principal>) -> bool,
    ) {
        let mut listeners = lock(&self.listeners);
        // Together, so that a listener who comes just now hears it once.
        listeners.note(notification);
        let everybody = listeners.everybody();
        drop(listeners);
        for listener in everybody {
            if listener.filter.read(|filter| filter.wants(notification))
                && may_hear(listener.filter.listener().as_deref())
            {
                listener.add(notification, self.subscriptions);
            }
        }
    }

    /// The tasks that anybody follows, of those that are `asked` for.
    pub(crate) fn followed_tasks(&self, asked: impl Fn(&str) -> bool) -> BTreeSet<String> {
        let everybody = lock(&self.listeners).everybody();
        let mut followed = BTreeSet::new();
        for listener in everybody {
            listener.filter.read(|filter| {
                followed.extend(filter.tasks.iter().filter(|id| asked(id)).cloned());
            });
        }
        followed
    }

    /// Something may have happened of which this process was not told: everybody hears of all that
    /// it could be.
    pub(crate) fn suppose_everything(&self, may_follow: impl Fn(Option<&Principal>, &str) -> bool) {
        let mut listeners = lock(&self.listeners);
        listeners.note_everything();
        let everybody = listeners.everybody();
        drop(listeners);
        for listener in everybody {
            let mut uris = listener.filter.read(|filter| filter.uris.clone());
            let principal = listener.filter.listener();
            uris.retain(|uri| may_follow(principal.as_deref(), uri));
            let mut pending = lock(&listener.pending);
            (pending.tools, pending.prompts, pending.resources) = (true, true, true);
            pending.uris.extend(uris.into_iter().map(Arc::from));
            listener.wake(pending);
        }
    }

    /// Ends every listen in good order, and every later one as soon as it begins.
    pub(crate) fn shutdown(&self) {
        self.closed.store(true, Ordering::Release);
        let listeners = lock(&self.listeners).everybody();
        listeners.iter().for_each(|listener| listener.wake(lock(&listener.pending)));
    }
}

impl Listeners {
    fn everybody(&self) -> Vec<Arc<Listener>> {
        self.all.values().cloned().collect()
    }

    /// Remembers a change of a list for those who listen later. Whoever follows a resource listens
    /// already.
    fn note(&mut self, notification: &Notification) {
        let changed = match notification {
            Notification::ToolsChanged => &mut self.tools,
            Notification::PromptsChanged => &mut self.prompts,
            Notification::ResourcesChanged => &mut self.resources,
            Notification::ResourceUpdated { uri } => {
                if let Some(updates) = &mut self.updates {
                    updates.note(uri.clone(), cluster::now());
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

    /// Remembers that anything may have changed.
    fn note_everything(&mut self) {
        self.now = cluster::now().max(self.now.next());
        (self.tools, self.prompts, self.resources) = (self.now, self.now, self.now);
        if let Some(updates) = &mut self.updates {
            *updates = Updates::since(self.now);
        }
    }

    /// What time it is: after all that is noted, and where processes compare it, by the clock.
    fn time(&self) -> ChangeVersion {
        match self.updates {
            Some(_) => cluster::now().max(self.now),
            None => self.now,
        }
    }

    fn missed(&self, since: ChangeVersion) -> Pending {
        let since = if self.updates.is_some() { cluster::before(since) } else { since };
        Pending::lists(self.tools > since, self.prompts > since, self.resources > since)
    }
}

impl Listener {
    fn add(&self, notification: &Notification, subscriptions: usize) {
        let mut pending = lock(&self.pending);
        match notification {
            Notification::ToolsChanged => pending.tools = true,
            Notification::PromptsChanged => pending.prompts = true,
            Notification::ResourcesChanged => pending.resources = true,
            Notification::ResourceUpdated { uri } => {
                // A session may have left what it followed: only what it follows now counts.
                if pending.uris.len() >= subscriptions {
                    self.filter
                        .read(|filter| pending.uris.retain(|it| filter.uris.contains(&**it)));
                }
                pending.uris.insert(uri.clone());
            }
            Notification::ElicitationComplete { id } => {
                if pending.elicitations.len() >= ELICITATIONS {
                    pending.elicitations.pop_front();
                }
                pending.elicitations.push_back(id.clone());
            }
            Notification::Task(_) | Notification::TaskProgress { .. } => {
                if pending.said.len() >= subscriptions {
                    self.filter.read(|filter| pending.forget(|id| !filter.tasks.contains(id)));
                }
                if !pending.add_task(notification, |bytes| self.admitted.room(bytes)) {
                    return;
                }
            }
            _ => return,
        }
        self.wake(pending);
    }

    fn wake(&self, mut pending: MutexGuard<'_, Pending>) {
        let waker = pending.waker.take();
        drop(pending);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Listening {
    /// Tells this listener only.
    pub(crate) fn tell(&self, notification: &Notification) {
        self.listener.add(notification, self.hub.subscriptions);
    }

    /// Passes notifications on, no faster than the client reads, until the server shuts down.
    pub(crate) async fn run(&self, outbox: &Outbox) {
        // No notification is held here: thousands of these wait at a time.
        while poll_fn(|cx| self.poll_pass_on(outbox, cx)).await {
            outbox.room().await;
        }
    }

    /// Passes the next notification on; false at the end.
    fn poll_pass_on(&self, outbox: &Outbox, cx: &Context<'_>) -> Poll<bool> {
        let next = ready!(self.poll_next(cx));
        let more = next.is_some();
        // A session may have edited its filter since.
        let wanted = next.filter(|notification| {
            matches!(notification, Notification::ElicitationComplete { .. })
                || self.listener.filter.read(|filter| filter.wants(notification))
        });
        wanted.into_iter().for_each(|notification| outbox.notify(notification));
        Poll::Ready(more)
    }

    /// `None` at the end.
    fn poll_next(&self, cx: &Context<'_>) -> Poll<Option<Notification>> {
        let mut pending = lock(&self.listener.pending);
        if let Some(notification) = pending.take() {
            return Poll::Ready(Some(notification));
        }
        let old = pending.waker.replace(cx.waker().clone());
        drop(pending);
        drop(old);
        if self.hub.closed.load(Ordering::Acquire) { Poll::Ready(None) } else { Poll::Pending }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        lock(&self.hub.listeners).all.remove(&self.number);
    }
}

/// Leaves of `filter` what a server with these capabilities sends.
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
