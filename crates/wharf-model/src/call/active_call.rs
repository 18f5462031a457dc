//! One call in progress.

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use crate::{
    BoxFuture, ClientRequest, ClientRequestId, Deadlines, Error, ErrorKind, Message, Method,
    Notification, Outbox, Outcome, Request, ResponseSender, Service, Timer, ToolResult,
};

/// What happens next in a call.
#[derive(Debug)]
pub enum Event {
    /// A notification for the client.
    Notify(Notification),
    /// A question for the client; its answer goes to [`ActiveCall::answers`].
    ClientRequest(ClientRequestId, ClientRequest),
    /// An open question nobody waits for any more.
    Withdraw(ClientRequestId),
    /// The call takes a while: the connection may close if the client can come back for the rest.
    LetGo,
    /// The end. Nothing comes after it.
    Done(Outcome),
}

/// One call in progress: a stream of events that ends with [`Event::Done`].
///
/// It is `'static` and `Unpin`: poll it in place, and move it into a task or a body only if it is
/// not done at once. Dropping it cancels the call.
pub struct ActiveCall {
    method: Method,
    call: Option<BoxFuture<Outcome>>,
    outbox: Outbox,
    outcome: Option<Outcome>,
    clock: Option<CallClock>,
    /// How long any call may take, whatever its own deadlines.
    limit: Option<Duration>,
    /// Who learns that time ran out: a model that reads results, or the code that called.
    timeout_report: TimeoutReport,
}

#[derive(Clone, Copy)]
enum TimeoutReport {
    Model,
    Caller,
}

struct CallClock {
    deadlines: Deadlines,
    created: Instant,
    /// When the time that counts began.
    started: Instant,
    last_activity: Instant,
    /// Since when an ask is open: that is the client's time, not the handler's.
    waiting_for_client: Option<Instant>,
    alarm: Option<BoxFuture<()>>,
}

impl CallClock {
    fn new(deadlines: Deadlines, now: Instant) -> Self {
        let (created, started, last_activity) = (now, now, now);
        CallClock {
            deadlines,
            created,
            started,
            last_activity,
            waiting_for_client: None,
            alarm: None,
        }
    }

    /// Takes note of what happened since the last look.
    fn update(
        &mut self,
        deadlines: Deadlines,
        touched: bool,
        waiting_for_client: bool,
        now: Instant,
    ) {
        if touched {
            self.last_activity = now;
        }
        match self.waiting_for_client {
            None if waiting_for_client => (self.waiting_for_client, self.alarm) = (Some(now), None),
            Some(since) if !waiting_for_client => {
                self.started += now.saturating_duration_since(since);
                (self.last_activity, self.waiting_for_client, self.alarm) = (now, None, None);
            }
            _ => {}
        }
        if self.deadlines != deadlines {
            // A call that had to wait for its turn gets its own time from now on.
            (self.deadlines, self.alarm) = (deadlines, None);
            (self.started, self.last_activity) = (now, now);
        }
    }

    /// When the time is up. An open ask stops the clock, but no call lasts longer than `limit`.
    fn end(&self, limit: Option<Duration>) -> Option<Instant> {
        let Deadlines { idle, total } = self.deadlines;
        let own = |limit| self.waiting_for_client.is_none().then_some(limit).flatten();
        let ends = [
            own(idle).and_then(|idle| self.last_activity.checked_add(idle)),
            own(total).and_then(|total| self.started.checked_add(total)),
            limit.zip(total).and_then(|(limit, total)| self.created.checked_add(limit.max(total))),
        ];
        ends.into_iter().flatten().min()
    }
}

impl ActiveCall {
    /// Begins the call, with the code that reads its arguments already run.
    #[must_use]
    pub fn start(
        service: &dyn Service,
        request: Request,
        timer: Arc<dyn Timer>,
        deadlines: Deadlines,
    ) -> Self {
        let method = request.method;
        let outbox = Outbox::new(timer, deadlines);
        let (call, outcome) =
            match catch_unwind(AssertUnwindSafe(|| service.call(request, outbox.clone()))) {
                Ok(call) => (Some(call), None),
                Err(_) => (None, Some(panicked(method))),
            };
        let (limit, timeout_report) = (deadlines.total, TimeoutReport::Model);
        ActiveCall { method, call, outbox, outcome, clock: None, limit, timeout_report }
    }

