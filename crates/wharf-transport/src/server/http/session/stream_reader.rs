//! HTTP response that reads one stream of a session from memory.

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
    idle_time::SessionGuard,
};

/// Reads a stream of a session: first the replayed events, then new ones.
///
/// The stream goes on when the reader is dropped: a client that disconnects has not cancelled its calls.
pub(crate) struct StreamReader {
    guard: SessionGuard,
    log: Arc<EventLog>,
    ticket: u64,
    /// Bytes that precede the first event.
    opening: Vec<u8>,
    ended: bool,
    /// Registration of this reader in the cluster, if it resumed the stream.
    reader: Option<Arc<RegisteredReader>>,
}

impl StreamReader {
    /// Attaches to a stream where the last reader stopped. None if another reader is attached.
    pub(crate) fn attach(guard: SessionGuard, log: Arc<EventLog>) -> Option<Self> {
        let ticket = log.attach()?;
        Some(StreamReader { guard, log, ticket, opening: Vec::new(), ended: false, reader: None })
    }

    /// Resumes the stream `number` after event `event`. None if there is no such event.
    pub(crate) fn resume(guard: SessionGuard, number: u64, event: u64) -> Option<Self> {
        let log = guard.stream(number)?;
        let ticket = log.resume(event)?;
        Some(StreamReader { guard, log, ticket, opening: Vec::new(), ended: false, reader: None })
    }

    /// Ends the response when a reader in another process displaces this registration.
    pub(crate) fn with_registration(mut self, reader: Arc<RegisteredReader>) -> Self {
        self.reader = Some(reader);
        self
    }

    /// Stores the stream, if several processes serve the session. Must complete before anything is sent.
    pub(crate) fn persist(
        &self,
        batch: bool,
    ) -> impl Future<Output = Result<(), StoreUnavailable>> {
        self.log.persist(&self.guard, batch)
    }

    /// Adds the priming event: an event id without data, with which the client can resume before it has
    /// received a message. Only for clients of revisions that define it.
    pub(crate) fn prime(&mut self) {
        if self.guard.polls {
            let id = id(self.log.number, self.log.position(self.ticket));
            sse::priming(&mut self.opening, &id, Some(self.guard.common.limits.retry));
        }
    }

    /// Returns the keep-alive interval of a silent response.
    pub(crate) fn keep_alive(&self) -> Duration {
        self.guard.common.limits.keep_alive
    }

    /// Polls for the first event of the stream.
    pub(crate) fn poll_first(&self, cx: &mut Context<'_>) -> Poll<FirstEvent> {
        self.log.poll_first(self.ticket, cx)
    }

    /// Takes the reply, if it is the only message. The stream is removed.
    pub(crate) fn into_reply(self) -> Vec<u8> {
        self.guard.remove_stream(self.log.number);
        self.log.take_reply()
    }

    /// Polls for the next chunk of encoded events.
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

/// Returns the event id, which is unique in the session.
pub(crate) fn id(stream: u64, event: u64) -> String {
    format!("{stream}-{event}")
}

/// Parses an event id into the numbers of the stream and of the event.
pub(crate) fn parse(text: &[u8]) -> Option<(u64, u64)> {
    let (stream, event) = std::str::from_utf8(text).ok()?.split_once('-')?;
    let (stream, event) = (stream.parse().ok()?, event.parse().ok()?);
    // Only the form that `id` writes is accepted: no signs and no leading zeros.
    (id(stream, event).as_bytes() == text).then_some((stream, event))
}
