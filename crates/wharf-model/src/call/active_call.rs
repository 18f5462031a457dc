//! Call in flight: its events. Its deadlines: `call_timeouts`; its cancellation: `cancel_on_drop`.

use std::{
    any::Any,
    fmt,
    future::poll_fn,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use crate::{
    BoxFuture, CallOutcome, ClientObservation, ClientRequest, ClientRequestId, Deadlines, Error,
    ErrorKind, FailureOrigin, Message, Method, Notification, Observers, Outbox, Outcome, Request,
    ResponseSender, Service, TimeoutKind, Timer, ToolResult,
    call::call_timeouts::CallTimeouts,
    observe::{active::ObservedCall, drop_payload, panic_text},
};

/// Next event of a call.
#[derive(Debug)]
pub enum Event {
    /// Notification to the client.
    Notify(Notification),
    /// Request to the client; its response goes to [`ActiveCall::response_sender`].
    ClientRequest(ClientRequestId, ClientRequest),
    /// Cancellation of a client request that is still open.
    Withdraw(ClientRequestId),
    /// The call takes long: the connection may close if the client can reconnect and resume.
    ConnectionMayClose,
    /// Outcome of the call; the last event.
    Done(Outcome),
}

/// Call in flight: a stream of events that ends with [`Event::Done`].
///
/// It is `'static` and `Unpin`: poll it in place, and move it into a task or a body only if it is still
/// pending. Dropping it cancels the call.
pub struct ActiveCall {
    method: Method,
    pub(super) call: Option<BoxFuture<Outcome>>,
    pub(super) outbox: Outbox,
    outcome: Option<Outcome>,
    clock: Option<CallTimeouts>,
    /// Upper limit for the duration of any call, whatever its own deadlines.
    limit: Option<Duration>,
    /// Form in which a timeout is reported.
    timeout_report: TimeoutReport,
    pub(super) observed: Option<Box<ObservedCall>>,
}

#[derive(Clone, Copy)]
enum TimeoutReport {
    Model,
    Caller,
}

impl ActiveCall {
    /// Starts the call. The service reads the arguments before this returns.
    #[must_use]
    pub fn start(
        service: &dyn Service,
        mut request: Request,
        timer: Arc<dyn Timer>,
        deadlines: Deadlines,
    ) -> Self {
        let observed = ObservedCall::start(service, &mut request, None);
        ActiveCall::begin(service, request, timer, deadlines, observed)
    }

    /// Starts the call of a client, which reports it to the client's observers, too. The request gets the trace
    /// context of the client's span, or else of the call that makes it.
    #[must_use]
    pub fn start_for_client(
        service: &dyn Service,
        mut request: Request,
        timer: Arc<dyn Timer>,
        deadlines: Deadlines,
        client: ClientObservation<'_>,
    ) -> Self {
        let observed = ObservedCall::start(service, &mut request, Some(client));
        ActiveCall::begin(service, request, timer, deadlines, observed)
    }

    /// Starts the run of a task, which is reported to the observers as such.
    #[must_use]
    pub fn start_task(
        service: &dyn Service,
        request: Request,
        timer: Arc<dyn Timer>,
        deadlines: Deadlines,
        observers: &Observers,
    ) -> Self {
        let observed = ObservedCall::start_task(observers, service, &request);
        ActiveCall::begin(service, request, timer, deadlines, observed)
    }

    /// Reports to the observers that the call, which was started with this request, goes on as a task.
    pub fn become_task(&mut self, observers: &Observers, service: &dyn Service, request: &Request) {
        self.observed = ObservedCall::start_task(observers, service, request);
    }

    fn begin(
        service: &dyn Service,
        request: Request,
        timer: Arc<dyn Timer>,
        deadlines: Deadlines,
        mut observed: Option<Box<ObservedCall>>,
    ) -> Self {
        let method = request.method;
        let outbox = Outbox::new(timer, deadlines);
        let handle = outbox.clone();
        let begun = within(&mut observed, || {
            catch_unwind(AssertUnwindSafe(|| service.call(request, handle)))
        });
        let (call, outcome) = match begun {
            Ok(call) => (Some(call), None),
            Err(payload) => (None, Some(panicked(method, &mut observed, payload))),
        };
        let (limit, timeout_report) = (deadlines.total, TimeoutReport::Model);
        let clock = None;
        ActiveCall { method, call, outbox, outcome, clock, limit, timeout_report, observed }
    }

    /// Extends the upper limit to `limit` from the start of the call. It never shortens it.
    pub fn extend(&mut self, limit: Duration) {
        self.limit = self.limit.map(|before| before.max(limit));
        if let Some(clock) = &mut self.clock {
            clock.alarm = None;
        }
    }

    /// Reports timeouts as errors even for tool calls, for calls made by our own code instead of a model.
    #[must_use]
    pub fn for_caller(mut self) -> Self {
        self.timeout_report = TimeoutReport::Caller;
        self
    }

    /// Ends the call early, with the outcome that its client receives instead of the service's.
    pub fn end_early(&mut self, outcome: &Outcome) {
        self.drop_call();
        self.outbox.close();
        self.report_end(CallOutcome::Returned(outcome));
    }

    /// Runs the call to its end without a client: its messages are dropped, its requests refused.
    pub async fn run_alone(mut self) -> Outcome {
        loop {
            match poll_fn(|cx| self.poll_event(cx)).await {
                Event::ClientRequest(id, ask) => self.refuse(id, &ask),
                Event::Done(outcome) => return outcome,
                Event::Notify(_) | Event::Withdraw(_) | Event::ConnectionMayClose => {}
            }
        }
    }

    /// Returns the sender for responses of the client.
    #[must_use]
    pub fn response_sender(&self) -> ResponseSender {
        self.outbox.response_sender()
    }

    /// Returns the end of the idle timeout after the last activity of the call, for work that follows its outcome and belongs
    /// to it. `None` if the call was never pending, or has no idle timeout.
    pub fn idle_end(&mut self) -> Option<Instant> {
        let clock = self.clock.as_mut()?;
        let (touched, _) = self.outbox.take_activity();
        // Client requests that are still open end with the call.
        clock.update(self.outbox.deadlines(), touched, false, self.outbox.timer().now());
        clock.idle_end()
    }

    /// Reports to the observers of the call that a client request was sent; its response ends what they follow.
    pub fn client_request_sent(&mut self, id: ClientRequestId, client_request: &ClientRequest) {
        let observed = self.observed.as_mut();
        if let Some(sent) = observed.and_then(|it| it.start_client_request(client_request)) {
            self.outbox.observe_client_request(id, sent);
        }
    }

    /// Responds to a client request that cannot be sent.
    pub fn refuse(&self, id: ClientRequestId, ask: &ClientRequest) {
        self.response_sender().deliver(id, Err(Error::missing_capability(ask.needs())));
    }

    /// Returns the next event. Do not poll again after [`Event::Done`].
    pub fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Event> {
        if let Some(event) = self.next_message() {
            return Poll::Ready(event);
        }
        self.poll_call(cx);
        // Messages are delivered before the outcome, even if both came in one poll.
        if let Some(event) = self.next_message() {
            return Poll::Ready(event);
        }
        if let Some(outcome) = self.outcome.take() {
            self.outbox.close();
            self.report_end(CallOutcome::Returned(&outcome));
            return Poll::Ready(Event::Done(outcome));
        }
        self.outbox.register(cx.waker());
        // A message sent before the registration would not wake the task.
        if let Some(event) = self.next_message() {
            return Poll::Ready(event);
        }
        self.poll_clock(cx)
    }

    fn poll_call(&mut self, cx: &mut Context<'_>) {
        let Some(call) = &mut self.call else { return };
        let polled = within(&mut self.observed, || {
            catch_unwind(AssertUnwindSafe(|| call.as_mut().poll(cx)))
        });
        match polled {
            Ok(Poll::Pending) => return,
            Ok(Poll::Ready(outcome)) => self.outcome = Some(outcome),
            Err(payload) => {
                self.outcome = Some(panicked(self.method, &mut self.observed, payload));
            }
        }
        self.drop_call();
    }

    pub(super) fn report_end(&mut self, outcome: CallOutcome<'_>) {
        if let Some(mut observed) = self.observed.take() {
            observed.end(outcome);
        }
    }

    fn next_message(&mut self) -> Option<Event> {
        Some(match self.outbox.take()? {
            Message::Notify(notification) => Event::Notify(notification),
            Message::ClientRequest(id, ask) => Event::ClientRequest(id, ask),
            Message::Withdraw(id) => Event::Withdraw(id),
            Message::ConnectionMayClose => Event::ConnectionMayClose,
        })
    }

    /// Polls the deadlines. The timer is created on the first pending poll, so that immediate calls need none.
    fn poll_clock(&mut self, cx: &mut Context<'_>) -> Poll<Event> {
        let (deadlines, timer) = (self.outbox.deadlines(), self.outbox.timer().clone());
        let (touched, waiting_for_client) = self.outbox.take_activity();
        let now = timer.now();
        let clock = self.clock.get_or_insert_with(|| CallTimeouts::new(deadlines, now));
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
        self.report_end(CallOutcome::TimedOut);
        Poll::Ready(Event::Done(match (self.method, self.timeout_report) {
            (Method::CallTool, TimeoutReport::Model) => {
                ToolResult::error(ErrorKind::ToolTimeout.message()).into()
            }
            (_, TimeoutReport::Model) => Error::new(ErrorKind::RequestTimeout).into(),
            (_, TimeoutReport::Caller) => {
                let Deadlines { idle, total } = self.outbox.deadlines();
                let limit = idle.or(total).unwrap_or_default();
                let origin = FailureOrigin::Timeout(TimeoutKind::Idle, limit);
                Error::new(ErrorKind::RequestTimeout).from_client(origin).into()
            }
        }))
    }
}

impl fmt::Debug for ActiveCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ActiveCall").field("method", &self.method).finish_non_exhaustive()
    }
}

