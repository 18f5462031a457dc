//! What a call sends while it runs: notifications and asks.

use std::{
    collections::VecDeque,
    fmt,
    future::Future,
    mem,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use crate::{ClientRequest, ClientRequestId, Error, ErrorKind, Notification, OnCallEnd, Timer};

/// How many messages may wait before handlers are held back, and how many bytes.
const MAX_QUEUED_MESSAGES: usize = 256;
const MAX_QUEUED_BYTES: usize = 32 << 10;
/// From how many waiting bytes on reports are dropped, if their sender does not wait for room.
const DROP_REPORTS_BYTES: usize = 256 << 10;

/// For operators, beside how many.
const DROPPED_REPORTS: &str = "progress and log messages of a call were dropped: its client reads more slowly than it sends, and \
                      it does not wait for room (Outbox::room)";

/// How long a call may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadlines {
    /// Without a sign of life; `None` for ever.
    pub idle: Option<Duration>,
    /// In all; `None` for ever.
    pub total: Option<Duration>,
}

impl Default for Deadlines {
    fn default() -> Self {
        Deadlines { idle: Some(Duration::from_secs(120)), total: Some(Duration::from_secs(3600)) }
    }
}

/// One message of a call, on its way to the client.
#[derive(Debug)]
pub enum Message {
    /// A notification.
    Notify(Notification),
    /// A question the client must answer.
    ClientRequest(ClientRequestId, ClientRequest),
    /// A question nobody waits for any more.
    Withdraw(ClientRequestId),
    /// The connection is not needed for a while.
    LetGo,
}

impl Message {
    /// The memory that it takes while it waits. Questions are not measured: their senders wait for the answer.
    fn bytes(&self) -> usize {
        size_of::<Message>()
            + match self {
                Message::Notify(notification) => notification.heap_bytes(),
                _ => 0,
            }
    }
}

/// Where a service puts what happens while it works on a call. Clones share one box.
#[derive(Clone)]
pub struct Outbox {
    shared: Arc<OutboxShared>,
}

struct OutboxShared {
    timer: Arc<dyn Timer>,
    /// Lets a call that sends nothing never take the lock.
    dirty: AtomicBool,
    closed: AtomicBool,
    queue: Mutex<OutboxQueue>,
}

struct OutboxQueue {
    /// What a call that sends nothing never needs.
    traffic: Option<Box<OutboxTraffic>>,
    reader: Option<Waker>,
    held: Option<Arc<dyn OnCallEnd>>,
    deadlines: Deadlines,
    touched: bool,
}

#[derive(Default)]
struct OutboxTraffic {
    messages: VecDeque<Message>,
    /// How many bytes they take.
    bytes: usize,
    /// How many reports were dropped because their sender did not wait for room.
    dropped: u64,
    waiting_for_room: Vec<Waker>,
    waiting_for_close: Vec<Waker>,
    asks: Vec<ResponseSlot>,
    next_ask: u32,
    /// How many wait for the client in a way of their own.
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

/// A box that no exchange ever closed ends with its last clone.
impl Drop for OutboxShared {
    fn drop(&mut self) {
        let queue = self.queue.get_mut().unwrap_or_else(PoisonError::into_inner);
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
}

impl Outbox {
    /// An empty box for a call that may take as long as `deadlines` say.
    #[must_use]
    pub fn new(timer: Arc<dyn Timer>, deadlines: Deadlines) -> Self {
        let queue =
            OutboxQueue { traffic: None, reader: None, held: None, deadlines, touched: false };
        let queue = Mutex::new(queue);
        let (dirty, closed) = (AtomicBool::new(false), AtomicBool::new(false));
        Outbox { shared: Arc::new(OutboxShared { timer, dirty, closed, queue }) }
    }

    /// The clock of the runtime that drives the call.
    #[must_use]
    pub fn timer(&self) -> &Arc<dyn Timer> {
        &self.shared.timer
    }

    /// Sends a notification. After the call is over, nothing is sent.
    ///
    /// Await [`room`](Outbox::room) as well: progress and log messages are dropped while 256 KiB wait for the client.
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

    /// Completes once the box has room: await it before or after sending, to go no faster than the
    /// client reads.
    pub fn room(&self) -> impl Future<Output = ()> + Send + use<> {
        // Most often there is room, and no need for a handle.
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

    /// Sends a question to the client and waits for the answer: the JSON text of its result.
    ///
    /// Dropping the future withdraws the question.
    #[must_use]
    pub fn ask(&self, ask: ClientRequest) -> Answering {
        Answering { outbox: self.clone(), state: AnsweringState::Unsent(Some(ask)) }
    }

    /// Stops the clock of the call for as long as what this returns is kept: somebody waits for the
    /// client without a question in this box.
    #[must_use = "the clock goes on when it is dropped"]
    pub fn pause(&self) -> Pause {
        let mut queue = self.lock();
        if !self.is_closed() {
            queue.traffic().pauses += 1;
        }
        self.wake_reader(queue);
        Pause(self.clone())
    }

    /// Lets the connection close, where the client can come back for the rest of the call.
    pub fn release_connection(&self) {
        let queue = self.lock();
        // Once is enough, however often a loop says so.
        let last = queue.traffic.as_ref().and_then(|traffic| traffic.messages.back());
        if !matches!(last, Some(Message::LetGo)) {
            self.send(queue, Message::LetGo);
        }
    }

    /// Shows life without sending anything: the idle clock starts again.
    pub fn touch(&self) {
        self.lock().touched = true;
        self.shared.dirty.store(true, Ordering::Release);
    }

    /// Changes how long this call may take.
    pub fn set_deadlines(&self, deadlines: Deadlines) {
        self.lock().deadlines = deadlines;
    }

    /// How long this call may take.
    #[must_use]
    pub fn deadlines(&self) -> Deadlines {
        self.lock().deadlines
    }

    /// Gives `held` back when the call is over, however it ends.
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

    /// Whether the call is over: finished, cancelled, or out of time.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.shared.closed.load(Ordering::Acquire)
    }

