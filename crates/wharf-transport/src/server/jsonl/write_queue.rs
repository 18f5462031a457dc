//! Output queue of a connection, for calls that run as tasks.

use std::{
    mem,
    pin::pin,
    sync::{
        MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::{
    sync::Notify,
    task::{coop::consume_budget, yield_now},
};
use wharf_model::{Lock, Notification};

use crate::Shutdown;

/// Length from which a message is moved instead of copied, and its buffer is not reused.
const LONG_MESSAGE_BYTES: usize = 4 << 10;
/// Size of a long log message without its data.
const LOG_ENVELOPE_BYTES: usize = 512;

/// Reserves exactly the space of a long log message in `out`, because amortized growth takes up to
/// twice as much.
pub(crate) fn reserve_for(out: &mut Vec<u8>, notification: &Notification) {
    if let Notification::Log { data, .. } = notification
        && data.get().len() >= LONG_MESSAGE_BYTES
    {
        out.reserve_exact(data.get().len() + LOG_ENVELOPE_BYTES);
    }
}

/// Yields to other tasks after a message of `length` bytes. A call that sends without pause to a
/// disconnected client never waits, so it would occupy its thread and could not be aborted.
pub(crate) async fn yield_after(length: usize) {
    match length < LONG_MESSAGE_BYTES {
        true => consume_budget().await,
        false => yield_now().await,
    }
}

/// Bounded queue of bytes with back-pressure: senders wait until the client reads.
#[derive(Debug)]
pub(crate) struct WriteQueue {
    queue: Lock<QueueState>,
    /// True if anything is queued, so that an idle connection never takes the lock.
    has_queued: AtomicBool,
    /// Number of queued bytes from which senders wait.
    limit: usize,
    ready: Notify,
    room: Notify,
    broken: Shutdown,
}

#[derive(Debug, Default)]
struct QueueState {
    bytes: Vec<u8>,
    /// Bytes that were taken and are not written yet.
    unwritten: usize,
    /// Number of senders that wait for room.
    senders: usize,
    closed: bool,
}

impl WriteQueue {
    /// Creates a queue of `limit` bytes, including those that are being written.
    pub(crate) fn new(limit: usize) -> Self {
        WriteQueue {
            queue: Lock::default(),
            has_queued: AtomicBool::new(false),
            limit,
            ready: Notify::new(),
            room: Notify::new(),
            broken: Shutdown::new(),
        }
    }

    /// Queues `bytes` as soon as there is room, and clears them.
    pub(crate) async fn send(&self, bytes: &mut Vec<u8>) {
        if !bytes.is_empty() {
            self.with_room(|queue| {
                // Moved, so that a long message is never in memory twice.
                match queue.bytes.is_empty() && bytes.len() >= LONG_MESSAGE_BYTES && !queue.closed {
                    true => self.replace(queue, mem::take(bytes)),
                    false => self.append(queue, bytes),
                }
            })
            .await;
            if bytes.capacity() > LONG_MESSAGE_BYTES {
                *bytes = Vec::new();
            }
            bytes.clear();
        }
    }

    /// Completes when there is room.
    pub(crate) async fn wait_for_room(&self) {
        self.with_room(|_| ()).await;
    }

    /// Runs `act` as soon as there is room. Senders are served in order of arrival; otherwise a
    /// call that sends without pause would starve the replies of all others.
    async fn with_room(&self, act: impl FnOnce(&mut QueueState)) {
        {
            let mut queue = self.lock();
            if queue.closed || (queue.senders == 0 && self.has_room(&queue)) {
                return act(&mut queue);
            }
            queue.senders += 1;
        }
        let _waiting = WaitingSender(self);
        loop {
            // Senders are woken one at a time, in order of arrival.
            let mut turn = pin!(self.room.notified());
            turn.as_mut().enable();
            if !self.lock().closed {
                turn.await;
            }
            let mut queue = self.lock();
            if queue.closed || self.has_room(&queue) {
                return act(&mut queue);
            }
        }
    }

    /// Wakes the sender that has waited longest, if there is room.
    fn wake_next_sender(&self, queue: &QueueState) {
        if queue.senders > 0 && self.has_room(queue) {
            self.room.notify_one();
        }
    }

    fn has_room(&self, queue: &QueueState) -> bool {
        queue.bytes.len() + queue.unwritten < self.limit
    }

    /// Queues a few `bytes` regardless of the limit, for callers that cannot wait.
    pub(crate) fn push(&self, bytes: &[u8]) {
        self.append(&mut self.lock(), bytes);
    }

    fn append(&self, queue: &mut QueueState, bytes: &[u8]) {
        if !queue.closed {
            queue.bytes.extend_from_slice(bytes);
            self.notify_ready();
        }
    }

    fn replace(&self, queue: &mut QueueState, bytes: Vec<u8>) {
        queue.bytes = bytes;
        self.notify_ready();
    }

    fn notify_ready(&self) {
        self.has_queued.store(true, Ordering::Release);
        self.ready.notify_one();
    }

    /// Takes the queued bytes. Call [`written`](WriteQueue::written) when they are written.
    pub(crate) fn take(&self) -> Vec<u8> {
        if !self.has_queued.load(Ordering::Acquire) {
            return Vec::new();
        }
        let mut queue = self.lock();
        self.has_queued.store(false, Ordering::Release);
        let bytes = mem::take(&mut queue.bytes);
        queue.unwritten = bytes.len();
        bytes
    }

    /// Records that the taken bytes are written, which makes room.
    pub(crate) fn written(&self) {
        let mut queue = self.lock();
        queue.unwritten = 0;
        self.wake_next_sender(&queue);
    }

    /// Completes when something is queued; false once the queue is closed and empty.
    pub(crate) async fn ready(&self) -> bool {
        loop {
            {
                let queue = self.lock();
                if !queue.bytes.is_empty() || queue.closed {
                    return !queue.bytes.is_empty();
                }
            }
            self.ready.notified().await;
        }
    }

    /// Closes the queue; queued bytes are still written.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.ready.notify_one();
        self.room.notify_waiters();
    }

    /// Fails the queue, because the client has disconnected; queued bytes are dropped.
    pub(crate) fn fail(&self) {
        self.lock().bytes = Vec::new();
        self.close();
        self.broken.stop();
    }

    /// Returns true once the client has disconnected.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken.is_stopped()
    }

    /// Completes when the client has disconnected.
    pub(crate) async fn broken(&self) {
        self.broken.stopped().await;
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.queue.lock()
    }
}

/// A sender that waits for room. On drop it wakes the next one.
struct WaitingSender<'a>(&'a WriteQueue);

impl Drop for WaitingSender<'_> {
    fn drop(&mut self) {
        let mut queue = self.0.lock();
        queue.senders -= 1;
        self.0.wake_next_sender(&queue);
    }
}
