//! Calls of a session, from the first poll to the reply.

use std::{
    future::poll_fn,
    sync::{
        Arc, MutexGuard,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
};

use wharf_model::{Lock, Outcome, Request, RequestExtensions};
use wharf_wire::Codec;

use crate::server::http::session::{
    event_log::{EventLog, ReplyStatus},
    idle_time::SessionGuard,
    live_session::{ListenStartGuard, Session},
    stream_reader::StreamReader,
};
use crate::server::{
    call_driver::{CallDriver, CallStep, CallTransport},
    http::auth::AuthExpiry,
    jsonl::{in_flight::InFlight, write_queue::yield_after},
};

/// Largest buffer that a call keeps for its next message, in bytes.
const MAX_REUSED_BUFFER_BYTES: usize = 4 << 10;

/// Messages are framed when a response reads them.
impl CallTransport for Session {
    fn in_flight(&self) -> Option<&InFlight> {
        Some(self.calls())
    }
}

/// A call of a session. It is polled once where its message was read, because most calls end with the first poll;
/// if it is pending then, it becomes a task.
pub(crate) struct SessionCall {
    session: Arc<Session>,
    driver: CallDriver,
    /// Result of the first poll, if there was one.
    pub(crate) first: Option<CallStep>,
    /// Buffer of the last message, reused for the next one.
    message: Vec<u8>,
    /// Dropped with the first event of a subscription.
    pub(crate) start_guard: Option<ListenStartGuard>,
    /// Time at which a waiting call ends because the caller's credentials expire.
    expiry: Option<AuthExpiry>,
    /// Stream for the messages before the reply; none before the call is a task.
    log: Option<Arc<EventLog>>,
    /// Collector for the reply; none for a subscription.
    collector: Option<Arc<ReplyCollector>>,
}

impl SessionCall {
    /// Starts a call and polls it once in place. With `quiet`, the client accepts only the reply.
    pub(crate) fn start(
        session: &Arc<Session>,
        mut request: Request,
        codec: Codec,
        scope: RequestExtensions,
        quiet: bool,
    ) -> Self {
        let expiry = scope.get().copied();
        request.scope = scope;
        let mut driver = CallDriver::start(&session.common.context, request, codec, quiet);
        let mut message = Vec::new();
        // A waker is not needed: a pending call is polled again at once by its task.
        let mut cx = Context::from_waker(Waker::noop());
        let first = match driver.poll_step(&mut cx, &**session, &mut message) {
            Poll::Ready(step) => Some(step),
            Poll::Pending => None,
        };
        let (session, start_guard, log, collector) = (session.clone(), None, None, None);
        SessionCall { session, driver, first, message, start_guard, expiry, log, collector }
    }

    pub(crate) fn codec(&self) -> &Codec {
        self.driver.codec()
    }

    /// Runs the call as a task that writes its messages to `log`. It keeps `held` bytes of its message.
    pub(crate) fn spawn(
        mut self,
        log: Arc<EventLog>,
        collector: Option<Arc<ReplyCollector>>,
        held: usize,
    ) {
        let session = self.session.clone();
        // Without the endpoint the call is dropped.
        let Some(tasks) = session.common.tasks.upgrade() else { return };
        let id = (!self.codec().is_silent()).then(|| self.codec().id());
        let guard = id.is_some().then(|| SessionGuard::new(session.clone()));
        let until = self.expiry.map(|AuthExpiry(until)| until);
        self.driver.end_early(&session.common.shutdown, session.common.limits.grace, until);
        (self.log, self.collector) = (Some(log.clone()), collector);
        // Boxed: an async function keeps its argument beside the variable it becomes, so the task would hold
        // the call twice.
        let mut call = Box::new(self);
        session.calls().insert(id, guard.is_none(), held, |number| {
            call.driver.set_number(number);
            let slot = CallSlot { session: session.clone(), number, _guard: guard };
            tasks.spawn(call.run(log, slot))
        });
    }

    async fn run(mut self: Box<Self>, log: Arc<EventLog>, slot: CallSlot) {
        loop {
            let step = self.next().await;
            self.start_guard = None;
            match step {
                // Back-pressure: the call is not polled again before the stream has room.
                CallStep::Message => log.send(&self.message).await,
                CallStep::Change if log.has_unread(&self.message) => {}
                CallStep::Change => log.send(&self.message).await,
                CallStep::Nothing => {}
                CallStep::ConnectionMayClose if self.session.polls => log.release_connection(),
                CallStep::ConnectionMayClose => {}
                CallStep::Cancelled => return,
                CallStep::Ended(outcome) => return self.end(slot, &outcome),
            }
            yield_after(self.message.len()).await;
            // The memory of a long message is released.
            self.message.clear();
            self.message.shrink_to(MAX_REUSED_BUFFER_BYTES);
        }
    }

    async fn next(&mut self) -> CallStep {
        match self.first.take() {
            Some(first) => first,
            None => {
                let SessionCall { driver, session, message, .. } = self;
                poll_fn(|cx| driver.poll_step(cx, &**session, message)).await
            }
        }
    }

    /// Ends the call with its reply. The stream ends last: the client may send its next call at once.
    fn end(mut self: Box<Self>, slot: CallSlot, outcome: &Outcome) {
        self.withdraw_all();
        let collector = self.collector.take();
        if let Some(collector) = &collector {
            let mut reply = Vec::new();
            let status = self.driver.codec().encode(outcome, &mut reply);
            if matches!(outcome, Outcome::Task(_)) {
                self.session.kind.save(&self.session);
            }
            let refused = match (status, outcome) {
                (400.., Outcome::Failed(error)) => Some(error.clone()),
                _ => None,
            };
            collector.add(reply, ReplyStatus { status, refused });
        }
        drop((slot, self));
        if let Some(collector) = collector {
            collector.release();
        }
    }

    /// Cancels the open requests to the client of a call that is a task.
    fn withdraw_all(&mut self) {
        let Some(log) = &self.log else { return };
        let mut message = Vec::new();
        while self.driver.withdraw_next(&*self.session, &mut message) {
            log.push(std::mem::take(&mut message));
        }
    }
}

/// A task that is dropped cancels its open requests to the client.
impl Drop for SessionCall {
    fn drop(&mut self) {
        self.withdraw_all();
    }
}

/// Slot of a call among those in flight, released however the call ends.
struct CallSlot {
    session: Arc<Session>,
    number: u64,
    _guard: Option<SessionGuard>,
}

impl Drop for CallSlot {
    fn drop(&mut self) {
        self.session.calls().remove(self.number);
    }
}

/// Collects the replies to one POST, and ends the stream with them when its last call has ended.
pub(crate) struct ReplyCollector {
    session: Arc<Session>,
    pub(crate) log: Arc<EventLog>,
    batch: bool,
    replies: Lock<CollectedReplies>,
    held: AtomicUsize,
}

#[derive(Default)]
struct CollectedReplies {
    text: Vec<u8>,
    reply_status: Option<ReplyStatus>,
    is_finished: bool,
}

impl ReplyCollector {
    /// Opens a stream with a collector for its replies. Its reader is attached before a call runs on, so that
    /// back-pressure applies from the first message; none if the session has ended.
    pub(crate) fn open(guard: &SessionGuard, batch: bool) -> (Arc<Self>, Option<StreamReader>) {
        let session = guard.session().clone();
        let log = session.open_stream();
        let stream_reader = StreamReader::attach(guard.clone(), log.clone());
        let (replies, held) = (Lock::default(), AtomicUsize::new(0));
        (Arc::new(ReplyCollector { session, log, batch, replies, held }), stream_reader)
    }

    /// Counts a batch of `length` bytes as held while one of its calls is in flight.
    pub(crate) fn hold(&self, length: usize) {
        self.held.store(length, Ordering::Release);
        self.session.calls().hold(length);
    }

    /// Records the id of a call whose reply is pending. If this process dies, the process that reads the stream
    /// writes an error reply.
    pub(crate) fn expect_reply(&self, codec: &Codec) {
        if let Some(writer) = self.log.writer() {
            writer.expect_reply(codec.id());
        }
    }

    /// Returns true if the replies have reached the size limit of a message.
    pub(crate) fn is_full(&self) -> bool {
        self.replies().text.len() > self.session.common.context.max_message()
    }

    pub(crate) fn add(&self, reply: Vec<u8>, reply_status: ReplyStatus) {
        let mut replies = self.replies();
        if self.batch {
            let mark = if replies.text.is_empty() { b'[' } else { b',' };
            replies.text.push(mark);
            replies.text.extend_from_slice(&reply);
        } else {
            replies.text = reply;
        }
        // A batch has status 200, whatever its members return.
        let answered = ReplyStatus { status: 200, refused: None };
        replies.reply_status = Some(if self.batch { answered } else { reply_status });
    }

    /// Gives up one share of the collector. The last one ends the stream with the replies.
    pub(crate) fn release(self: Arc<Self>) {
        if let Some(mut last) = Arc::into_inner(self) {
            last.finish();
        }
    }

    /// Ends the stream with the replies.
    fn finish(&mut self) {
        let replies = self.replies.get_mut();
        let CollectedReplies { mut text, reply_status, is_finished } = std::mem::take(replies);
        replies.is_finished = true;
        if is_finished {
            return;
        }
        self.session.calls().release(*self.held.get_mut());
        if self.batch && !text.is_empty() {
            text.push(b']');
        }
        self.log.end(reply_status.map(|reply_status| (text, reply_status)));
        self.session.finish_stream(self.log.number);
    }

    fn replies(&self) -> MutexGuard<'_, CollectedReplies> {
        self.replies.lock()
    }
}

/// The stream also ends if its last call was dropped before its end, such as a cancelled one.
impl Drop for ReplyCollector {
    fn drop(&mut self) {
        self.finish();
    }
}
