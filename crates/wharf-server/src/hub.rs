//! Tells listeners what has changed.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    future::poll_fn,
    mem,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Waker},
};

use wharf_model::{
    Filter, LiveFilter, Moment, Notification, Outbox, Peer, Principal, ServerCapabilities,
    TASKS_EXTENSION, Task, TaskStatus, Timestamp,
};

/// How many finished elicitations wait for one listener, and how many are remembered: the oldest
/// gives way, of those remembered the oldest that is done.
const ELICITATIONS: usize = 1024;

/// All listeners of one server.
pub(crate) struct Hub {
    limit: usize,
    subscriptions: usize,
    closed: AtomicBool,
    listeners: Mutex<Listeners>,
    elicitations: Mutex<VecDeque<Elicitation>>,
}

/// Who listens, and what those who come late have missed.
struct Listeners {
    next: u64,
    all: BTreeMap<u64, Arc<Listener>>,
    now: Moment,
    tools: Moment,
    prompts: Moment,
    resources: Moment,
}

/// A client that was sent to a URL.
struct Elicitation {
    id: String,
    peer: Weak<Peer>,
    /// Whether it is done, and the client has yet to listen.
    complete: bool,
}

impl Elicitation {
    /// Whether it is done, or its client is gone.
    fn is_spare(&self) -> bool {
        self.complete || self.peer.strong_count() == 0
    }
}

/// One listen. What it has yet to hear is a set, so a slow listener holds little however much
/// happens, and whoever publishes never waits.
struct Listener {
    filter: LiveFilter,
    principal: Option<Principal>,
    peer: Arc<Peer>,
    pending: Mutex<Pending>,
}

#[derive(Default)]
struct Pending {
    tools: bool,
    prompts: bool,
    resources: bool,
    uris: BTreeSet<Arc<str>>,
    elicitations: VecDeque<String>,
    /// Tasks as they stand now: the last word wins.
    tasks: BTreeMap<String, Box<Task>>,
    progress: BTreeMap<String, Notification>,
    /// What was said of each task last.
    said: BTreeMap<String, Said>,
    waker: Option<Waker>,
}

/// What a listener was told of a task last.
#[derive(Default)]
struct Said {
    task: Option<(Timestamp, TaskStatus, Option<String>)>,
    progress: Option<f64>,
}

/// A place among the listeners, given up when dropped.
pub(crate) struct Listening {
    hub: Arc<Hub>,
    number: u64,
    listener: Arc<Listener>,
}

impl Hub {
    pub(crate) fn new(limit: usize, subscriptions: usize) -> Arc<Self> {
        Arc::new(Hub {
            limit,
            subscriptions,
            closed: AtomicBool::new(false),
            listeners: Mutex::new(Listeners {
                next: 0,
                all: BTreeMap::new(),
                now: Moment::FIRST,
                tools: Moment::FIRST,
                prompts: Moment::FIRST,
                resources: Moment::FIRST,
            }),
            elicitations: Mutex::default(),
        })
    }

    /// What time it is for those who listen later.
    pub(crate) fn moment(&self) -> Moment {
        lock(&self.listeners).now
    }

    /// Takes a listener in, who hears of what has changed since then; `None` if there are too many.
    pub(crate) fn listen(
        self: &Arc<Self>,
        filter: LiveFilter,
        since: Option<Moment>,
        principal: Option<Principal>,
        peer: Arc<Peer>,
    ) -> Option<Listening> {
        let mut listeners = lock(&self.listeners);
        if listeners.all.len() >= self.limit {
            return None;
        }
        let number = listeners.next;
        listeners.next += 1;
        let pending = Mutex::new(since.map_or_else(Pending::default, |it| listeners.missed(it)));
        let listener = Arc::new(Listener { filter, principal, peer, pending });
        listeners.all.insert(number, listener.clone());
        drop(listeners);
        if since.is_some() {
            self.tell_of_elicitations(&listener);
        }
        Some(Listening { hub: self.clone(), number, listener })
    }

