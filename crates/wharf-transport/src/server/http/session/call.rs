//! Calls of a session, from the first poll to the reply.

use std::{
    future::poll_fn,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
};

use tokio::time::timeout_at;
use wharf_model::{
    ActiveCall, BoxFuture, Event, Notification, Outcome, Request, RequestExtensions,
};
use wharf_wire::Codec;

use crate::server::http::session::{
    cluster::record::SessionRecord,
    event_log::{EventLog, ReplyStatus},
    live_session::{ListenStartGuard, Session, SessionGuard},
};
use crate::{
    server::{
        http::auth::{AuthExpiry, expired},
        jsonl::{
            client_requests::OpenClientRequests,
            in_flight::shutting_down,
            write_queue::{reserve_for, yield_after},
        },
    },
    task_set::TaskSet,
};

/// Largest buffer that a call keeps for its next message, in bytes.
const MAX_REUSED_BUFFER_BYTES: usize = 4 << 10;

/// A call after its first poll.
pub(crate) struct StartedCall {
    active_call: ActiveCall,
    pub(crate) codec: Codec,
    /// Result of the first poll, if there was one.
    pub(crate) first: Option<Event>,
    /// Dropped with the first event of a subscription.
    pub(crate) start_guard: Option<ListenStartGuard>,
    /// Time at which a waiting call ends because the caller's credentials expire.
    expiry: Option<AuthExpiry>,
}

impl StartedCall {
    /// Starts a call and polls it once in place, because most calls end with the first poll.
    pub(crate) fn new(
        session: &Session,
        mut request: Request,
        codec: Codec,
        scope: RequestExtensions,
    ) -> Self {
        let expiry = scope.get().copied().filter(|_| codec.waits());
        request.scope = scope;
        let context = &session.common.context;
        let timer = context.timer.clone();
        let mut active_call =
            ActiveCall::start(&*context.service, request, timer, context.deadlines);
        // A waker is not needed: a pending call is polled again at once by its task.
        let mut cx = Context::from_waker(Waker::noop());
        let first = match active_call.poll_event(&mut cx) {
            Poll::Ready(event) => Some(event),
            Poll::Pending => None,
        };
        StartedCall { active_call, codec, first, start_guard: None, expiry }
    }

    /// Spawns the session's subscription, which writes to the session's stream.
    pub(crate) fn spawn_listen(self, session: &Arc<Session>, tasks: &TaskSet) {
        self.spawn_task(session, session.session_stream(), None, 0, tasks);
    }

    /// Spawns the call as a task. It keeps `held` bytes of its message.
    pub(crate) fn spawn(self, collector: &Arc<ReplyCollector>, held: usize, tasks: &TaskSet) {
        self.spawn_task(
            &collector.session,
            collector.log.clone(),
            Some(collector.clone()),
            held,
            tasks,
        );
    }

    fn spawn_task(
        self,
        session: &Arc<Session>,
        log: Arc<EventLog>,
        collector: Option<Arc<ReplyCollector>>,
        held: usize,
        tasks: &TaskSet,
    ) {
        let StartedCall { active_call, codec, first, start_guard, expiry } = self;
        let id = (!codec.is_silent()).then(|| codec.id());
        let guard = (!codec.is_silent()).then(|| SessionGuard::new(session.clone()));
        let (shutdown, grace) = (&session.common.shutdown, session.common.limits.grace);
        let closing: BoxFuture<Option<Event>> = match (codec.is_silent(), expiry) {
            // A subscription belongs to the session. Its stream ends when the credentials of the reader expire.
            (true, _) => {
                let stopped = shutdown.stopped();
                Box::pin(async move {
                    stopped.await;
                    None
                })
            }
            (false, expiry) => {
                let after_grace = shutdown.after_grace(grace);
                Box::pin(async move {
                    let error = match expiry {
                        Some(AuthExpiry(expiry)) => match timeout_at(expiry, after_grace).await {
                            Ok(()) => shutting_down(),
                            Err(_) => expired(),
                        },
                        None => {
                            after_grace.await;
                            shutting_down()
                        }
                    };
                    Some(Event::Done(error.into()))
                })
            }
        };
        // Boxed: an async function keeps its argument beside the variable it becomes, so the task would hold
        // the call twice.
        let call = Box::new(RunningCall {
            session: session.clone(),
            active_call,
            closing,
            codec,
            first,
            start_guard,
            log,
            collector,
            client_requests: OpenClientRequests::default(),
            message: Vec::new(),
        });
        session.in_flight().insert(id, guard.is_none(), held, |number| {
            let slot = CallSlot { session: session.clone(), number, _guard: guard };
            tasks.spawn(call.run(slot))
        });
    }
}

/// A call in flight.
struct RunningCall {
    session: Arc<Session>,
    active_call: ActiveCall,
    /// Ends a subscription on shutdown, even if its service does not; a waiting call when its caller's
    /// credentials expire; and any call after the grace period.
    closing: BoxFuture<Option<Event>>,
    codec: Codec,
    /// Result of the first poll, if there was one.
    first: Option<Event>,
    /// Dropped with the first event of a subscription.
    start_guard: Option<ListenStartGuard>,
    /// Stream for the messages before the reply.
    log: Arc<EventLog>,
    /// Collector for the reply; none for a subscription.
    collector: Option<Arc<ReplyCollector>>,
    client_requests: OpenClientRequests,
    /// Buffer of the last message, reused for the next one.
    message: Vec<u8>,
}

