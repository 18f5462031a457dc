//! The events of one attempt of a request: notifications and requests of the server.

use std::{
    task::{Context, Poll},
    time::Instant,
};

use wharf_model::{
    ActiveCall, BoxFuture, ClientRequest, ClientRequestId, Error, ErrorKind, Event, FailureOrigin,
    Notification, Outcome, Task,
};

use crate::{
    ClientHandle, LogMessage, Progress,
    call::builder::CallHooks,
    server_requests::{dispatch, dispatch::AnswerError},
};

/// Maximum number of events handled per poll, so that a server that never pauses does not starve
/// other futures of the task.
pub(crate) const MAX_EVENTS_PER_POLL: usize = 256;

/// Receives the events of a call.
pub(crate) trait CallEvents: Send {
    /// Answers a request of the server.
    fn ask(&mut self, ask: ClientRequest) -> BoxFuture<Result<String, AnswerError>>;
    /// Receives a notification of the server.
    fn notify(&mut self, notification: Notification);
    /// Receives the state of the task that the call became.
    fn on_task(&mut self, task: &Task);
}

/// Events of a call made through a [`ClientHandle`]: its hooks and the client's handler.
pub(crate) struct CallerEvents<'a> {
    pub(crate) caller: &'a ClientHandle,
    pub(crate) hooks: &'a mut CallHooks,
}

impl CallEvents for CallerEvents<'_> {
    fn ask(&mut self, ask: ClientRequest) -> BoxFuture<Result<String, AnswerError>> {
        dispatch::put(self.caller.handler(), ask)
    }

    fn notify(&mut self, notification: Notification) {
        match notification {
            Notification::Progress { progress, total, message } => {
                if let Some(callback) = &mut self.hooks.progress {
                    callback(Progress { progress, total, message });
                }
            }
            Notification::Log { level, logger, data } => {
                if let Some(callback) = &mut self.hooks.log {
                    callback(LogMessage { level, logger, data });
                }
            }
            other => self.caller.server_state().on_notification(&other),
        }
    }

    fn on_task(&mut self, task: &Task) {
        if let Some(callback) = &mut self.hooks.task {
            callback(task);
        }
    }
}

/// One attempt of a request. Requests of the server are answered concurrently while it runs.
pub(crate) struct RequestAttempt {
    active_call: ActiveCall,
    asks: Vec<(ClientRequestId, BoxFuture<Result<String, AnswerError>>)>,
    input_requested: bool,
}

impl RequestAttempt {
    pub(crate) fn new(active_call: ActiveCall) -> Self {
        RequestAttempt { active_call, asks: Vec::new(), input_requested: false }
    }

    /// Polls the outcome, and whether the server sent any request meanwhile.
    pub(crate) fn poll_end(
        &mut self,
        events: &mut dyn CallEvents,
        cx: &mut Context<'_>,
    ) -> Poll<(Outcome, bool)> {
        for _ in 0..MAX_EVENTS_PER_POLL {
            if let Err(error) = self.poll_asks(cx) {
                let error = error.from_client(FailureOrigin::Usage);
                return Poll::Ready((error.into(), self.input_requested));
            }
            match std::task::ready!(self.active_call.poll_event(cx)) {
                Event::Notify(notification) => events.notify(notification),
                Event::ClientRequest(id, ask) => self.ask(events, id, ask),
                Event::Withdraw(id) => self.asks.retain(|(open, _)| *open != id),
                Event::ConnectionMayClose => {}
                Event::Done(outcome) => return Poll::Ready((outcome, self.input_requested)),
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Returns the end of the idle timeout; none if the outcome was there at once.
    pub(crate) fn idle_end(&mut self) -> Option<Instant> {
        self.active_call.idle_end()
    }

    /// Delivers finished answers; fails if an answer is invalid.
    fn poll_asks(&mut self, cx: &mut Context<'_>) -> Result<(), Error> {
        let answers = self.active_call.response_sender();
        let mut wrong = None;
        self.asks.retain_mut(|(id, answering)| {
            let Poll::Ready(answer) = answering.as_mut().poll(cx) else { return true };
            match answer {
                Ok(json) => answers.deliver(*id, Ok(json)),
                Err(AnswerError::Refused(error)) => answers.deliver(*id, Err(error)),
                Err(AnswerError::Invalid(error)) => wrong.replace(error).is_none(),
            };
            false
        });
        wrong.map_or(Ok(()), Err)
    }

    fn ask(&mut self, events: &mut dyn CallEvents, id: ClientRequestId, ask: ClientRequest) {
        self.input_requested = true;
        if self.asks.len() >= dispatch::MAX_OPEN_REQUESTS {
            let message = format!(
                "This client answers at most {} requests at once",
                dispatch::MAX_OPEN_REQUESTS
            );
            let error = Error::new(ErrorKind::Overloaded).with_message(message);
            self.active_call.response_sender().deliver(id, Err(error));
        } else {
            self.asks.push((id, events.ask(ask)));
        }
    }
}

/// Error for a request of the server during a subscription.
pub(crate) fn refuse_here(ask: &ClientRequest) -> Error {
    let message = format!("{} cannot be answered during a subscription", ask.method().name());
    Error::new(ErrorKind::InvalidRequest).with_message(message)
}
