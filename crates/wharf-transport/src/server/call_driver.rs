//! Driver of one call: turns its events into messages to the client, and ends it early where it must not go on.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    task::AbortHandle,
    time::{Instant, Sleep, sleep, sleep_until},
};
use wharf_model::{
    ActiveCall, ClientRequest, ClientRequestId, Error, ErrorKind, Event, Notification, Outcome,
    Reply, Request,
};
use wharf_wire::Codec;

use crate::{
    ServerContext, Shutdown,
    server::{
        context::PendingNotification,
        jsonl::{
            in_flight::{InFlight, shutting_down},
            write_queue::reserve_for,
        },
    },
    shutdown_signal::Stopped,
};

/// Properties of a transport that the driver of a call needs: its framing and its open client requests.
pub(crate) trait CallTransport {
    /// Returns the calls in flight and their client requests. None if the client cannot respond to requests.
    fn in_flight(&self) -> Option<&InFlight>;

    /// Writes the bytes before a message.
    fn open(&self, _out: &mut Vec<u8>) {}

    /// Writes the bytes after a message.
    fn close(&self, _out: &mut Vec<u8>) {}
}

/// One message at a time without framing, to a client that cannot respond to requests.
pub(crate) struct MessagesOnly;

impl CallTransport for MessagesOnly {
    fn in_flight(&self) -> Option<&InFlight> {
        None
    }
}

/// Result of one step of a call.
pub(crate) enum CallStep {
    /// A message was written.
    Message,
    /// A change notification was written. It carries nothing new while an equal one is unread.
    Change,
    /// There was nothing to write.
    Nothing,
    /// The call takes long: the connection may close if the client can resume.
    ConnectionMayClose,
    /// The call has ended, and the client waits for its reply.
    Ended(Outcome),
    /// The call has ended, but the client has cancelled it.
    Cancelled,
}

/// Waits for the reasons for which a pending call ends early.
struct EarlyEnd {
    shutdown: ShutdownWait,
    is_subscription: bool,
    /// Time for the call after the shutdown; zero for a subscription.
    grace: Duration,
    /// Ends when the caller's credentials expire. Boxed, because only calls without a time limit have it.
    expiry: Option<Pin<Box<Sleep>>>,
}

enum ShutdownWait {
    Running(Stopped),
    /// The server stops, and the call has this time left.
    Grace(Shutdown, Pin<Box<Sleep>>),
}

impl EarlyEnd {
    /// Polls for the end of the call. The outcome is that of a call that is no subscription.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Error> {
        if let ShutdownWait::Running(stopped) = &mut self.shutdown
            && Pin::new(&mut *stopped).poll(cx).is_ready()
        {
            let shutdown = stopped.shutdown().clone();
            self.shutdown = ShutdownWait::Grace(shutdown, Box::pin(sleep(self.grace)));
        }
        if let ShutdownWait::Grace(shutdown, left) = &mut self.shutdown
            && (self.grace.is_zero() || left.as_mut().poll(cx).is_ready())
        {
            if !self.is_subscription {
                shutdown.count_cut_calls(1);
            }
            return Poll::Ready(shutting_down());
        }
        match &mut self.expiry {
            Some(expiry) => expiry.as_mut().poll(cx).map(|()| expired()),
            None => Poll::Pending,
        }
    }
}

/// A call and its codec. Dropping it cancels the call; the transport withdraws its client requests first.
pub(crate) struct CallDriver {
    active_call: ActiveCall,
    codec: Codec,
    /// True if the client accepts only the reply.
    quiet: bool,
    /// Open client requests with their JSON-RPC numbers.
    client_requests: Vec<(ClientRequestId, u64)>,
    /// Number among the calls in flight, until the call has ended.
    number: Option<u64>,
    early_end: Option<EarlyEnd>,
}

impl CallDriver {
    /// Starts a call. Without `quiet`, the client gets its messages beside the reply.
    pub(crate) fn start(
        context: &ServerContext,
        request: Request,
        codec: Codec,
        quiet: bool,
    ) -> Self {
        let active_call =
            ActiveCall::start(&*context.service, request, context.timer.clone(), context.deadlines);
        CallDriver {
            active_call,
            codec,
            quiet,
            client_requests: Vec::new(),
            number: None,
            early_end: None,
        }
    }

    pub(crate) fn codec(&self) -> &Codec {
        &self.codec
    }