    /// Tells every listener that wants to hear it and that `may_hear` it.
    pub(crate) fn publish(
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
                && may_hear(listener.principal.as_ref())
            {
                listener.add(notification, self.subscriptions);
            }
        }
    }

    /// Whether anybody follows this task.
    pub(crate) fn follows_task(&self, id: &str) -> bool {
        let listeners = lock(&self.listeners);
        listeners.all.values().any(|it| it.filter.read(|filter| filter.tasks.contains(id)))
    }

    /// The tasks that anybody follows.
    pub(crate) fn followed_tasks(&self) -> BTreeSet<String> {
        let listeners = lock(&self.listeners);
        let followed = |it: &Arc<Listener>| it.filter.read(|filter| filter.tasks.clone());
        listeners.all.values().flat_map(followed).collect()
    }

    /// Remembers whom an elicitation went to: only that client may hear of its end.
    pub(crate) fn remember_elicitation(&self, id: &str, peer: &Arc<Peer>) {
        let mut elicitations = lock(&self.elicitations);
        if elicitations.len() >= ELICITATIONS {
            // Many clients never listen: what they could be told must not displace what goes on.
            let spare = elicitations.iter().position(Elicitation::is_spare).unwrap_or(0);
            elicitations.remove(spare);
        }
        let peer = Arc::downgrade(peer);
        elicitations.push_back(Elicitation { id: id.to_owned(), peer, complete: false });
    }

    /// Tells the client that was sent to a URL that what it should do there is done: now, or when
    /// it comes to listen.
    pub(crate) fn elicitation_complete(&self, id: &str) {
        let mut elicitations = lock(&self.elicitations);
        let index = elicitations.iter().position(|it| it.id == id && !it.complete);
        let Some(asked) = index.and_then(|index| elicitations.remove(index)) else { return };
        let Some(peer) = asked.peer.upgrade() else { return };
        let mut listeners = lock(&self.listeners).everybody();
        listeners.retain(|it| Arc::ptr_eq(&it.peer, &peer));
        if listeners.is_empty() {
            elicitations.push_back(Elicitation { complete: true, ..asked });
        }
        drop(elicitations);
        for listener in listeners {
            listener.add(&Notification::ElicitationComplete { id: id.to_owned() }, 0);
        }
    }

    /// Tells a listener who comes late which of its elicitations were done before.
    fn tell_of_elicitations(&self, listener: &Listener) {
        let is_told =
            |it: &Elicitation| it.complete && it.peer.as_ptr() == Arc::as_ptr(&listener.peer);
        let mut elicitations = lock(&self.elicitations);
        for Elicitation { id, .. } in elicitations.iter().filter(|it| is_told(it)) {
            listener.add(&Notification::ElicitationComplete { id: id.clone() }, 0);
        }
        elicitations.retain(|it| !is_told(it));
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
            _ => return,
        };
        self.now = self.now.next();
        *changed = self.now;
    }

    fn missed(&self, since: Moment) -> Pending {
        Pending {
            tools: self.tools > since,
            prompts: self.prompts > since,
            resources: self.resources > since,
            ..Pending::default()
        }
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
                if !pending.add_task(notification) {
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

impl Pending {
    /// Notes what is new of a task; false if nothing is. What is over stays so.
    fn add_task(&mut self, notification: &Notification) -> bool {
        match notification {
            Notification::Task(task) => {
                let said = self.said.entry(task.id.clone()).or_default();
                let now = (task.updated_at, task.status(), task.message.clone());
                let before = said.task.as_ref();
                let is_over = before.is_some_and(|(_, status, _)| status.is_terminal());
                let is_stale = before.is_some_and(|(time, ..)| *time > task.updated_at);
                if is_over || is_stale || before == Some(&now) {
                    return false;
                }
                said.task = Some(now);
                self.tasks.insert(task.id.clone(), task.clone());
                true
            }
            Notification::TaskProgress { id, progress, .. } => {
                let said = self.said.entry(id.clone()).or_default();
                if said.progress.is_some_and(|before| before >= *progress) {
                    return false;
                }
                said.progress = Some(*progress);
                self.progress.insert(id.clone(), notification.clone());
                true
            }
            _ => false,
        }
    }

    fn forget(&mut self, gone: impl Fn(&str) -> bool) {
        self.said.retain(|id, _| !gone(id));
        self.tasks.retain(|id, _| !gone(id));
        self.progress.retain(|id, _| !gone(id));
    }

    fn take(&mut self) -> Option<Notification> {
        let flags = [
            (&mut self.tools, Notification::ToolsChanged),
            (&mut self.prompts, Notification::PromptsChanged),
            (&mut self.resources, Notification::ResourcesChanged),
        ];
        for (flag, notification) in flags {
            if mem::take(flag) {
                return Some(notification);
            }
        }
        if let Some(uri) = self.uris.pop_first() {
            return Some(Notification::ResourceUpdated { uri });
        }
        if let Some((_, notification)) = self.progress.pop_first() {
            return Some(notification);
        }
        if let Some((_, task)) = self.tasks.pop_first() {
            return Some(Notification::Task(task));
        }
        self.elicitations.pop_front().map(|id| Notification::ElicitationComplete { id })
    }
}

impl Listening {
    /// Tells this listener only.
    pub(crate) fn tell(&self, notification: &Notification) {
        self.listener.add(notification, self.hub.subscriptions);
    }

    /// Passes notifications on, no faster than the client reads, until the server shuts down.
    pub(crate) async fn run(&self, outbox: &Outbox) {
        while let Some(notification) = poll_fn(|cx| self.poll_next(cx)).await {
            // A session may have edited its filter since.
            let wanted = matches!(notification, Notification::ElicitationComplete { .. })
                || self.listener.filter.read(|filter| filter.wants(&notification));
            if wanted {
                outbox.notify(notification);
                outbox.room().await;
            }
        }
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
pub(crate) fn restrict(filter: &mut Filter, capabilities: &ServerCapabilities) {
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

/// Leaves of `filter` no more than `most` URIs.
pub(crate) fn bound(filter: &mut Filter, most: usize) {
    while filter.uris.len() > most {
        filter.uris.pop_last();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