    /// Lets the call go on until `limit` from its beginning, if its own deadlines do. It is never
    /// shortened.
    pub fn extend(&mut self, limit: Duration) {
        self.limit = self.limit.map(|before| before.max(limit));
        if let Some(clock) = &mut self.clock {
            clock.alarm = None;
        }
    }

    /// The same call, made by code of ours: that time ran out is an error, whatever was called, and
    /// no result of a tool.
    #[must_use]
    pub fn for_caller(mut self) -> Self {
        self.timeout_report = TimeoutReport::Caller;
        self
    }

    /// A handle through which the client's answers come back.
    #[must_use]
    pub fn answers(&self) -> ResponseSender {
        self.outbox.answers()
    }

    /// Answers a question that cannot be put to the client.
    pub fn refuse(&self, id: ClientRequestId, ask: &ClientRequest) {
        self.answers().deliver(id, Err(Error::missing_capability(ask.needs())));
    }

    /// The next event. Do not poll again after [`Event::Done`].
    pub fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Event> {
        if let Some(event) = self.next_message() {
            return Poll::Ready(event);
        }
        self.poll_call(cx);
        // What the call sent goes out before its end, even if both came in one poll.
        if let Some(event) = self.next_message() {
            return Poll::Ready(event);
        }
        if let Some(outcome) = self.outcome.take() {
            self.outbox.close();
            return Poll::Ready(Event::Done(outcome));
        }
        self.outbox.register(cx.waker());
        // A message sent between the look above and the registration would wake nobody.
        if let Some(event) = self.next_message() {
            return Poll::Ready(event);
        }
        self.poll_clock(cx)
    }

    fn poll_call(&mut self, cx: &mut Context<'_>) {
        let Some(call) = &mut self.call else { return };
        match catch_unwind(AssertUnwindSafe(|| call.as_mut().poll(cx))) {
            Ok(Poll::Pending) => return,
            Ok(Poll::Ready(outcome)) => self.outcome = Some(outcome),
            Err(_) => self.outcome = Some(panicked(self.method)),
        }
        self.drop_call();
    }

    /// A handler's destructors are its own code, and may panic too.
    fn drop_call(&mut self) {
        if let Some(call) = self.call.take() {
            let _ = catch_unwind(AssertUnwindSafe(|| drop(call)));
        }
    }

    fn next_message(&mut self) -> Option<Event> {
        Some(match self.outbox.take()? {
            Message::Notify(notification) => Event::Notify(notification),
            Message::ClientRequest(id, ask) => Event::ClientRequest(id, ask),
            Message::Withdraw(id) => Event::Withdraw(id),
            Message::LetGo => Event::LetGo,
        })
    }

    /// Armed on the first pending poll, so that a call that ends at once costs no timer.
    fn poll_clock(&mut self, cx: &mut Context<'_>) -> Poll<Event> {
        let (deadlines, timer) = (self.outbox.deadlines(), self.outbox.timer().clone());
        let (touched, waiting_for_client) = self.outbox.take_activity();
        let now = timer.now();
        let clock = self.clock.get_or_insert_with(|| CallClock::new(deadlines, now));
        clock.update(deadlines, touched, waiting_for_client, now);
        loop {
            if clock.alarm.as_mut().is_some_and(|alarm| alarm.as_mut().poll(cx).is_pending()) {
                return Poll::Pending;
            }
            let Some(end) = clock.end(self.limit) else { return Poll::Pending };
            if end <= timer.now() {
                return self.time_out();
            }
            clock.alarm = Some(timer.sleep_until(end));
        }
    }

    fn time_out(&mut self) -> Poll<Event> {
        self.drop_call();
        self.outbox.close();
        Poll::Ready(Event::Done(match (self.method, self.timeout_report) {
            (Method::CallTool, TimeoutReport::Model) => {
                ToolResult::error(ErrorKind::ToolTimeout.message()).into()
            }
            _ => Error::new(ErrorKind::RequestTimeout).into(),
        }))
    }
}

impl Drop for ActiveCall {
    fn drop(&mut self) {
        self.drop_call();
        self.outbox.close();
    }
}

impl fmt::Debug for ActiveCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ActiveCall").field("method", &self.method).finish_non_exhaustive()
    }
}

/// The panic's own text stays in the server's log: it may say what clients should not read.
fn panicked(method: Method) -> Outcome {
    match method {
        Method::CallTool => ToolResult::error(ErrorKind::ToolPanicked.message()).into(),
        _ => Error::new(ErrorKind::InternalError).into(),
    }
}
