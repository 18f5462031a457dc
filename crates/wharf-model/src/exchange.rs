//! One call in progress.

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    task::{Context, Poll},
    time::Instant,
};

use crate::{
    Answers, Ask, AskId, BoxFuture, Deadlines, Error, ErrorKind, Message, Method, Notification,
    Outbox, Outcome, Request, Service, Timer, ToolResult,
};

/// What happens next in a call.
#[derive(Debug)]
pub enum Event {
    /// A notification for the client.
    Notify(Notification),
    /// A question for the client; its answer goes to [`Exchange::answers`].
    Ask(AskId, Ask),
    /// An open question nobody waits for any more.
    Withdraw(AskId),
    /// The end. Nothing comes after it.
    Done(Outcome),
}

/// One call in progress: a stream of events that ends with [`Event::Done`].
///
/// It is `'static` and `Unpin`: poll it in place, and move it into a task or a body only if it is
/// not done at once. Dropping it cancels the call.
pub struct Exchange {
    method: Method,
    call: Option<BoxFuture<Outcome>>,
    outbox: Outbox,
    outcome: Option<Outcome>,
    clock: Option<Clock>,
}

struct Clock {
    started: Instant,
    last_sign: Instant,
    alarm: BoxFuture<()>,
}

impl Exchange {
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
        Exchange { method, call, outbox, outcome, clock: None }
    }

    /// A handle through which the client's answers come back.
    #[must_use]
    pub fn answers(&self) -> Answers {
        self.outbox.answers()
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
        let call = self.call.take();
        let _ = catch_unwind(AssertUnwindSafe(|| drop(call)));
    }

    fn next_message(&mut self) -> Option<Event> {
        Some(match self.outbox.take()? {
            Message::Notify(notification) => Event::Notify(notification),
            Message::Ask(id, ask) => Event::Ask(id, ask),
            Message::Withdraw(id) => Event::Withdraw(id),
        })
    }

    /// Armed on the first pending poll, so that a call that ends at once costs no timer.
    fn poll_clock(&mut self, cx: &mut Context<'_>) -> Poll<Event> {
        let deadlines = self.outbox.deadlines();
        let timer = self.outbox.timer().clone();
        let (touched, asking) = self.outbox.signs();
        if let Some(clock) = &mut self.clock {
            if touched {
                clock.last_sign = timer.now();
            }
            if clock.alarm.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            // An open ask is the client's time, not the handler's.
            if asking {
                clock.last_sign = timer.now();
            }
        }
        loop {
            let now = timer.now();
            let (started, last_sign) = match &self.clock {
                Some(clock) => (clock.started, clock.last_sign),
                None => (now, now),
            };
            let ends = [
                deadlines.idle.and_then(|idle| last_sign.checked_add(idle)),
                deadlines.total.and_then(|total| started.checked_add(total)),
            ];
            let Some(end) = ends.into_iter().flatten().min() else { return Poll::Pending };
            if end <= now {
                return self.out_of_time();
            }
            let mut alarm = timer.sleep_until(end);
            let pending = alarm.as_mut().poll(cx).is_pending();
            self.clock = Some(Clock { started, last_sign, alarm });
            if pending {
                return Poll::Pending;
            }
        }
    }

    fn out_of_time(&mut self) -> Poll<Event> {
        self.drop_call();
        self.outbox.close();
        Poll::Ready(Event::Done(match self.method {
            Method::CallTool => ToolResult::error(ErrorKind::ToolTimeout.message()).into(),
            _ => Error::new(ErrorKind::RequestTimeout).into(),
        }))
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.drop_call();
        self.outbox.close();
    }
}

impl fmt::Debug for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exchange").field("method", &self.method).finish_non_exhaustive()
    }
}

/// The panic's own text stays in the server's log: it may say what clients should not read.
fn panicked(method: Method) -> Outcome {
    match method {
        Method::CallTool => ToolResult::error(ErrorKind::ToolPanicked.message()).into(),
        _ => Error::new(ErrorKind::InternalError).into(),
    }
}