impl RunningCall {
    async fn run(mut self: Box<Self>, slot: CallSlot) {
        while let Some(event) = poll_fn(|cx| self.poll_next(cx)).await {
            self.start_guard = None;
            if let Event::Done(outcome) = event {
                if self.session.in_flight().finish(slot.number) {
                    self.finish(&outcome);
                }
                return;
            }
            // Back-pressure: the call is not polled again before the stream has room.
            if self.write(event) {
                self.log.send(&self.message).await;
            }
            yield_after(self.message.len()).await;
        }
    }

    /// Polls the next event. None if the server stops and the call is a subscription.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(first));
        }
        match self.active_call.poll_event(cx) {
            Poll::Pending => self.closing.as_mut().poll(cx),
            event => event.map(Some),
        }
    }

    /// Encodes an event for the client. False if there is nothing to send.
    fn write(&mut self, event: Event) -> bool {
        let (in_flight, message) = (self.session.in_flight(), &mut self.message);
        // The memory of a long message is released.
        message.clear();
        message.shrink_to(MAX_REUSED_BUFFER_BYTES);
        // True if the client accepts only the reply.
        let quiet = self.collector.as_ref().is_some_and(|collector| collector.quiet);
        match event {
            Event::ClientRequest(id, ask) if quiet => {
                self.active_call.refuse(id, &ask);
                false
            }
            _ if quiet => false,
            Event::Notify(notification) => {
                reserve_for(message, &notification);
                self.codec.notify(&notification, message)
                    && !(is_change(&notification) && self.log.has_unread(message))
            }
            Event::ClientRequest(id, ask) => {
                let answers = self.active_call.response_sender();
                self.client_requests.put(in_flight, answers, &self.codec, id, &ask, message)
            }
            Event::Withdraw(id) => match self.client_requests.close(in_flight, id) {
                Some(number) => {
                    self.codec.withdraw(number, message);
                    true
                }
                None => false,
            },
            Event::LetGo => {
                if self.session.polls {
                    self.log.release_connection();
                }
                false
            }
            Event::Done(_) => false,
        }
    }

    fn finish(&mut self, outcome: &Outcome) {
        self.withdraw_all();
        if let Some(collector) = &self.collector {
            let mut reply = Vec::new();
            let status = self.codec.encode(outcome, &mut reply);
            if matches!(outcome, Outcome::Task(_)) {
                SessionRecord::save_in_background(&self.session);
            }
            let refused = match (status, outcome) {
                (400.., Outcome::Failed(error)) => Some(error.clone()),
                _ => None,
            };
            collector.add(reply, ReplyStatus { status, refused });
        }
    }

    fn withdraw_all(&mut self) {
        for number in self.client_requests.close_all(self.session.in_flight()) {
            let mut message = Vec::new();
            self.codec.withdraw(number, &mut message);
            self.log.push(message);
        }
    }
}

/// Returns true for a notification that carries nothing new if repeated. A session without a reader keeps it
/// once.
fn is_change(notification: &Notification) -> bool {
    use Notification::{PromptsChanged, ResourceUpdated, ResourcesChanged, ToolsChanged};
    matches!(
        notification,
        ToolsChanged | PromptsChanged | ResourcesChanged | ResourceUpdated { .. }
    )
}

/// A dropped call cancels its open requests to the client.
impl Drop for RunningCall {
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
        self.session.in_flight().remove(self.number);
    }
}

/// Collects the replies to one POST. Dropping the last reference, when all its calls are gone, ends the stream
/// with the replies.
pub(crate) struct ReplyCollector {
    session: Arc<Session>,
    pub(crate) log: Arc<EventLog>,
    pub(crate) batch: bool,
    /// True if the client accepts only the replies.
    quiet: bool,
    replies: Mutex<CollectedReplies>,
    held: AtomicUsize,
}

#[derive(Default)]
struct CollectedReplies {
    text: Vec<u8>,
    reply_status: Option<ReplyStatus>,
}

impl ReplyCollector {
    pub(crate) fn new(session: &Arc<Session>, batch: bool, quiet: bool) -> Arc<Self> {
        let (session, log) = (session.clone(), session.open_stream());
        let (replies, held) = (Mutex::default(), AtomicUsize::new(0));
        Arc::new(ReplyCollector { session, log, batch, quiet, replies, held })
    }

    /// Counts a batch of `length` bytes as held while one of its calls is in flight.
    pub(crate) fn hold(&self, length: usize) {
        self.held.store(length, Ordering::Release);
        self.session.in_flight().hold(length);
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

    fn replies(&self) -> MutexGuard<'_, CollectedReplies> {
        self.replies.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ReplyCollector {
    fn drop(&mut self) {
        self.session.in_flight().release(*self.held.get_mut());
        let replies = self.replies.get_mut().unwrap_or_else(PoisonError::into_inner);
        let CollectedReplies { mut text, reply_status } = std::mem::take(replies);
        if self.batch && !text.is_empty() {
            text.push(b']');
        }
        self.log.end(reply_status.map(|reply_status| (text, reply_status)));
        self.session.finish_stream(self.log.number);
    }
}
