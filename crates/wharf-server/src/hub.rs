//! Tells listeners what has changed.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    future::poll_fn,
    mem,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Waker},
};

use wharf_model::{
    Filter, LiveFilter, Moment, Notification, Outbox, Peer, Principal, ServerCapabilities,
    TASKS_EXTENSION, Task, TaskState, TaskStatus, Timestamp,
};

use crate::fleet::{self, Relay, Updates};

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
    /// Tells the other processes of the server, if there are any.
    pub(crate) relay: OnceLock<Relay>,
}

/// Who listens, and what those who come late have missed.
struct Listeners {
    next: u64,
    all: BTreeMap<u64, Arc<Listener>>,
    now: Moment,
    tools: Moment,
    prompts: Moment,
    resources: Moment,
    /// What happened to resources of late, where a listener may come from another process.
    updates: Option<Updates>,
}

/// A client that was sent to a URL.
struct Elicitation {
    id: String,
    peer: Weak<Peer>,
    /// By what name the other processes know the client, if they do.
    name: Option<Box<str>>,
    /// Whether it is done, and the client has yet to listen.
    complete: bool,
}

impl Elicitation {
    /// Whether it is done, or its client is gone.
    fn is_spare(&self) -> bool {
        self.complete || (self.peer.strong_count() == 0 && self.name.is_none())
    }