/// Runs a part of the call within the scopes of its observers.
#[inline]
pub(crate) fn within<T>(observed: &mut Option<Box<ObservedCall>>, run: impl FnOnce() -> T) -> T {
    match observed {
        None => run(),
        Some(observed) => run_observed(observed, run),
    }
}

#[cold]
fn run_observed<T>(observed: &mut ObservedCall, run: impl FnOnce() -> T) -> T {
    let (mut run, mut result) = (Some(run), None);
    observed.run(&mut || {
        if let Some(run) = run.take() {
            result = Some(run());
        }
    });
    result.unwrap_or_else(|| unreachable!("the poll ran"))
}

/// Returns the outcome of a panic. Its text is only for observers: it may contain confidential data.
#[cold]
pub(crate) fn panicked(
    method: Method,
    observed: &mut Option<Box<ObservedCall>>,
    payload: Box<dyn Any + Send>,
) -> Outcome {
    let (mut observed, text) = (observed.take(), panic_text(&*payload));
    if !observed.as_mut().is_some_and(|observed| observed.logs_panics()) {
        // Debug format, because the text could forge lines.
        tracing::error!(method = method.name(), panic = ?text, "caught a panic of a call");
    }
    if let Some(observed) = &mut observed {
        observed.end(CallOutcome::Panicked(text));
    }
    drop_payload(payload);
    match method {
        Method::CallTool => ToolResult::error(ErrorKind::ToolPanicked.message()).into(),
        _ => Error::new(ErrorKind::InternalError).into(),
    }
}
