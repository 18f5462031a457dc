//! Tells listeners what has changed.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    future::poll_fn,
    mem,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
};

use wharf_model::{Filter, LiveFilter, Notification, Outbox, Peer, Principal, ServerCapabilities};

/// How many finished elicitations wait for one listener, and how many unfinished ones are
/// remembered: the oldest gives way.
const ELICITATIONS: usize = 1024;

/// All listeners of one server.
pub(crate) struct Hub {
    limit: usize,
    subscriptions: usize,
    closed: AtomicBool,
    next: AtomicU64,
    listeners: Mutex<BTreeMap<u64, Arc<Listener>>>,
    elicitations: Mutex<VecDeque<(String, Weak<Peer>)>>,
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
    waker: Option<Waker>,
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
            next: AtomicU64::new(0),
            listeners: Mutex::default(),
            elicitations: Mutex::default(),
        })
    }

    /// Takes a listener in; `None` if there are too many.
    pub(crate) fn listen(
        self: &Arc<Self>,
        filter: LiveFilter,
        principal: Option<Principal>,
        peer: Arc<Peer>,
    ) -> Option<Listening> {
        let mut listeners = lock(&self.listeners);
        if listeners.len() >= self.limit {
            return None;
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let listener = Arc::new(Listener { filter, principal, peer, pending: Mutex::default() });
        listeners.insert(number, listener.clone());
        drop(listeners);
        Some(Listening { hub: self.clone(), number, listener })
    }

    /// Tells every listener that wants to hear it and that `may_hear` it.
    pub(crate) fn publish(
        &self,
        notification: &Notification,
        may_hear: impl Fn(Option<&Principal>) -> bool,
    ) {
        let listeners: Vec<_> = lock(&self.listeners).values().cloned().collect();
        for listener in listeners {
            if listener.filter.read(|filter| filter.wants(notification))
                && may_hear(listener.principal.as_ref())
            {
                listener.add(notification, self.subscriptions);
            }
        }
    }

    /// Remembers whom an elicitation went to: only that client may hear of its end.
    pub(crate) fn remember_elicitation(&self, id: &str, peer: &Arc<Peer>) {
        let mut elicitations = lock(&self.elicitations);
        if elicitations.len() >= ELICITATIONS {
            elicitations.pop_front();
        }
        elicitations.push_back((id.to_owned(), Arc::downgrade(peer)));
    }

    /// Tells the client that was sent to a URL that what it should do there is done.
    pub(crate) fn elicitation_complete(&self, id: &str) {
        let mut elicitations = lock(&self.elicitations);
        let Some(index) = elicitations.iter().position(|(it, _)| it == id) else { return };
        let peer = elicitations.remove(index).and_then(|(_, peer)| peer.upgrade());
        drop(elicitations);
        let Some(peer) = peer else { return };
        let listeners: Vec<_> = lock(&self.listeners).values().cloned().collect();
        for listener in listeners.iter().filter(|it| Arc::ptr_eq(&it.peer, &peer)) {
            listener.add(&Notification::ElicitationComplete { id: id.to_owned() }, 0);
        }
    }

    /// Ends every listen in good order, and every later one as soon as it begins.
    pub(crate) fn shutdown(&self) {
        self.closed.store(true, Ordering::Release);
        let listeners: Vec<_> = lock(&self.listeners).values().cloned().collect();
        listeners.iter().for_each(|listener| listener.wake(lock(&listener.pending)));
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
        self.elicitations.pop_front().map(|id| Notification::ElicitationComplete { id })
    }
}

impl Listening {
    /// Passes notifications on, no faster than the client reads, until the server shuts down.
    pub(crate) async fn run(self, outbox: Outbox) {
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
        lock(&self.hub.listeners).remove(&self.number);
    }
}

/// Leaves of `filter` what a server with these capabilities sends, and no more than `most` URIs.
pub(crate) fn restrict(filter: &mut Filter, capabilities: &ServerCapabilities, most: usize) {
    let resources = capabilities.resources.as_ref();
    filter.tools &= capabilities.tools.as_ref().is_some_and(|it| it.list_changed);
    filter.prompts &= capabilities.prompts.as_ref().is_some_and(|it| it.list_changed);
    filter.resources &= resources.is_some_and(|it| it.list_changed);
    let most = if resources.is_some_and(|it| it.subscribe) { most } else { 0 };
    while filter.uris.len() > most {
        filter.uris.pop_last();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