    /// Completes when the call is over.
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

    /// A handle through which the client's answers come back.
    #[must_use]
    pub fn answers(&self) -> ResponseSender {
        ResponseSender(self.clone())
    }

    /// Takes the next message, if the call sent any.
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

    /// Registers who is woken by the next message.
    pub(crate) fn register(&self, waker: &Waker) {
        let mut queue = self.lock();
        match &mut queue.reader {
            Some(reader) => reader.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
    }

    /// Whether anything happened since the last look, and whether the client is waited for.
    pub(crate) fn take_activity(&self) -> (bool, bool) {
        let mut queue = self.lock();
        let open = queue.asks().iter().any(|slot| slot.answer.is_none());
        let paused = queue.traffic.as_ref().is_some_and(|traffic| traffic.pauses > 0);
        (mem::take(&mut queue.touched), open || paused)
    }

    /// Ends the call: nothing is sent any more, and what it held is given back.
    pub(crate) fn close(&self) {
        // Most often it is closed twice, and looking is cheaper.
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
        // Dropping, releasing and waking may run anybody's code, which may want the lock.
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
            // A listen says one thing when it begins, and may stay silent for as long as it lives.
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
        // Waking may run anybody's code, which may want the lock.
        drop(queue);
        if let Some(reader) = reader {
            reader.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, OutboxQueue> {
        self.shared.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Puts a waker among those that wait, unless it is there.
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

/// Keeps the clock of a call stopped. Made by [`Outbox::pause`].
#[derive(Debug)]
pub struct Pause(Outbox);

impl Drop for Pause {
    fn drop(&mut self) {
        let mut queue = self.0.lock();
        // A box that was closed meanwhile has forgotten it.
        if let Some(traffic) = &mut queue.traffic {
            traffic.pauses = traffic.pauses.saturating_sub(1);
        }
        self.0.wake_reader(queue);
    }
}

/// Brings the client's answers back to the call that asked.
#[derive(Clone, Debug)]
pub struct ResponseSender(Outbox);

impl ResponseSender {
    /// Delivers the JSON text of the client's result, or its error. False if nobody waits for it.
    pub fn deliver(&self, id: ClientRequestId, answer: Result<String, Error>) -> bool {
        let mut queue = self.0.lock();
        queue.touched = true;
        let Some(slot) = queue.asks().iter_mut().find(|slot| slot.id == id) else { return false };
        slot.answer = Some(answer);
        let waker = slot.waker.take();
        drop(queue);
        if let Some(waker) = waker {
            waker.wake();
        }
        true
    }
}

/// Waits for the client's answer to one question. Made by [`Outbox::ask`].
#[derive(Debug)]
pub struct Answering {
    outbox: Outbox,
    state: AnsweringState,
}

#[derive(Debug)]
enum AnsweringState {
    Unsent(Option<ClientRequest>),
    Sent(ClientRequestId),
    Done,
}

impl Future for Answering {
    type Output = Result<String, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let outbox = self.outbox.clone();
        let mut queue = outbox.lock();
        // Looked at under the lock, or an end just now would leave this waiting for ever.
        if outbox.is_closed() {
            self.state = AnsweringState::Done;
            return Poll::Ready(Err(Error::new(ErrorKind::RequestCancelled)));
        }
        let id = match &mut self.state {
            AnsweringState::Unsent(ask) => {
                let ask = ask.take();
                let traffic = queue.traffic();
                let id = ClientRequestId(traffic.next_ask);
                traffic.next_ask += 1;
                traffic.asks.push(ResponseSlot {
                    id,
                    answer: None,
                    waker: Some(cx.waker().clone()),
                });
                self.state = AnsweringState::Sent(id);
                if let Some(ask) = ask {
                    outbox.send(queue, Message::ClientRequest(id, ask));
                }
                return Poll::Pending;
            }
            AnsweringState::Sent(id) => *id,
            AnsweringState::Done => return Poll::Pending,
        };
        let asks = &mut queue.traffic().asks;
        let Some(index) = asks.iter().position(|slot| slot.id == id) else {
            return Poll::Ready(Err(Error::new(ErrorKind::RequestCancelled)));
        };
        if let Some(answer) = asks[index].answer.take() {
            asks.swap_remove(index);
            drop(queue);
            self.state = AnsweringState::Done;
            return Poll::Ready(answer);
        }
        asks[index].waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        if let AnsweringState::Sent(id) = self.state {
            let mut queue = self.outbox.lock();
            if let Some(traffic) = &mut queue.traffic {
                traffic.asks.retain(|slot| slot.id != id);
            }
            self.outbox.send(queue, Message::Withdraw(id));
        }
    }
}
