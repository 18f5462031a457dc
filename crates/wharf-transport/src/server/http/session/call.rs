//! The calls of a session, from their first poll to their replies.

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
    cluster::record::Member,
    event_log::{Ending, Log},
    session::{Beginning, Session, Visit},
};
use crate::{
    server::{
        http::auth::{Until, expired},
        jsonl::{
            client_requests::OpenClientRequests,
            write_queue::{give_way, make_room},
        },
    },
    shutdown::shutting_down,
    task_set::Tasks,
};

/// How much memory a call keeps for what it says next.
const REUSED: usize = 4 << 10;

/// One call that was begun.
pub(crate) struct Begun {
    exchange: ActiveCall,
    pub(crate) codec: Codec,
    /// What came of it at once.
    pub(crate) first: Option<Event>,
    /// Gone when something comes of it.
    pub(crate) beginning: Option<Beginning>,
    /// When it ends, if it waits until then.
    until: Option<Until>,
}

impl Begun {
    /// Begins a call, and polls it once where it is: most calls end then and there.
    pub(crate) fn new(
        session: &Session,
        mut request: Request,
        codec: Codec,
        scope: RequestExtensions,
    ) -> Self {
        let until = scope.get().copied().filter(|_| codec.waits());
        request.scope = scope;
        let host = &session.common.host;
        let timer = host.timer.clone();
        let mut exchange = ActiveCall::start(&*host.service, request, timer, host.deadlines);
        // Nobody need be woken: a call that goes on is polled again at once, by its task.
        let mut cx = Context::from_waker(Waker::noop());
        let first = match exchange.poll_event(&mut cx) {
            Poll::Ready(event) => Some(event),
            Poll::Pending => None,
        };
        Begun { exchange, codec, first, beginning: None, until }
    }

    /// Hands the session's listen to the runtime. What it says goes to the session's own stream.
    pub(crate) fn listen(self, session: &Arc<Session>, tasks: &Tasks) {
        self.launch(session, session.own_stream(), None, 0, tasks);
    }

    /// Hands the call, which keeps `held` bytes of its message, to the runtime.
    pub(crate) fn go_on(self, tally: &Arc<Tally>, held: usize, tasks: &Tasks) {
        self.launch(&tally.session, tally.log.clone(), Some(tally.clone()), held, tasks);
    }

    fn launch(
        self,
        session: &Arc<Session>,
        log: Arc<Log>,
        tally: Option<Arc<Tally>>,
        held: usize,
        tasks: &Tasks,
    ) {
        let Begun { exchange, codec, first, beginning, until } = self;
        let id = (!codec.is_silent()).then(|| codec.id());
        let visit = (!codec.is_silent()).then(|| Visit::new(session.clone()));
        let (shutdown, grace) = (&session.common.shutdown, session.common.limits.grace);
        let closing: BoxFuture<Option<Event>> = match (codec.is_silent(), until) {
            // What it hears is for the session, whose stream ends with the pass of whoever reads it.
            (true, _) => {
                let stopped = shutdown.stopped();
                Box::pin(async move {
                    stopped.await;
                    None
                })
            }
            (false, until) => {
                let cuts = shutdown.cuts(grace);
                Box::pin(async move {
                    let error = match until {
                        Some(Until(until)) => match timeout_at(until, cuts).await {
                            Ok(()) => shutting_down(),
                            Err(_) => expired(),
                        },
                        None => {
                            cuts.await;
                            shutting_down()
                        }
                    };
                    Some(Event::Done(error.into()))
                })
            }
        };
        // Boxed, or the task would hold it twice: an argument of an async function is kept beside
        // the variable that it becomes.
        let call = Box::new(Call {
            session: session.clone(),
            exchange,
            closing,
            codec,
            first,
            beginning,
            log,
            tally,
            asks: OpenClientRequests::default(),
            message: Vec::new(),
        });
        session.flight().board(id, visit.is_none(), held, |number| {
            let seat = Seat { session: session.clone(), number, _visit: visit };
            tasks.spawn(call.run(seat))
        });
    }
}

/// One call under way.
struct Call {
    session: Arc<Session>,
    exchange: ActiveCall,
    /// Ends a listen when the server stops, even if its service does not know that, what waits when its caller's
    /// pass ends, and any call when the grace period is over.
    closing: BoxFuture<Option<Event>>,
    codec: Codec,
    /// What came of it at once.
    first: Option<Event>,
    /// Gone when something comes of it.
    beginning: Option<Beginning>,
    /// Where it says what it has to say before its end.
    log: Arc<Log>,
    /// Where its reply goes; a listen of a session has none.
    tally: Option<Arc<Tally>>,
    asks: OpenClientRequests,
    /// What it said last, whose memory is used for what it says next.
    message: Vec<u8>,
}

impl Call {
    async fn run(mut self: Box<Self>, seat: Seat) {
        while let Some(event) = poll_fn(|cx| self.poll_next(cx)).await {
            self.beginning = None;
            if let Event::Done(outcome) = event {
                if self.session.flight().land(seat.number) {
                    self.finish(&outcome);
                }
                return;
            }
            // The call is not polled again before there is room.
            if self.write(event) {
                self.log.send(&self.message).await;
            }
            give_way(self.message.len()).await;
        }
    }

