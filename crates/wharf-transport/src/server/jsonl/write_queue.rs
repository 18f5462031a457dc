//! Bytes on their way to the client, from calls that run beside the reader.

use std::{
    mem,
    pin::pin,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::{
    sync::Notify,
    task::{coop::consume_budget, yield_now},
};
use wharf_model::Notification;

use crate::Shutdown;

/// From how many bytes on a message is moved instead of copied, and its buffer not kept for the next one.
const LONG_MESSAGE_BYTES: usize = 4 << 10;
/// What a long log message takes beside its data.
const LOG_ENVELOPE_BYTES: usize = 512;

/// Makes exactly as much room in `out` as a long log message needs: growing step by step takes up to twice as much.
pub(crate) fn reserve_for(out: &mut Vec<u8>, notification: &Notification) {
    if let Notification::Log { data, .. } = notification
        && data.get().len() >= LONG_MESSAGE_BYTES
    {
        out.reserve_exact(data.get().len() + LOG_ENVELOPE_BYTES);
    }
}

/// Gives other tasks their turn after a message of `length` bytes. A call that sends without pause to a client that is
/// gone never waits: it would keep its thread, and could not be aborted.
pub(crate) async fn yield_after(length: usize) {
    match length < LONG_MESSAGE_BYTES {
        true => consume_budget().await,
        false => yield_now().await,
    }
}

/// A queue of bytes with a bound: whoever fills it waits for the client to read.
#[derive(Debug)]
pub(crate) struct WriteQueue {
    queue: Mutex<QueueState>,
    /// Whether anything is queued, so that a quiet connection never takes the lock.
    has_queued: AtomicBool,
    /// From how many queued bytes on senders wait.
    limit: usize,
    ready: Notify,
    room: Notify,
    broken: Shutdown,
}

#[derive(Debug, Default)]
struct QueueState {
    bytes: Vec<u8>,
    /// How many bytes were taken and have yet to be written.
    unwritten: usize,
    /// How many senders wait for room.
    senders: usize,
    closed: bool,
}

impl WriteQueue {
    /// A queue in which `limit` bytes may wait, those included that are being written.
    pub(crate) fn new(limit: usize) -> Self {
        WriteQueue {
            queue: Mutex::default(),
            has_queued: AtomicBool::new(false),
            limit,
            ready: Notify::new(),
            room: Notify::new(),
            broken: Shutdown::new(),
        }
    }

    /// Queues `bytes`, as soon as there is room, and leaves them empty.
    pub(crate) async fn send(&self, bytes: &mut Vec<u8>) {
        if !bytes.is_empty() {
            self.with_room(|queue| {
                // A long message is not there twice, not even for a moment.
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

    /// Acts as soon as there is room. A sender that comes later waits behind those that wait already: otherwise a call
    /// that sends without pause would leave no room for the replies to all others.
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
            // Woken one at a time, in the order in which they came.
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

    /// Wakes the sender that has waited longest, if there is room for it.
    fn wake_next_sender(&self, queue: &QueueState) {
        if queue.senders > 0 && self.has_room(queue) {
            self.room.notify_one();
        }
    }

    fn has_room(&self, queue: &QueueState) -> bool {
        queue.bytes.len() + queue.unwritten < self.limit
    }

    /// Queues a few `bytes` whether there is room or not, from where nobody can wait.
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

    /// Takes what is queued. Tell with [`written`](Output::written) when it is written.
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

    /// What was taken is written: others find room.
    pub(crate) fn written(&self) {
        let mut queue = self.lock();
        queue.unwritten = 0;
        self.wake_next_sender(&queue);
    }

    /// Completes when something is queued; false once there never will be.
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

    /// What is queued still goes out; nothing else does.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.ready.notify_one();
        self.room.notify_waiters();
    }

    /// The client is gone: nothing goes out any more.
    pub(crate) fn fail(&self) {
        self.lock().bytes = Vec::new();
        self.close();
        self.broken.stop();
    }

    /// Completes when the client is gone.
    pub(crate) async fn broken(&self) {
        self.broken.stopped().await;
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A sender that waits for room. The one behind it has its turn when it is done or gone.
struct WaitingSender<'a>(&'a WriteQueue);

impl Drop for WaitingSender<'_> {
    fn drop(&mut self) {
        let mut queue = self.0.lock();
        queue.senders -= 1;
        self.0.wake_next_sender(&queue);
    }
}
