//! Calls in flight on one connection, and their open server-to-client requests.

use std::{
    collections::HashMap,
    pin::pin,
    sync::{
        MutexGuard,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use foldhash::fast::RandomState;
use tokio::{sync::Notify, task::AbortHandle};
use wharf_model::{ClientRequestId, Error, ErrorKind, Lock, ResponseSender};
use wharf_wire::{CallId, Codec};

use crate::{LineLimits, server::admission::overloaded};

/// Mask of request numbers, which wrap around.
const REQUEST_NUMBER_MASK: u64 = (1 << 20) - 1;

/// Calls in flight on one connection, and their open server-to-client requests.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    table: Lock<CallTable>,
    /// Number of calls in the table, so that an idle connection never takes the lock.
    total: AtomicUsize,
    /// Number of calls that have an id.
    with_id: AtomicUsize,
    /// Bytes that the messages of these calls hold.
    held: AtomicUsize,
    /// True while the reader handles messages.
    reading: AtomicBool,
    /// True once `idle` may be waiting for the end of the calls.
    closing: AtomicBool,
    /// True if calls that are dropped from now on send a reply.
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
    /// First number of server-to-client requests.
    first_request: u64,
    closed: bool,
    aborted: bool,
}

#[derive(Debug)]
struct CallEntry {
    /// `None` for a message without an id.
    id: Option<CallId>,
    listen: bool,
    /// Bytes that its message holds.
    held: usize,
    cancelled: bool,
    /// `None` while it is being spawned, and once it is aborted.
    task: Option<AbortHandle>,
}

impl InFlight {
    /// Creates a table whose server-to-client requests are numbered from `first_request`.
    #[cfg(feature = "http")]
    pub(crate) fn with_first_request(first_request: u64) -> Self {
        InFlight {
            table: Lock::new(CallTable { first_request, ..CallTable::default() }),
            ..InFlight::default()
        }
    }

    /// True if no calls are in flight.
    #[cfg(feature = "http")]
    pub(crate) fn is_empty(&self) -> bool {
        self.total.load(Ordering::Acquire) == 0
    }

    /// True if a call with the id of `codec` is in flight.
    pub(crate) fn has_id_of(&self, codec: &Codec) -> bool {
        self.with_id.load(Ordering::Acquire) > 0 && self.lock().ids.contains_key(&codec.id())
    }

    /// True if the call with this id is in flight.
    #[cfg(feature = "http")]
    pub(crate) fn contains_id(&self, id: &CallId) -> bool {
        self.lock().ids.contains_key(id)
    }

    fn count(&self, table: &CallTable) {
        self.total.store(table.calls.len(), Ordering::Release);
        self.with_id.store(table.ids.len(), Ordering::Release);
    }

    /// True if calls other than subscriptions are in flight.
    pub(crate) fn has_calls(&self) -> bool {
        let table = self.lock();
        table.calls.len() > table.listens
    }

    /// Number of calls in flight, without subscriptions.
    pub(crate) fn calls(&self) -> usize {
        let table = self.lock();
        table.calls.len() - table.listens
    }

    /// Number of subscriptions.
    pub(crate) fn listens(&self) -> usize {
        self.lock().listens
    }

    /// True if the messages of the calls in flight are within the memory limit.
    pub(crate) fn has_memory(&self, limits: &LineLimits) -> bool {
        self.held.load(Ordering::Acquire) < limits.held
    }

    /// Counts a message of `length` bytes that calls in flight hold.
    pub(crate) fn hold(&self, length: usize) {
        self.held.fetch_add(length, Ordering::AcqRel);
    }

    /// Subtracts the bytes that [`hold`](InFlight::hold) counted.
    pub(crate) fn release(&self, length: usize) {
        self.held.fetch_sub(length, Ordering::AcqRel);
        self.changed.notify_waiters();
    }

    /// True if the limits allow another call; subscriptions count as calls here.
    pub(crate) fn has_slot(&self, limits: &LineLimits) -> bool {
        self.total.load(Ordering::Acquire) < limits.calls && self.has_memory(limits)
    }

    /// Waits until the limits allow another call. False if that may require a response of the
    /// client, for which reading must continue.
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

    /// Adds a call; `start` spawns its task, given the call's number.
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
        // A runtime that shuts down drops the call at once, and removing its entry needs the lock.
        let task = start(number);
        let mut table = self.lock();
        if table.aborted {
            drop(table);
            task.abort();
        } else if let Some(entry) = table.calls.get_mut(&number) {
            entry.task = Some(task);
        }
    }

    /// Frees the call's id just before its reply. False if the client has cancelled it.
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

    /// Frees the memory of the tables if they are empty.
    #[cfg(feature = "http")]
    pub(crate) fn shrink(&self) {
        let mut table = self.lock();
        if table.calls.is_empty() {
            table.calls.shrink_to_fit();
            table.ids.shrink_to_fit();
            table.client_requests.shrink_to_fit();
        }
    }

    /// Removes the call's entry.
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

    /// Cancels the call with this id; it gets no reply.
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

    /// Aborts all calls, including later ones. Each replies that the server is shutting down.
    pub(crate) fn abort_all_with_reply(&self) {
        self.reply_on_abort.store(true, Ordering::Release);
        self.abort_all();
    }

    /// True if an aborted call replies that the server is shutting down.
    pub(crate) fn replies_on_abort(&self) -> bool {
        self.reply_on_abort.load(Ordering::Acquire)
    }

    /// Aborts all calls, including later ones.
    pub(crate) fn abort_all(&self) {
        let mut table = self.lock();
        table.aborted = true;
        let tasks: Vec<_> = table.calls.values_mut().filter_map(|it| it.task.take()).collect();
        drop(table);
        tasks.iter().for_each(AbortHandle::abort);
    }

    /// Registers a server-to-client request and returns its number. `None` once no response can
    /// arrive.
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

    /// Removes a request. False if its response has arrived.
    pub(crate) fn close_request(&self, number: u64) -> bool {
        // A separate statement, so that the entry is dropped after the lock is released.
        let removed = self.lock().client_requests.remove(&number);
        removed.is_some()
    }

    /// Delivers a response to the call that sent the request. A response without a request is
    /// dropped.
    pub(crate) fn answer(&self, number: u64, answer: Result<String, Error>) {
        let asked = self.lock().client_requests.remove(&number);
        if let Some((answers, id)) = asked {
            answers.deliver(id, answer);
        }
    }

    /// Fails all open requests, because nothing more arrives from the client.
    pub(crate) fn close(&self) {
        let mut table = self.lock();
        table.closed = true;
        let client_requests = std::mem::take(&mut table.client_requests);
        drop(table);
        for (answers, id) in client_requests.into_values() {
            answers.deliver(id, Err(Error::new(ErrorKind::ConnectionClosed)));
        }
    }

    /// Records that the reader is handling messages, or is done.
    pub(crate) fn set_reading(&self, working: bool) {
        self.reading.store(working, Ordering::SeqCst);
        if !working && self.closing.load(Ordering::SeqCst) {
            self.changed.notify_waiters();
        }
    }

    /// Completes when no calls are in flight.
    pub(crate) async fn idle(&self) {
        // Set before the reader's flag is checked; the reader checks it after clearing its own
        // flag.
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
        self.table.lock()
    }
}

/// Error for a call that is still in flight when the graceful shutdown timeout expires.
pub(crate) fn shutting_down() -> Error {
    let mut error = overloaded();
    error.kind = ErrorKind::TemporarilyUnavailable;
    error.with_message(
        "The server is shutting down, and the call did not end in time: send it again if it is safe to repeat",
    )
}
