//! Outgoing messages of a call: notifications and client requests, with back-pressure.

use std::{
    collections::VecDeque,
    fmt,
    future::Future,
    mem,
    pin::Pin,
    sync::{
        Arc, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use crate::{
    CallOutcome, ClientRequest, ClientRequestId, Error, ErrorKind, Lock, Notification, OnCallEnd,
    Timer,
    observe::active::{ObservedCall, response_outcome},
};

/// Queue size at which back-pressure begins: number of messages, and bytes.
const MAX_QUEUED_MESSAGES: usize = 256;
const MAX_QUEUED_BYTES: usize = 32 << 10;
/// Queue size in bytes from which progress and log messages are dropped, if their sender does not await `room`.
const DROP_REPORTS_BYTES: usize = 256 << 10;

/// Log message for operators, with the number as a field.
const DROPPED_REPORTS: &str = "dropped progress and log messages of a call: the client reads more slowly than the call \
                               sends, and the handler does not await Outbox::wait_for_capacity";

/// Time limits of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Deadlines {
    /// Maximum time without activity; `None` for no limit.
    pub idle: Option<Duration>,
    /// Maximum total time; `None` for no limit.
    pub total: Option<Duration>,
}

impl Deadlines {
    /// No time limits.
    pub const NONE: Deadlines = Deadlines { idle: None, total: None };
}

crate::setters!(Deadlines { idle: impl Into<Option<Duration>>, total: impl Into<Option<Duration>> });

impl Default for Deadlines {
    fn default() -> Self {
        Deadlines { idle: Some(Duration::from_secs(120)), total: Some(Duration::from_secs(3600)) }
    }
}

/// Message of a call to the client.
#[derive(Debug)]
pub enum Message {
    /// A notification.
    Notify(Notification),
    /// Request to the client.
    ClientRequest(ClientRequestId, ClientRequest),
    /// Cancellation of a client request.
    Withdraw(ClientRequestId),
    /// The connection may close for now.
    ConnectionMayClose,
}

impl Message {
    /// Returns the memory that the message takes in the queue. Client requests are not counted: their senders
    /// wait for the response.
    fn bytes(&self) -> usize {
        size_of::<Message>()
            + match self {
                Message::Notify(notification) => notification.heap_bytes(),
                _ => 0,
            }
    }
}

/// Queue into which a service puts the messages of a call. Clones share one queue.
#[derive(Clone)]
pub struct Outbox {
    shared: Arc<OutboxShared>,
}

struct OutboxShared {
    timer: Arc<dyn Timer>,
    /// Set once anything was sent, so that other calls never take the lock.
    dirty: AtomicBool,
    closed: AtomicBool,
    queue: Lock<OutboxQueue>,
}

struct OutboxQueue {
    /// State that a call without messages never needs.
    traffic: Option<Box<OutboxTraffic>>,
    reader: Option<Waker>,
    held: Option<Arc<dyn OnCallEnd>>,
    deadlines: Deadlines,
    touched: bool,
}

#[derive(Default)]
struct OutboxTraffic {
    messages: VecDeque<Message>,
    /// Size of the messages in bytes.
    bytes: usize,
    /// Number of reports dropped because their sender did not await `room`.
    dropped: u64,
    waiting_for_room: Vec<Waker>,
    waiting_for_close: Vec<Waker>,
    asks: Vec<ResponseSlot>,
    next_ask: u32,
    /// Number of `Pause` guards: code that waits for the client by other means.
    pauses: usize,
    held_more: Vec<Arc<dyn OnCallEnd>>,
}

impl OutboxTraffic {
    fn has_room(&self) -> bool {
        self.messages.len() < MAX_QUEUED_MESSAGES && self.bytes < MAX_QUEUED_BYTES
    }
}

impl OutboxQueue {
    fn traffic(&mut self) -> &mut OutboxTraffic {
        self.traffic.get_or_insert_default()
    }

    fn has_room(&self) -> bool {
        self.traffic.as_ref().is_none_or(|traffic| traffic.has_room())
    }

    fn asks(&mut self) -> &mut [ResponseSlot] {
        self.traffic.as_mut().map_or(&mut [], |traffic| &mut traffic.asks)
    }
}

/// Releases the resources of a call without an `ActiveCall`, with the last clone.
impl Drop for OutboxShared {
    fn drop(&mut self) {
        let queue = self.queue.get_mut();
        if let Some(held) = queue.held.take() {
            held.release();
        }
        if let Some(traffic) = queue.traffic.take() {
            traffic.held_more.into_iter().for_each(|held| held.release());
        }
    }
}

struct ResponseSlot {
    id: ClientRequestId,
    answer: Option<Result<String, Error>>,
    waker: Option<Waker>,
    /// Observers that follow the request until its response. Dropping it reports a cancellation.
    observed: Option<Box<ObservedCall>>,
}

impl Outbox {
    /// Creates an empty queue for a call with these deadlines.
    #[must_use]
    pub fn new(timer: Arc<dyn Timer>, deadlines: Deadlines) -> Self {
        let queue =
            OutboxQueue { traffic: None, reader: None, held: None, deadlines, touched: false };
        let queue = Lock::new(queue);
        let (dirty, closed) = (AtomicBool::new(false), AtomicBool::new(false));
        Outbox { shared: Arc::new(OutboxShared { timer, dirty, closed, queue }) }
    }

    /// Returns the clock of the runtime that drives the call.
    #[must_use]
    pub fn timer(&self) -> &Arc<dyn Timer> {
        &self.shared.timer
    }

    /// Sends a notification. Does nothing once the call has ended.
    ///
    /// Await [`wait_for_capacity`](Outbox::wait_for_capacity) as well: progress and log messages are dropped while 256 KiB wait for the
    /// client.
    pub fn notify(&self, notification: Notification) {
        let mut queue = self.lock();
        if let Some(traffic) = &mut queue.traffic
            && traffic.bytes >= DROP_REPORTS_BYTES
            && notification.is_droppable()
        {
            traffic.dropped += 1;
            queue.touched = true;
            return;
        }
        self.send(queue, Message::Notify(notification));
    }

    /// Completes once the queue has room (back-pressure): await it before or after sending, so that the call
    /// sends no faster than the client reads.
    pub fn wait_for_capacity(&self) -> impl Future<Output = ()> + Send + use<> {
        // Usually there is room, and no handle is needed.
        let full = (!self.has_room()).then(|| self.clone());
        std::future::poll_fn(move |cx| {
            let Some(outbox) = &full else { return Poll::Ready(()) };
            let mut queue = outbox.lock();
            if queue.has_room() || outbox.is_closed() {
                return Poll::Ready(());
            }
            wait(&mut queue.traffic().waiting_for_room, cx.waker());
            Poll::Pending
        })
    }

    fn has_room(&self) -> bool {
        !self.shared.dirty.load(Ordering::Acquire) || self.lock().has_room()
    }

    /// Sends a request to the client and waits for its response: the JSON text of the result.
    ///
    /// Dropping the future cancels the request.
    #[must_use]
    pub fn ask(&self, ask: ClientRequest) -> ResponseFuture {
        ResponseFuture { outbox: self.clone(), state: ResponseState::Unsent(Some(ask)) }
    }

    /// Lets observers follow a client request that was sent.
    pub(crate) fn observe_client_request(&self, id: ClientRequestId, observed: Box<ObservedCall>) {
        let mut queue = self.lock();
        let mut observed = Some(observed);
        if let Some(slot) = queue.asks().iter_mut().find(|slot| slot.id == id) {
            slot.observed = observed.take();
        }
        drop(queue);
        // A request that was withdrawn already is cancelled, which is reported without the lock.
        drop(observed);
    }

    /// Stops the clock of the call until the returned guard is dropped, for code that waits for the client
    /// without a request in this queue.
    #[must_use = "the clock goes on when it is dropped"]
    pub fn pause(&self) -> Pause {
        let mut queue = self.lock();
        if !self.is_closed() {
            queue.traffic().pauses += 1;
        }
        self.wake_reader(queue);
        Pause(self.clone())
    }

    /// Allows the connection to close, if the client can reconnect and resume the call.
    pub fn release_connection(&self) {
        let queue = self.lock();
        // One message is enough, even if a loop calls this often.
        let last = queue.traffic.as_ref().and_then(|traffic| traffic.messages.back());
        if !matches!(last, Some(Message::ConnectionMayClose)) {
            self.send(queue, Message::ConnectionMayClose);
        }
    }

    /// Restarts the idle timeout without sending anything.
    pub fn touch(&self) {
        self.lock().touched = true;
        self.shared.dirty.store(true, Ordering::Release);
    }

    /// Changes the deadlines of this call.
    pub fn set_deadlines(&self, deadlines: Deadlines) {
        self.lock().deadlines = deadlines;
    }

    /// Returns the deadlines of this call.
    #[must_use]
    pub fn deadlines(&self) -> Deadlines {
        self.lock().deadlines
    }

    /// Releases `held` when the call ends, whatever its outcome.
    pub fn hold(&self, held: Arc<dyn OnCallEnd>) {
        let mut queue = self.lock();
        if self.is_closed() {
            drop(queue);
            held.release();
        } else if queue.held.is_none() {
            queue.held = Some(held);
        } else {
            queue.traffic().held_more.push(held);
        }
    }

    /// Returns whether the call has ended: finished, cancelled, or timed out.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.shared.closed.load(Ordering::Acquire)
    }

    /// Completes when the call has ended.
    pub fn closed(&self) -> impl Future<Output = ()> + Send + use<> {
        let outbox = self.clone();
        std::future::poll_fn(move |cx| {
            if outbox.is_closed() {
                return Poll::Ready(());
            }
            let mut queue = outbox.lock();
            if outbox.is_closed() {
                return Poll::Ready(());
            }
            wait(&mut queue.traffic().waiting_for_close, cx.waker());
            Poll::Pending
        })
    }

    /// Returns the sender for responses of the client.
    #[must_use]
    pub fn response_sender(&self) -> ResponseSender {
        ResponseSender(self.clone())
    }

    /// Takes the next message, if there is one.
    pub fn take(&self) -> Option<Message> {
        if !self.shared.dirty.load(Ordering::Acquire) {
            return None;
        }
        let mut queue = self.lock();
        let traffic = queue.traffic.as_mut()?;
        let message = traffic.messages.pop_front();
        traffic.bytes -= message.as_ref().map_or(0, Message::bytes);
        if traffic.has_room() {
            let waiting = mem::take(&mut traffic.waiting_for_room);
            drop(queue);
            waiting.into_iter().for_each(Waker::wake);
        }
        message
    }

    /// Registers the waker for the next message.
    pub(crate) fn register(&self, waker: &Waker) {
        let mut queue = self.lock();
        match &mut queue.reader {
            Some(reader) => reader.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
    }

    /// Returns whether there was activity since the last call, and whether the client is being waited for.
    pub(crate) fn take_activity(&self) -> (bool, bool) {
        let mut queue = self.lock();
        let open = queue.asks().iter().any(|slot| slot.answer.is_none());
        let paused = queue.traffic.as_ref().is_some_and(|traffic| traffic.pauses > 0);
        (mem::take(&mut queue.touched), open || paused)
    }

    /// Ends the call: sends nothing more and releases its resources.
    pub(crate) fn close(&self) {
        // Usually it is closed twice, and this check is cheaper than the lock.
        if self.is_closed() {
            return;
        }
        let mut queue = self.lock();
        if self.is_closed() {
            return;
        }
        self.shared.closed.store(true, Ordering::Release);
        let (reader, held, traffic) =
            (queue.reader.take(), queue.held.take(), queue.traffic.take());
        // Dropping, releasing and waking may run foreign code that takes the lock.
        drop(queue);
        drop(reader);
        if let Some(held) = held {
            held.release();
        }
        if let Some(traffic) = traffic {
            let OutboxTraffic {
                messages,
                waiting_for_room,
                waiting_for_close,
                asks,
                held_more,
                ..
            } = *traffic;
            drop(messages);
            if traffic.dropped > 0 {
                let dropped = traffic.dropped;
                tracing::warn!(dropped, "{DROPPED_REPORTS}");
            }
            held_more.into_iter().for_each(|held| held.release());
            let asking = asks.into_iter().filter_map(|slot| slot.waker);
            let waiting = waiting_for_close.into_iter().chain(waiting_for_room).chain(asking);
            waiting.for_each(Waker::wake);
        }
    }

    fn send(&self, mut queue: MutexGuard<'_, OutboxQueue>, message: Message) {
        if self.is_closed() {
            return;
        }
        let traffic = queue.traffic();
        if traffic.messages.capacity() == 0 {
            // A subscription sends one message when it starts, and often nothing else.
            traffic.messages.reserve_exact(1);
        }
        traffic.bytes += message.bytes();
        traffic.messages.push_back(message);
        queue.touched = true;
        self.shared.dirty.store(true, Ordering::Release);
        self.wake_reader(queue);
    }

    fn wake_reader(&self, queue: MutexGuard<'_, OutboxQueue>) {
        let reader = queue.reader.clone();
        // Waking may run foreign code that takes the lock.
        drop(queue);
        if let Some(reader) = reader {
            reader.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, OutboxQueue> {
        self.shared.queue.lock()
    }
}

/// Adds a waker, unless it is present.
fn wait(waiting: &mut Vec<Waker>, waker: &Waker) {
    if !waiting.iter().any(|other| other.will_wake(waker)) {
        waiting.push(waker.clone());
    }
}

impl fmt::Debug for Outbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outbox").field("closed", &self.is_closed()).finish_non_exhaustive()
    }
}

/// Guard that keeps the clock of a call stopped. Created by [`Outbox::pause`].
#[derive(Debug)]
pub struct Pause(Outbox);

impl Drop for Pause {
    fn drop(&mut self) {
        let mut queue = self.0.lock();
        // A queue that was closed meanwhile has no traffic state.
        if let Some(traffic) = &mut queue.traffic {
            traffic.pauses = traffic.pauses.saturating_sub(1);
        }
        self.0.wake_reader(queue);
    }
}

/// Delivers responses of the client to the call.
#[derive(Clone, Debug)]
pub struct ResponseSender(Outbox);

impl ResponseSender {
    /// Delivers the JSON text of the client's result, or its error. Returns false if the request is not open.
    pub fn deliver(&self, id: ClientRequestId, answer: Result<String, Error>) -> bool {
        let mut queue = self.0.lock();
        queue.touched = true;
        let Some(slot) = queue.asks().iter_mut().find(|slot| slot.id == id) else { return false };
        let observed = slot.observed.take().map(|observed| (observed, response_outcome(&answer)));
        slot.answer = Some(answer);
        let waker = slot.waker.take();
        // Observers and waking may run foreign code that takes the lock.
        drop(queue);
        if let Some((mut observed, outcome)) = observed {
            observed.end(CallOutcome::Returned(&outcome));
        }
        if let Some(waker) = waker {
            waker.wake();
        }
        true
    }
}

/// Future of the response to a client request. Created by [`Outbox::ask`].
#[derive(Debug)]
pub struct ResponseFuture {
    outbox: Outbox,
    state: ResponseState,
}

#[derive(Debug)]
enum ResponseState {
    Unsent(Option<ClientRequest>),
    Sent(ClientRequestId),
    Done,
}

impl Future for ResponseFuture {
    type Output = Result<String, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let outbox = self.outbox.clone();
        let mut queue = outbox.lock();
        // Checked under the lock: otherwise a concurrent end would leave this future pending for ever.
        if outbox.is_closed() {
            self.state = ResponseState::Done;
            return Poll::Ready(Err(Error::new(ErrorKind::RequestCancelled)));
        }
        let id = match &mut self.state {
            ResponseState::Unsent(ask) => {
                let ask = ask.take();
                let traffic = queue.traffic();
                let id = ClientRequestId(traffic.next_ask);
                traffic.next_ask += 1;
                traffic.asks.push(ResponseSlot {
                    id,
                    answer: None,
                    waker: Some(cx.waker().clone()),
                    observed: None,
                });
                self.state = ResponseState::Sent(id);
                if let Some(ask) = ask {
                    outbox.send(queue, Message::ClientRequest(id, ask));
                }
                return Poll::Pending;
            }
            ResponseState::Sent(id) => *id,
            ResponseState::Done => return Poll::Pending,
        };
        let asks = &mut queue.traffic().asks;
        let Some(index) = asks.iter().position(|slot| slot.id == id) else {
            return Poll::Ready(Err(Error::new(ErrorKind::RequestCancelled)));
        };
        if let Some(answer) = asks[index].answer.take() {
            asks.swap_remove(index);
            drop(queue);
            self.state = ResponseState::Done;
            return Poll::Ready(answer);
        }
        asks[index].waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for ResponseFuture {
    fn drop(&mut self) {
        if let ResponseState::Sent(id) = self.state {
            let mut queue = self.outbox.lock();
            let asks = queue.traffic.as_mut().map(|traffic| &mut traffic.asks);
            let withdrawn = asks.and_then(|asks| {
                let index = asks.iter().position(|slot| slot.id == id)?;
                Some(asks.swap_remove(index))
            });
            self.outbox.send(queue, Message::Withdraw(id));
            // Reports the cancellation, without the lock.
            drop(withdrawn);
        }
    }
}
