//! A response that follows one stream of a session.

use std::{
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use wharf_wire::sse;

use crate::server::http::cluster::Away;
use crate::server::http::session::{
    cluster::record::Reader,
    event_log::{First, Log, Read},
    session::Visit,
};

/// Follows a stream of a session: what is kept of it, then what comes.
///
/// When it is dropped the stream goes on: a client that is gone has cancelled nothing.
pub(crate) struct Follower {
    visit: Visit,
    log: Arc<Log>,
    ticket: u64,
    /// What the response begins with.
    opening: Vec<u8>,
    ended: bool,
    /// Who this is to other processes, once it has come back.
    reader: Option<Arc<Reader>>,
}

impl Follower {
    /// Follows a stream from where the last follower stopped. None if that one still follows it.
    pub(crate) fn of(visit: Visit, log: Arc<Log>) -> Option<Self> {
        let ticket = log.attach()?;
        Some(Follower { visit, log, ticket, opening: Vec::new(), ended: false, reader: None })
    }

    /// Follows the stream of this number, from the event of that number on.
    pub(crate) fn after(visit: Visit, number: u64, event: u64) -> Option<Self> {
        let log = visit.stream(number)?;
        let ticket = log.resume(event)?;
        Some(Follower { visit, log, ticket, opening: Vec::new(), ended: false, reader: None })
    }

    /// The same, for as long as other processes know it by that.
    pub(crate) fn known_as(mut self, reader: Arc<Reader>) -> Self {
        self.reader = Some(reader);
        self
    }

    /// Keeps the stream where other processes find it, if they serve the session too. Nothing of
    /// it may be sent before. If that fails, its calls are given up.
    pub(crate) async fn keep(&self, batch: bool) -> Result<(), Away> {
        let Some(journal) = self.log.journal() else { return Ok(()) };
        let kept = journal.begin(&self.log, batch).await;
        if kept.is_err() {
            journal.give_up(&self.visit);
        }
        kept
    }

    /// Tells the client where the response begins, so that it can come back even if it hears
    /// nothing else; only clients that know what to make of that are told.
    pub(crate) fn prime(&mut self) {
        if self.visit.polls {
            let id = id(self.log.number, self.log.position(self.ticket));
            sse::priming(&mut self.opening, &id, Some(self.visit.common.limits.retry));
        }
    }

    /// After how long a silent response shows that it is alive.
    pub(crate) fn keep_alive(&self) -> Duration {
        self.visit.common.limits.keep_alive
    }

    /// What the stream begins with.
    pub(crate) fn poll_first(&self, cx: &mut Context<'_>) -> Poll<First> {
        self.log.poll_first(self.ticket, cx)
    }

    /// The reply, if it is all there is to say: the stream is of no use any more then.
    pub(crate) fn into_reply(self) -> Vec<u8> {
        self.visit.forget_stream(self.log.number);
        self.log.take_reply()
    }

    /// All that is there to be sent, in one piece.
    pub(crate) fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if self.ended || self.reader.as_ref().is_some_and(|reader| reader.is_taken()) {
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
            Poll::Pending | Poll::Ready(Read::Events) => {}
            Poll::Ready(Read::LetGo) => {
                sse::retry(&mut chunk, self.visit.common.limits.retry);
                self.ended = true;
            }
            Poll::Ready(Read::End) => self.ended = true,
        }
        Poll::Ready((!chunk.is_empty()).then(|| chunk.into()))
    }
}

impl Drop for Follower {
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
