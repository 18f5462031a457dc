//! Response streams of calls and batches without a session: messages as server-sent events, then the reply.

use std::task::{Context, Poll};

use bytes::Bytes;
use wharf_model::Outcome;
use wharf_wire::{Codec, sse};

use crate::server::http::{auth::AuthExpiry, response_body::MAX_CHUNK_BYTES};
use crate::{
    MessageReplies, ServerContext, Shutdown,
    server::{
        call_driver::{CallDriver, CallStep, CallTransport},
        jsonl::in_flight::InFlight,
    },
};

/// Framing of server-sent events. Without a session the client cannot respond to requests.
struct EventFraming;

impl CallTransport for EventFraming {
    fn in_flight(&self) -> Option<&InFlight> {
        None
    }

    fn open(&self, out: &mut Vec<u8>) {
        sse::open(out);
    }

    fn close(&self, out: &mut Vec<u8>) {
        sse::close(out);
    }
}

/// One call, polled in place. Dropping it cancels the call.
pub(crate) struct CallStream {
    driver: CallDriver,
    /// Encoded events that were not sent yet.
    pending: Vec<u8>,
    ended: bool,
}

impl CallStream {
    /// Returns true for a subscription (`subscriptions/listen`), which lasts until the client ends it.
    pub(crate) fn is_subscription(&self) -> bool {
        self.driver.is_subscription()
    }

    pub(crate) fn new(driver: CallDriver) -> Self {
        CallStream { driver, pending: Vec::new(), ended: false }
    }

    pub(crate) fn codec(&self) -> &Codec {
        self.driver.codec()
    }

    /// Ends the call early when the server stops or the caller's credentials expire. For calls that are pending after
    /// the first poll.
    pub(crate) fn end_early(
        &mut self,
        shutdown: &Shutdown,
        context: &ServerContext,
        until: Option<AuthExpiry>,
    ) {
        let until = until.map(|AuthExpiry(until)| until);
        self.driver.end_early(shutdown, context.http_limits.grace, until);
    }

    /// Polls for the end of the call. None if it sends a message first.
    pub(crate) fn poll_until_output(&mut self, cx: &mut Context<'_>) -> Poll<Option<Outcome>> {
        loop {
            match self.driver.poll_step(cx, &EventFraming, &mut self.pending) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(CallStep::Ended(outcome)) => {
                    self.ended = true;
                    return Poll::Ready(Some(outcome));
                }
                Poll::Ready(CallStep::Message | CallStep::Change) => return Poll::Ready(None),
                Poll::Ready(_) => {}
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
            match self.poll_until_output(cx) {
                Poll::Ready(Some(outcome)) => {
                    let mut reply = Vec::new();
                    self.codec().encode(&outcome, &mut reply);
                    self.end_with(&reply);
                }
                Poll::Ready(None) => {}
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

/// Calls of a batch without a session. Dropping it cancels them.
pub(crate) struct BatchStream {
    pub(crate) replies: MessageReplies,
    pub(crate) pending: Vec<u8>,
}

impl BatchStream {
    pub(crate) fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        while self.pending.len() < MAX_CHUNK_BYTES {
            match self.replies.poll_message(cx) {
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
