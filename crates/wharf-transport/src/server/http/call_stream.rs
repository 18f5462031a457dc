//! Calls that end with their response: one reply, or a stream of events that ends with the reply.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use tokio::time::{sleep_until, timeout_at};
use wharf_model::{ActiveCall, Event, Outcome, Reply};
use wharf_wire::{Codec, sse};

use crate::server::http::auth::{AuthExpiry, expired};
use crate::{
    MessageReplies, ReplyMessage, Shutdown,
    server::jsonl::{in_flight::shutting_down, write_queue::reserve_for},
};

/// Largest chunk of a stream, in bytes.
pub(crate) const MAX_CHUNK_BYTES: usize = 32 << 10;

/// One call, polled in place. Dropping it cancels the call.
pub(crate) struct CallStream {
    active_call: ActiveCall,
    codec: Codec,
    /// Encoded events that were not sent yet.
    pending: Vec<u8>,
    ended: bool,
    close_future: Option<CloseFuture>,
    /// True if `close_future` includes the end of the grace period.
    has_grace_limit: bool,
}

/// Completes with the outcome of a call that must end early: a subscription on shutdown, a waiting call when
/// its caller's credentials expire, and any call after the grace period.
type CloseFuture = Pin<Box<dyn Future<Output = Outcome> + Send + Sync>>;

fn close_future(
    codec: &Codec,
    shutdown: &Shutdown,
    until: Option<AuthExpiry>,
) -> Option<CloseFuture> {
    let until = until.filter(|_| codec.waits());
    match (codec.is_listen().then(|| shutdown.stopped()), until) {
        (Some(stopped), None) => Some(Box::pin(async move {
            stopped.await;
            Reply::Listened.into()
        })),
        (Some(stopped), Some(AuthExpiry(until))) => Some(Box::pin(async move {
            let _ = timeout_at(until, stopped).await;
            Reply::Listened.into()
        })),
        (None, Some(AuthExpiry(until))) => Some(Box::pin(async move {
            sleep_until(until).await;
            expired().into()
        })),
        (None, None) => None,
    }
}

impl CallStream {
    /// Returns true for a subscription (`subscriptions/listen`), which lasts until the client ends it.
    pub(crate) fn is_listen(&self) -> bool {
        self.codec.is_listen()
    }

    /// Creates a stream. A waiting call ends at `until`.
    pub(crate) fn new(
        active_call: ActiveCall,
        codec: Codec,
        shutdown: &Shutdown,
        until: Option<AuthExpiry>,
    ) -> Self {
        let close_future = close_future(&codec, shutdown, until);
        CallStream {
            active_call,
            codec,
            pending: Vec::new(),
            ended: false,
            close_future,
            has_grace_limit: false,
        }
    }

    pub(crate) fn codec(&self) -> &Codec {
        &self.codec
    }

    /// Ends the call with an error once the server stops and `grace` is over. For calls that are pending after
    /// the first poll.
    pub(crate) fn end_after_grace(&mut self, shutdown: &Shutdown, grace: Duration) {
        if self.codec.is_listen() || std::mem::replace(&mut self.has_grace_limit, true) {
            return;
        }
        let after_grace = shutdown.after_grace(grace);
        self.close_future = Some(match self.close_future.take() {
            None => Box::pin(async move {
                after_grace.await;
                shutting_down().into()
            }),
            Some(close_future) => Box::pin(async move {
                tokio::select! {
                    outcome = close_future => outcome,
                    () = after_grace => shutting_down().into(),
                }
            }),
        });
    }

    /// Polls for the end of the call. None if it sends a message first.
    pub(crate) fn poll_until_output(&mut self, cx: &mut Context<'_>) -> Poll<Option<Outcome>> {
        loop {
            match self.poll_event(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Event::Done(outcome)) => {
                    self.ended = true;
                    return Poll::Ready(Some(outcome));
                }
                Poll::Ready(event) => {
                    if self.write(event) {
                        return Poll::Ready(None);
                    }
                }
            }
        }
    }

    /// Polls for the end of the call, and drops its messages.
    pub(crate) fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<Outcome> {
        loop {
            match self.poll_until_output(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(outcome)) => return Poll::Ready(outcome),
                Poll::Ready(None) => self.pending.clear(),
            }
        }
    }

    /// Ends the stream with the reply.
    pub(crate) fn end_with(&mut self, reply: &[u8]) {
        sse::event(&mut self.pending, None, reply);
        self.ended = true;
    }

    /// Polls for the next chunk of encoded events.
    pub(crate) fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        while !self.ended && self.pending.len() < MAX_CHUNK_BYTES {
            match self.poll_event(cx) {
                Poll::Ready(Event::Done(outcome)) => {
                    let mut reply = Vec::new();
                    self.codec.encode(&outcome, &mut reply);
                    self.end_with(&reply);
                }
                Poll::Ready(event) => {
                    self.write(event);
                }
                Poll::Pending if self.pending.is_empty() => return Poll::Pending,
                Poll::Pending => break,
            }
        }
        match self.pending.is_empty() {
            true => Poll::Ready(None),
            false => Poll::Ready(Some(std::mem::take(&mut self.pending).into())),
        }
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Event> {
        let event = self.active_call.poll_event(cx);
        match &mut self.close_future {
            Some(close_future) if event.is_pending() => {
                close_future.as_mut().poll(cx).map(Event::Done)
            }
            _ => event,
        }
    }

    /// Encodes an event other than the end. False if there is nothing to send.
    fn write(&mut self, event: Event) -> bool {
        match event {
            Event::Notify(notification) => {
                reserve_for(&mut self.pending, &notification);
                let before = self.pending.len();
                sse::open(&mut self.pending);
                let told = self.codec.notify(&notification, &mut self.pending);
                match told {
                    true => sse::close(&mut self.pending),
                    false => self.pending.truncate(before),
                }
                told
            }
            Event::ClientRequest(id, ask) => {
                // Without a session the client cannot answer requests.
                self.active_call.refuse(id, &ask);
                false
            }
            _ => false,
        }
    }
}

/// Calls of a batch without a session. Dropping it cancels them.
pub(crate) struct BatchStream {
    pub(crate) replies: MessageReplies,
    pub(crate) pending: Vec<u8>,
    /// Completes when the server stops and the grace period is over.
    pub(crate) after_grace: Pin<Box<dyn Future<Output = ()> + Send + Sync>>,
}

impl BatchStream {
    /// Polls for the next message. Calls that are ended by a shutdown get an error reply.
    pub(crate) fn poll_message(&mut self, cx: &mut Context<'_>) -> Poll<Option<ReplyMessage>> {
        let polled = self.replies.poll_message(cx);
        if polled.is_pending() && self.after_grace.as_mut().poll(cx).is_ready() {
            self.replies.end_all(&shutting_down());
            return self.replies.poll_message(cx);
        }
        polled
    }

    pub(crate) fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        while self.pending.len() < MAX_CHUNK_BYTES {
            match self.poll_message(cx) {
                Poll::Ready(Some(reply)) => sse::event(&mut self.pending, None, &reply.message),
                Poll::Ready(None) => break,
                Poll::Pending if self.pending.is_empty() => return Poll::Pending,
                Poll::Pending => break,
            }
        }
        match self.pending.is_empty() {
            true => Poll::Ready(None),
            false => Poll::Ready(Some(std::mem::take(&mut self.pending).into())),
        }
    }
}