    /// Returns true for a subscription: that of a client (`subscriptions/listen`), or the one that a legacy session has
    /// for its own stream, which has no reply.
    pub(crate) fn is_subscription(&self) -> bool {
        self.codec.is_listen() || self.codec.is_silent()
    }

    /// Sets the number of the call among those in flight. From then on the client can cancel it.
    pub(crate) fn set_number(&mut self, number: u64) {
        self.number = Some(number);
    }

    /// Ends the call early: a subscription when `shutdown` stops, any other call with an error once `grace` is over as
    /// well. A call that waits without a time limit also ends when the caller's credentials expire (`until`).
    ///
    /// Called once a call is pending, so that calls that end at once do not pay for it.
    pub(crate) fn end_early(
        &mut self,
        shutdown: &Shutdown,
        grace: Duration,
        until: Option<Instant>,
    ) {
        if self.early_end.is_some() {
            return;
        }
        // The subscription of a session ends with the responses that read its stream.
        let until = until.filter(|_| self.codec.waits() && !self.codec.is_silent());
        self.early_end = Some(EarlyEnd {
            shutdown: ShutdownWait::Running(shutdown.wait()),
            is_subscription: self.is_subscription(),
            grace: if self.is_subscription() { Duration::ZERO } else { grace },
            expiry: until.map(|until| Box::pin(sleep_until(until))),
        });
    }

    /// Polls the call for its next event, and writes the message that it has for the client.
    #[inline]
    pub(crate) fn poll_step(
        &mut self,
        cx: &mut Context<'_>,
        transport: &impl CallTransport,
        out: &mut Vec<u8>,
    ) -> Poll<CallStep> {
        Poll::Ready(match self.active_call.poll_event(cx) {
            Poll::Ready(Event::Done(outcome)) => self.end(outcome, transport),
            Poll::Ready(event) => self.write(event, transport, out),
            Poll::Pending => match &mut self.early_end {
                Some(early_end) => {
                    let error = std::task::ready!(early_end.poll(cx));
                    let outcome = match self.is_subscription() {
                        true => Reply::Listened.into(),
                        false => error.into(),
                    };
                    self.active_call.end_early(&outcome);
                    self.end(outcome, transport)
                }
                None => return Poll::Pending,
            },
        })
    }

    /// Polls a call whose client accepts only the reply, and has no way to cancel it.
    #[cfg(feature = "http")]
    pub(crate) fn poll_outcome(&mut self, cx: &mut Context<'_>) -> Poll<Outcome> {
        loop {
            let step = std::task::ready!(self.poll_step(cx, &MessagesOnly, &mut Vec::new()));
            if let CallStep::Ended(outcome) = step {
                return Poll::Ready(outcome);
            }
        }
    }

    /// Ends the call, unless the client has cancelled it. Its id is free before the reply is written.
    #[inline]
    fn end(&mut self, outcome: Outcome, transport: &impl CallTransport) -> CallStep {
        // A call that ends in place has no number, and its session allocates no table.
        let Some(number) = self.number.take() else { return CallStep::Ended(outcome) };
        match transport.in_flight().is_none_or(|in_flight| in_flight.finish(number)) {
            true => CallStep::Ended(outcome),
            false => CallStep::Cancelled,
        }
    }

    fn write(
        &mut self,
        event: Event,
        transport: &impl CallTransport,
        out: &mut Vec<u8>,
    ) -> CallStep {
        match event {
            Event::ClientRequest(id, ask) => self.ask(id, &ask, transport, out),
            _ if self.quiet => CallStep::Nothing,
            Event::Notify(notification) => self.notify(&notification, transport, out),
            Event::Withdraw(id) => {
                let index = self.client_requests.iter().position(|(asked, _)| *asked == id);
                let number = index.map(|index| self.client_requests.swap_remove(index).1);
                match number.is_some_and(|number| self.withdraw(number, transport, out)) {
                    true => CallStep::Message,
                    false => CallStep::Nothing,
                }
            }
            Event::ConnectionMayClose => CallStep::ConnectionMayClose,
            Event::Done(outcome) => CallStep::Ended(outcome),
        }
    }

    /// Writes a notification, if the client's revision has it.
    pub(crate) fn notify(
        &self,
        notification: &Notification,
        transport: &impl CallTransport,
        out: &mut Vec<u8>,
    ) -> CallStep {
        reserve_for(out, notification);
        let is_written = write_message(transport, out, |out| self.codec.notify(notification, out));
        match (is_written, is_change(notification)) {
            (false, _) => CallStep::Nothing,
            (true, true) => CallStep::Change,
            (true, false) => CallStep::Message,
        }
    }

