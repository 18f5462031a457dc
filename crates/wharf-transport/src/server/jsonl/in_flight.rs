//! The calls of one connection that are under way, and the questions they have open.

use std::{
    collections::HashMap,
    pin::pin,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use foldhash::fast::RandomState;
use tokio::{sync::Notify, task::AbortHandle};
use wharf_model::{ClientRequestId, Error, ErrorKind, ResponseSender};
use wharf_wire::{CallId, Codec};

use crate::LineLimits;

/// When a client that has too much under way may try again.
pub(crate) const RETRY_AFTER: Duration = Duration::from_secs(1);

/// How many questions are numbered before their numbers come again.
const REQUEST_NUMBER_MASK: u64 = (1 << 20) - 1;

/// The calls of one connection that are under way, and the questions they have open.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    table: Mutex<CallTable>,
    /// How many calls are in the table, so that a quiet connection never takes its lock.
    total: AtomicUsize,
    /// How many of them the client can name.
    with_id: AtomicUsize,
    /// How many bytes the messages of these calls hold.
    held: AtomicUsize,
    /// Whether the reader works on messages it has read.
    reading: AtomicBool,
    /// Whether somebody may wait for the end of it.
    closing: AtomicBool,
    /// Whether calls that are dropped from now on are answered.
    reply_on_abort: AtomicBool,
    changed: Notify,
}

#[derive(Debug, Default)]
struct CallTable {
    calls: HashMap<u64, CallEntry, RandomState>,
    ids: HashMap<CallId, u64, RandomState>,
    listens: usize,
    client_requests: HashMap<u64, (ResponseSender, ClientRequestId), RandomState>,
    next_call: u64,
    next_request: u64,
    /// From where on questions are numbered.
    first_request: u64,
    closed: bool,
    aborted: bool,
}

#[derive(Debug)]
struct CallEntry {
    /// None for what the client cannot name.
    id: Option<CallId>,
    listen: bool,
    /// How many bytes its message holds.
    held: usize,
    cancelled: bool,
    /// None while it is being spawned, and once it is aborted.
    task: Option<AbortHandle>,
}

impl InFlight {
    /// Numbers its questions from there on.
    #[cfg(feature = "http")]
    pub(crate) fn with_first_request(first_request: u64) -> Self {
        InFlight {
            table: Mutex::new(CallTable { first_request, ..CallTable::default() }),
            ..InFlight::default()
        }
    }

    /// Whether nothing is under way.
    #[cfg(feature = "http")]
    pub(crate) fn is_empty(&self) -> bool {
        self.total.load(Ordering::Acquire) == 0
    }

    /// Whether a call with the id of `codec` is under way.
    pub(crate) fn has_id_of(&self, codec: &Codec) -> bool {
        self.with_id.load(Ordering::Acquire) > 0 && self.lock().ids.contains_key(&codec.id())
    }

    /// Whether the call of this id is under way.
    #[cfg(feature = "http")]
    pub(crate) fn contains_id(&self, id: &CallId) -> bool {
        self.lock().ids.contains_key(id)
    }

    fn count(&self, table: &CallTable) {
        self.total.store(table.calls.len(), Ordering::Release);
        self.with_id.store(table.ids.len(), Ordering::Release);
    }

    /// Whether calls are under way, listens aside.
    pub(crate) fn has_calls(&self) -> bool {
        let table = self.lock();
        table.calls.len() > table.listens
    }

    /// How many calls are under way, listens aside.
    #[cfg(feature = "http")]
    pub(crate) fn calls(&self) -> usize {
        let table = self.lock();
        table.calls.len() - table.listens
    }

    /// How many listens are under way.
    pub(crate) fn listens(&self) -> usize {
        self.lock().listens
    }

    /// Whether the messages of the calls under way leave room for more.
    pub(crate) fn has_memory(&self, limits: &LineLimits) -> bool {
        self.held.load(Ordering::Acquire) < limits.held
    }

    /// Counts a message of `length` bytes that calls under way keep.
    pub(crate) fn hold(&self, length: usize) {
        self.held.fetch_add(length, Ordering::AcqRel);
    }

    /// Takes back what [`hold`](Flight::hold) counted.
    pub(crate) fn release(&self, length: usize) {
        self.held.fetch_sub(length, Ordering::AcqRel);
        self.changed.notify_waiters();
    }

    /// Whether the calls under way, listens and all, leave room for another.
    pub(crate) fn has_slot(&self, limits: &LineLimits) -> bool {
        self.total.load(Ordering::Acquire) < limits.calls && self.has_memory(limits)
    }

