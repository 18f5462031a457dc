//! A response that follows one stream of a session.

use std::{
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use wharf_wire::sse;

use crate::server::http::cluster::StoreUnavailable;
use crate::server::http::session::{
    cluster::record::RegisteredReader,
    event_log::{EventLog, FirstEvent, ReadResult},
    session::SessionGuard,
};

/// Follows a stream of a session: what is kept of it, then what comes.
///
/// When it is dropped the stream goes on: a client that is gone has cancelled nothing.
pub(crate) struct StreamReader {
    guard: SessionGuard,
    log: Arc<EventLog>,
    ticket: u64,
    /// What the response begins with.
    opening: Vec<u8>,
    ended: bool,
    /// Who this is to other processes, once it has come back.
    reader: Option<Arc<RegisteredReader>>,
}

impl StreamReader {
    /// Follows a stream from where the last follower stopped. None if that one still follows it.
    pub(crate) fn attach(guard: SessionGuard, log: Arc<EventLog>) -> Option<Self> {
        let ticket = log.attach()?;
        Some(StreamReader { guard, log, ticket, opening: Vec::new(), ended: false, reader: None })
    }

    /// Follows the stream of this number, from the event of that number on.
    pub(crate) fn resume(guard: SessionGuard, number: u64, event: u64) -> Option<Self> {
        let log = guard.stream(number)?;
        let ticket = log.resume(event)?;
        Some(StreamReader { guard, log, ticket, opening: Vec::new(), ended: false, reader: None })
    }

    /// The same, for as long as other processes know it by that.
    pub(crate) fn with_registration(mut self, reader: Arc<RegisteredReader>) -> Self {
        self.reader = Some(reader);
        self
    }

    /// Keeps the stream where other processes find it, if they serve the session too. Nothing of
    /// it may be sent before. If that fails, its calls are given up.
    pub(crate) async fn persist(&self, batch: bool) -> Result<(), StoreUnavailable> {
        let Some(writer) = self.log.writer() else { return Ok(()) };
        let kept = writer.open(&self.log, batch).await;
        if kept.is_err() {
            writer.cancel_calls(&self.guard);
        }
        kept
    }

    /// Tells the client where the response begins, so that it can come back even if it hears
    /// nothing else; only clients that know what to make of that are told.
    pub(crate) fn prime(&mut self) {
        if self.guard.polls {
            let id = id(self.log.number, self.log.position(self.ticket));
            sse::priming(&mut self.opening, &id, Some(self.guard.common.limits.retry));
        }
    }

    /// After how long a silent response shows that it is alive.
    pub(crate) fn keep_alive(&self) -> Duration {
        self.guard.common.limits.keep_alive
    }

    /// What the stream begins with.
    pub(crate) fn poll_first(&self, cx: &mut Context<'_>) -> Poll<FirstEvent> {
        self.log.poll_first(self.ticket, cx)
    }

    /// The reply, if it is all there is to say: the stream is of no use any more then.
    pub(crate) fn into_reply(self) -> Vec<u8> {
        self.guard.remove_stream(self.log.number);
        self.log.take_reply()
    }

    /// All that is there to be sent, in one piece.
    pub(crate) fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if self.ended || self.reader.as_ref().is_some_and(|reader| reader.is_displaced()) {
            return Poll::Ready(None);
        }
        let mut chunk = std::mem::take(&mut self.opening);
        let mut id = format!("{}-", self.log.number);
        let stem = id.len();
        let polled = self.log.poll_read(self.ticket, cx, |event, message| {
            id.truncate(stem);
            id.push_str(itoa::Buffer::new().format(event));
            sse::event(&mut chunk, Some(&id), message);
        });
        match polled {
            Poll::Pending if chunk.is_empty() => return Poll::Pending,
            Poll::Pending | Poll::Ready(ReadResult::Events) => {}
            Poll::Ready(ReadResult::Released) => {
                sse::retry(&mut chunk, self.guard.common.limits.retry);
                self.ended = true;
            }
            Poll::Ready(ReadResult::End) => self.ended = true,
        }
        Poll::Ready((!chunk.is_empty()).then(|| chunk.into()))
    }
}

impl Drop for StreamReader {
    fn drop(&mut self) {
        self.log.detach(self.ticket);
    }
}

/// The id of an event: no other event of the session has it.
pub(crate) fn id(stream: u64, event: u64) -> String {
    format!("{stream}-{event}")
}

/// The stream and the number of the event that this is the id of.
pub(crate) fn parse(text: &[u8]) -> Option<(u64, u64)> {
    let (stream, event) = std::str::from_utf8(text).ok()?.split_once('-')?;
    let (stream, event) = (stream.parse().ok()?, event.parse().ok()?);
    // Only what we wrote ourselves is an id: no signs, no zeros before it.
    (id(stream, event).as_bytes() == text).then_some((stream, event))
}