    /// What happens next. None when the server stops, for a listen.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(first));
        }
        match self.exchange.poll_event(cx) {
            Poll::Pending => self.closing.as_mut().poll(cx),
            event => event.map(Some),
        }
    }

    /// Writes what `event` says to the client. False if that is nothing.
    fn write(&mut self, event: Event) -> bool {
        let (flight, message) = (self.session.flight(), &mut self.message);
        // The memory of a long message is not kept for what may be a short one.
        message.clear();
        message.shrink_to(REUSED);
        // Whether the client reads nothing but the reply.
        let quiet = self.tally.as_ref().is_some_and(|tally| tally.quiet);
        match event {
            Event::ClientRequest(id, ask) if quiet => {
                self.exchange.refuse(id, &ask);
                false
            }
            _ if quiet => false,
            Event::Notify(notification) => {
                make_room(message, &notification);
                self.codec.notify(&notification, message)
                    && !(is_change(&notification) && self.log.has_unread(message))
            }
            Event::ClientRequest(id, ask) => {
                let answers = self.exchange.answers();
                self.asks.put(flight, answers, &self.codec, id, &ask, message)
            }
            Event::Withdraw(id) => match self.asks.close(flight, id) {
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
        if let Some(tally) = &self.tally {
            let mut reply = Vec::new();
            let status = self.codec.encode(outcome, &mut reply);
            if matches!(outcome, Outcome::Task(_)) {
                Member::share(&self.session);
            }
            let refused = match (status, outcome) {
                (400.., Outcome::Failed(error)) => Some(error.clone()),
                _ => None,
            };
            tally.add(reply, Ending { status, refused });
        }
    }

    fn withdraw_all(&mut self) {
        for number in self.asks.close_all(self.session.flight()) {
            let mut message = Vec::new();
            self.codec.withdraw(number, &mut message);
            self.log.push(message);
        }
    }
}

/// Returns true for a notification that says no more the second time: a session that nobody reads keeps it once.
fn is_change(notification: &Notification) -> bool {
    use Notification::{PromptsChanged, ResourceUpdated, ResourcesChanged, ToolsChanged};
    matches!(
        notification,
        ToolsChanged | PromptsChanged | ResourcesChanged | ResourceUpdated { .. }
    )
}

/// A call that is dropped half-way must not leave its questions open at the client.
impl Drop for Call {
    fn drop(&mut self) {
        self.withdraw_all();
    }
}

/// A call's place among those under way, given back however the call ends.
struct Seat {
    session: Arc<Session>,
    number: u64,
    _visit: Option<Visit>,
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.session.flight().leave(self.number);
    }
}

/// Collects the replies to what was posted at once. The stream ends with them when the last call is
/// gone, however it went.
pub(crate) struct Tally {
    session: Arc<Session>,
    pub(crate) log: Arc<Log>,
    pub(crate) batch: bool,
    /// Whether the client reads nothing but the replies.
    quiet: bool,
    replies: Mutex<Replies>,
    held: AtomicUsize,
}

#[derive(Default)]
struct Replies {
    text: Vec<u8>,
    ending: Option<Ending>,
}

impl Tally {
    pub(crate) fn new(session: &Arc<Session>, batch: bool, quiet: bool) -> Arc<Self> {
        let (session, log) = (session.clone(), session.open_stream());
        let (replies, held) = (Mutex::default(), AtomicUsize::new(0));
        Arc::new(Tally { session, log, batch, quiet, replies, held })
    }

    /// Counts a batch of `length` bytes as held for as long as one of its calls is under way.
    pub(crate) fn hold(&self, length: usize) {
        self.held.store(length, Ordering::Release);
        self.session.flight().hold(length);
    }

    /// Notes that the reply to this call is due, for those who must write it if we cannot.
    pub(crate) fn owe(&self, codec: &Codec) {
        if let Some(journal) = self.log.journal() {
            journal.owe(codec.id());
        }
    }

    /// Whether the replies so far are as much as any message may be.
    pub(crate) fn is_full(&self) -> bool {
        self.replies().text.len() > self.session.common.host.limits.message
    }

    pub(crate) fn add(&self, reply: Vec<u8>, ending: Ending) {
        let mut replies = self.replies();
        if self.batch {
            let mark = if replies.text.is_empty() { b'[' } else { b',' };
            replies.text.push(mark);
            replies.text.extend_from_slice(&reply);
        } else {
            replies.text = reply;
        }
        // A batch is answered, however its members went.
        let answered = Ending { status: 200, refused: None };
        replies.ending = Some(if self.batch { answered } else { ending });
    }

    fn replies(&self) -> MutexGuard<'_, Replies> {
        self.replies.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Tally {
    fn drop(&mut self) {
        self.session.flight().release(*self.held.get_mut());
        let replies = self.replies.get_mut().unwrap_or_else(PoisonError::into_inner);
        let Replies { mut text, ending } = std::mem::take(replies);
        if self.batch && !text.is_empty() {
            text.push(b']');
        }
        self.log.end(ending.map(|ending| (text, ending)));
        self.session.finish_stream(self.log.number);
    }
}