    /// Waits until the calls under way leave room for another. False if that may need an answer of
    /// the client's, for which reading must go on.
    pub(crate) async fn wait_for_slot(&self, limits: &LineLimits) -> bool {
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            {
                let table = self.lock();
                let has_free_slot = table.calls.len() - table.listens < limits.calls;
                let free = has_free_slot && self.has_memory(limits);
                if free || !table.client_requests.is_empty() {
                    return free;
                }
            }
            changed.await;
        }
    }

    /// Takes a call aboard; `start` spawns its task, given the number of its seat.
    pub(crate) fn insert(
        &self,
        id: Option<CallId>,
        listen: bool,
        held: usize,
        start: impl FnOnce(u64) -> AbortHandle,
    ) {
        let mut table = self.lock();
        let number = table.next_call;
        table.next_call += 1;
        if let Some(id) = &id {
            table.ids.insert(id.clone(), number);
        }
        table.listens += usize::from(listen);
        table.calls.insert(number, CallEntry { id, listen, held, cancelled: false, task: None });
        self.hold(held);
        self.count(&table);
        drop(table);
        // A runtime that shuts down drops the call here and now, and its seat needs the lock.
        let task = start(number);
        let mut table = self.lock();
        if table.aborted {
            drop(table);
            task.abort();
        } else if let Some(entry) = table.calls.get_mut(&number) {
            entry.task = Some(task);
        }
    }

    /// Frees the call's id, just before its reply. False if the client cancelled it meanwhile.
    pub(crate) fn finish(&self, number: u64) -> bool {
        let mut table = self.lock();
        let CallTable { calls, ids, .. } = &mut *table;
        let Some(entry) = calls.get_mut(&number) else { return false };
        let cancelled = entry.cancelled;
        if let Some(id) = entry.id.take() {
            ids.remove(&id);
        }
        self.count(&table);
        !cancelled
    }

    /// Gives the memory back that calls needed, if there are none.
    #[cfg(feature = "http")]
    pub(crate) fn shrink(&self) {
        let mut table = self.lock();
        if table.calls.is_empty() {
            table.calls.shrink_to_fit();
            table.ids.shrink_to_fit();
            table.client_requests.shrink_to_fit();
        }
    }

    /// Gives the call's seat back.
    pub(crate) fn remove(&self, number: u64) {
        let mut table = self.lock();
        let mut held = 0;
        if let Some(entry) = table.calls.remove(&number) {
            held = entry.held;
            table.listens -= usize::from(entry.listen);
            if let Some(id) = entry.id {
                table.ids.remove(&id);
            }
        }
        self.count(&table);
        drop(table);
        self.release(held);
    }

    /// The client wants no answer to this call any more.
    pub(crate) fn cancel(&self, id: &CallId) {
        let mut table = self.lock();
        let CallTable { calls, ids, .. } = &mut *table;
        let Some(entry) = ids.remove(id).and_then(|number| calls.get_mut(&number)) else { return };
        entry.id = None;
        entry.cancelled = true;
        let task = entry.task.take();
        self.count(&table);
        drop(table);
        if let Some(task) = task {
            task.abort();
        }
    }

    /// Drops every call, and whatever comes aboard later. Each of them answers that the server stops.
    pub(crate) fn abort_all_with_reply(&self) {
        self.reply_on_abort.store(true, Ordering::Release);
        self.abort_all();
    }

    /// Whether a call that is dropped should answer that the server stops.
    pub(crate) fn replies_on_abort(&self) -> bool {
        self.reply_on_abort.load(Ordering::Acquire)
    }

    /// Drops every call, and whatever comes aboard later.
    pub(crate) fn abort_all(&self) {
        let mut table = self.lock();
        table.aborted = true;
        let tasks: Vec<_> = table.calls.values_mut().filter_map(|it| it.task.take()).collect();
        drop(table);
        tasks.iter().for_each(AbortHandle::abort);
    }

    /// Numbers a question. None once nobody can answer any more.
    pub(crate) fn open_request(&self, answers: ResponseSender, id: ClientRequestId) -> Option<u64> {
        let mut table = self.lock();
        if table.closed {
            return None;
        }
        table.next_request += 1;
        let number = table.first_request + (table.next_request & REQUEST_NUMBER_MASK);
        table.client_requests.insert(number, (answers, id));
        drop(table);
        self.changed.notify_waiters();
        Some(number)
    }

    /// Forgets a question. False if its answer has come.
    pub(crate) fn close_request(&self, number: u64) -> bool {
        // Its own statement, so that what is removed is dropped without the lock.
        let removed = self.lock().client_requests.remove(&number);
        removed.is_some()
    }

    /// Brings an answer to the call that asked. One that nobody asked for is dropped.
    pub(crate) fn answer(&self, number: u64, answer: Result<String, Error>) {
        let asked = self.lock().client_requests.remove(&number);
        if let Some((answers, id)) = asked {
            answers.deliver(id, answer);
        }
    }

    /// Nothing more comes from the client: open questions end.
    pub(crate) fn close(&self) {
        let mut table = self.lock();
        table.closed = true;
        let client_requests = std::mem::take(&mut table.client_requests);
        drop(table);
        for (answers, id) in client_requests.into_values() {
            answers.deliver(id, Err(Error::new(ErrorKind::ConnectionClosed)));
        }
    }

    /// Says whether the reader works on messages it has read.
    pub(crate) fn set_reading(&self, working: bool) {
        self.reading.store(working, Ordering::SeqCst);
        if !working && self.closing.load(Ordering::SeqCst) {
            self.changed.notify_waiters();
        }
    }

    /// Completes when nothing is under way.
    pub(crate) async fn idle(&self) {
        // Before the look at the reader, which looks here after it has said that it is done.
        self.closing.store(true, Ordering::SeqCst);
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            let reading = self.reading.load(Ordering::SeqCst);
            if !reading && self.lock().calls.is_empty() {
                return;
            }
            changed.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, CallTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why a call cannot begin whose id another has that is under way.
pub(crate) fn duplicate_id() -> Error {
    Error::new(ErrorKind::InvalidRequest).with_message("a request with this id is still under way")
}

/// Why a call cannot begin where too many are under way.
pub(crate) fn overloaded() -> Error {
    Error::overloaded(RETRY_AFTER)
}