    /// Whether it went to this client.
    fn went_to(&self, peer: &Arc<Peer>) -> bool {
        self.peer.as_ptr() == Arc::as_ptr(peer)
            || (self.name.is_some() && self.name.as_deref() == peer.name())
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
    task: Option<Stand>,
    progress: Option<f64>,
}

/// Where a task stands, as far as a listener can tell.
#[derive(PartialEq)]
struct Stand {
    time: Timestamp,
    status: TaskStatus,
    message: Option<String>,
    /// The keys of its open questions.
    asks: Vec<String>,
}

impl Stand {
    fn of(task: &Task) -> Self {
        let asks = match &task.state {
            TaskState::InputRequired(questions) => {
                questions.iter().map(|(key, _)| key.to_string()).collect()
            }
            _ => Vec::new(),
        };
        let (time, status, message) = (task.updated_at, task.status(), task.message.clone());
        Stand { time, status, message, asks }
    }
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
                updates: None,
            }),
            elicitations: Mutex::default(),
            relay: OnceLock::new(),
        })
    }

    /// From now on, moments are times that all processes of the server understand.
    pub(crate) fn keep_time(&self) {
        let mut listeners = lock(&self.listeners);
        listeners.updates = Some(Updates::since(fleet::now()));
        // Nobody knows what happened before.
        listeners.note_everything();
    }

    /// What time it is for those who listen later.
    pub(crate) fn moment(&self) -> Moment {
        lock(&self.listeners).time()
    }

    /// Takes a listener in, who hears of what has changed since then; `None` if there are too many.
    pub(crate) fn listen(
        self: &Arc<Self>,
        filter: LiveFilter,
        since: Option<Moment>,
        principal: Option<Principal>,
        peer: Arc<Peer>,
        may_follow: impl Fn(Option<&Principal>, &str) -> bool,
    ) -> Option<Listening> {
        let mut listeners = lock(&self.listeners);
        if listeners.all.len() >= self.limit {
            return None;
        }
        let mut missed = BTreeSet::new();
        let number = listeners.next;
        listeners.next += 1;
        let pending = since.map_or_else(Pending::default, |it| listeners.missed(it));
        if let (Some(since), Some(updates)) = (since, &listeners.updates) {
            missed = filter.read(|filter| updates.missed(&filter.uris, since));
        }
        let pending = Mutex::new(pending);
        let listener = Arc::new(Listener { filter, principal, peer, pending });
        listeners.all.insert(number, listener.clone());
        drop(listeners);
        // Code of others, which may come back here: not while anything is locked.
        missed.retain(|uri| may_follow(listener.principal.as_ref(), uri));
        lock(&listener.pending).uris.extend(missed);
        if since.is_some() {
            self.tell_of_elicitations(&listener);
        }
        Some(Listening { hub: self.clone(), number, listener })
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

    /// Something may have happened of which this process was not told: everybody hears of all that
    /// it could be.
    pub(crate) fn suppose_everything(&self, may_follow: impl Fn(Option<&Principal>, &str) -> bool) {
        let mut listeners = lock(&self.listeners);
        listeners.note_everything();
        let everybody = listeners.everybody();
        drop(listeners);
        for listener in everybody {
            let mut uris = listener.filter.read(|filter| filter.uris.clone());
            uris.retain(|uri| may_follow(listener.principal.as_ref(), uri));
            let mut pending = lock(&listener.pending);
            (pending.tools, pending.prompts, pending.resources) = (true, true, true);
            pending.uris.extend(uris.into_iter().map(Arc::from));
            listener.wake(pending);
        }
    }

    /// Remembers whom an elicitation went to: only that client may hear of its end.
    pub(crate) fn remember_elicitation(&self, id: &str, peer: &Arc<Peer>) {
        let mut elicitations = lock(&self.elicitations);
        if elicitations.len() >= ELICITATIONS {
            // Many clients never listen: what they could be told must not displace what goes on.
            let spare = elicitations.iter().position(Elicitation::is_spare).unwrap_or(0);
            elicitations.remove(spare);
        }
        let name = peer.name().map(Into::into);
        let peer = Arc::downgrade(peer);
        elicitations.push_back(Elicitation { id: id.to_owned(), peer, name, complete: false });
    }

    /// Tells the client that was sent to a URL that what it should do there is done: now, or when
    /// it comes to listen, to whichever process.
    pub(crate) fn elicitation_complete(&self, id: &str) {
        let known = self.finish_elicitation(id);
        if let Some(relay) = self.relay.get().filter(|_| !known) {
            relay.ask_who_knows(id);
        }
    }

    /// The same, if this process sent the client there. False if it did not.
    pub(crate) fn finish_elicitation(&self, id: &str) -> bool {
        let mut elicitations = lock(&self.elicitations);
        let index = elicitations.iter().position(|it| it.id == id && !it.complete);
        let Some(asked) = index.and_then(|index| elicitations.remove(index)) else { return false };
        drop(elicitations);
        if let (Some(relay), Some(name)) = (self.relay.get(), &asked.name) {
            relay.finish_elicitation(id, name);
        }
        self.end_elicitation(asked);
        true
    }

    /// Another process sent a client of this name to a URL, and what it should do there is done.
    pub(crate) fn elicitation_ended(&self, id: &str, name: &str) {
        let (id, name) = (id.to_owned(), Some(name.into()));
        self.end_elicitation(Elicitation { id, peer: Weak::new(), name, complete: false });
    }

    fn end_elicitation(&self, asked: Elicitation) {
        if asked.is_spare() {
            return;
        }
        let mut elicitations = lock(&self.elicitations);
        let mut listeners = lock(&self.listeners).everybody();
        listeners.retain(|it| asked.went_to(&it.peer));
        let notification = Notification::ElicitationComplete { id: asked.id.clone() };
        if listeners.is_empty() {
            if elicitations.len() >= ELICITATIONS {
                let spare = elicitations.iter().position(Elicitation::is_spare).unwrap_or(0);
                elicitations.remove(spare);
            }
            elicitations.push_back(Elicitation { complete: true, ..asked });
        }
        drop(elicitations);
        for listener in listeners {
            listener.add(&notification, 0);
        }
    }

    /// Tells a listener who comes late which of its elicitations were done before.
    fn tell_of_elicitations(&self, listener: &Listener) {
        let is_told = |it: &Elicitation| it.complete && it.went_to(&listener.peer);
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
            Notification::ResourceUpdated { uri } => {
                if let Some(updates) = &mut self.updates {
                    updates.note(uri.clone(), fleet::now());
                }
                return;
            }
            _ => return,
        };
        self.now = match self.updates {
            Some(_) => fleet::now().max(self.now.next()),
            None => self.now.next(),
        };
        *changed = self.now;
    }

    /// Remembers that anything may have changed.
    fn note_everything(&mut self) {
        self.now = fleet::now().max(self.now.next());
        (self.tools, self.prompts, self.resources) = (self.now, self.now, self.now);
        if let Some(updates) = &mut self.updates {
            *updates = Updates::since(self.now);
        }
    }

    /// What time it is: after all that is noted, and where processes compare it, by the clock.
    fn time(&self) -> Moment {
        match self.updates {
            Some(_) => fleet::now().max(self.now),
            None => self.now,
        }
    }

    fn missed(&self, since: Moment) -> Pending {
        let since = if self.updates.is_some() { fleet::before(since) } else { since };
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
                let (now, before) = (Stand::of(task), said.task.as_ref());
                let is_over = before.is_some_and(|before| before.status.is_terminal());
                // Clocks may go back; an end stays one.
                let is_stale = !now.status.is_terminal()
                    && before.is_some_and(|before| before.time > now.time);
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