    /// Writes a client request. If it cannot be sent, the call receives the error.
    fn ask(
        &mut self,
        id: ClientRequestId,
        ask: &ClientRequest,
        transport: &impl CallTransport,
        out: &mut Vec<u8>,
    ) -> CallStep {
        let in_flight = if self.quiet { None } else { transport.in_flight() };
        let Some(in_flight) = in_flight else {
            self.active_call.refuse(id, ask);
            return CallStep::Nothing;
        };
        let responses = self.active_call.response_sender();
        let Some(number) = in_flight.open_request(responses.clone(), id) else {
            responses.deliver(id, Err(Error::new(ErrorKind::ConnectionClosed)));
            return CallStep::Nothing;
        };
        if !write_message(transport, out, |out| self.codec.ask(number, ask, out)) {
            in_flight.answer(number, Err(Error::missing_capability(ask.needs())));
            return CallStep::Nothing;
        }
        self.client_requests.push((id, number));
        self.active_call.client_request_sent(id, ask);
        CallStep::Message
    }

    /// Closes a client request and writes its cancellation. False if its response has arrived.
    fn withdraw(&self, number: u64, transport: &impl CallTransport, out: &mut Vec<u8>) -> bool {
        let is_open = transport.in_flight().is_some_and(|it| it.close_request(number));
        is_open
            && write_message(transport, out, |out| {
                self.codec.withdraw(number, out);
                true
            })
    }

    /// Returns true if client requests are open.
    pub(crate) fn has_client_requests(&self) -> bool {
        !self.client_requests.is_empty()
    }

    /// Withdraws one open client request, if there is one: each must be withdrawn before the reply, and before a call is
    /// dropped. False if there are none.
    pub(crate) fn withdraw_next(
        &mut self,
        transport: &impl CallTransport,
        out: &mut Vec<u8>,
    ) -> bool {
        while !self.client_requests.is_empty() {
            let (_, number) = self.client_requests.remove(0);
            if self.withdraw(number, transport, out) {
                return true;
            }
        }
        false
    }

    /// Returns the outcome for the client of a call that is dropped, if there is one: only a shutdown replies to the
    /// calls that it cuts off.
    pub(crate) fn outcome_of_drop(&mut self, in_flight: &InFlight) -> Option<Outcome> {
        let number = self.number.take()?;
        let replies = in_flight.replies_on_abort() && in_flight.finish(number);
        replies.then(|| shutting_down().into())
    }
}

impl fmt::Debug for CallDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallDriver").field("active_call", &self.active_call).finish_non_exhaustive()
    }
}

/// Runs the rest of a notification's handler, whose message holds `held` bytes, among the calls in flight: it ends with
/// them when the client disconnects.
pub(crate) fn spawn_notification<T: CallTransport + Send + Sync + 'static>(
    transport: &Arc<T>,
    held: usize,
    pending: PendingNotification,
    spawn: impl FnOnce(PendingNotification) -> AbortHandle,
) {
    struct Entry<T: CallTransport>(Arc<T>, u64);
    impl<T: CallTransport> Drop for Entry<T> {
        fn drop(&mut self) {
            if let Some(in_flight) = self.0.in_flight() {
                in_flight.remove(self.1);
            }
        }
    }
    let Some(in_flight) = transport.in_flight() else { return };
    in_flight.insert(None, false, held, |number| {
        let entry = Entry(transport.clone(), number);
        spawn(Box::pin(async move {
            let _entry = entry;
            pending.await;
        }))
    });
}

/// Writes a framed message. False, and nothing is written, if `write` returns false.
fn write_message(
    transport: &impl CallTransport,
    out: &mut Vec<u8>,
    write: impl FnOnce(&mut Vec<u8>) -> bool,
) -> bool {
    let before = out.len();
    transport.open(out);
    let is_written = write(out);
    match is_written {
        true => transport.close(out),
        false => out.truncate(before),
    }
    is_written
}

/// Returns true for a notification that carries nothing new if it is repeated.
fn is_change(notification: &Notification) -> bool {
    use Notification::{PromptsChanged, ResourceUpdated, ResourcesChanged, ToolsChanged};
    matches!(
        notification,
        ToolsChanged | PromptsChanged | ResourcesChanged | ResourceUpdated { .. }
    )
}

/// Error: the caller's credentials expired while the call was waiting.
pub(crate) fn expired() -> Error {
    Error::new(ErrorKind::Unauthenticated).with_message("The credentials have expired")
}
