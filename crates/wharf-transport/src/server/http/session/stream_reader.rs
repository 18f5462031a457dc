//! HTTP response that reads one stream of a session from memory.

use std::{
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use wharf_model::RefusalReason;
use wharf_wire::sse;

use crate::server::http::session::{
    cluster::record::RegisteredReader,
    event_log::{EventLog, FirstEvent, ReadResult, ReplyStatus},
    idle_time::SessionGuard,
    refusals::not_found,
};
use crate::server::http::{
    HttpBody,
    cluster::{STORE_UNAVAILABLE, StoreUnavailable},
    response,
    response::HttpResponse,
    response_body::EventSource,
    response_form::ResponseForm,
};

/// Reads a stream of a session: first the replayed events, then new ones. `event_log::read` has its functions that
/// read the log.
///
/// The stream goes on when the reader is dropped: a client that disconnects has not cancelled its calls.
pub(crate) struct StreamReader {
    guard: SessionGuard,
    pub(super) log: Arc<EventLog>,
    /// Identifies the reader to the log. Becomes invalid when another reader attaches.
    pub(super) ticket: u64,
    /// Bytes that precede the first event.
    opening: Vec<u8>,
    ended: bool,
    /// Registration of this reader in the cluster, if it resumed the stream.
    reader: Option<Arc<RegisteredReader>>,
}

impl StreamReader {
    pub(super) fn new(guard: SessionGuard, log: Arc<EventLog>, ticket: u64) -> Self {
        StreamReader { guard, log, ticket, opening: Vec::new(), ended: false, reader: None }
    }

    /// Ends the response when a reader in another process displaces this registration.
    pub(crate) fn with_registration(mut self, reader: Arc<RegisteredReader>) -> Self {
        self.reader = Some(reader);
        self
    }

    /// Returns the response of a call or batch: JSON if the reply is the only message, else a stream of events.
    pub(crate) async fn into_response(self, form: ResponseForm, batch: bool) -> HttpResponse {
        let first = form.first_message(self.keep_alive(), poll_fn(|cx| self.poll_first(cx)));
        // After the keep-alive interval the response begins as a stream, before the client gives up.
        match first.await.unwrap_or(FirstEvent::Message) {
            FirstEvent::Reply(it) if form.is_json_for(it.status) => self.into_reply(it),
            FirstEvent::Reply(_) | FirstEvent::Message => {
                let stored = match self.log.writer() {
                    // Nothing may be sent before the stream is in the store.
                    Some(writer) => writer.start(&self.log, batch).await,
                    None => Ok(()),
                };
                match stored {
                    Ok(()) => self.into_events_from_start(),
                    Err(StoreUnavailable) => {
                        response::busy(RefusalReason::StoreUnavailable, STORE_UNAVAILABLE)
                    }
                }
            }
            FirstEvent::Nothing if self.guard.is_ended() => not_found(),
            FirstEvent::Nothing if form.is_reply_only() => response::status(202),
            FirstEvent::Nothing => response::events(HttpBody::empty()),
        }
    }

    /// Returns the reply, which is the only message, as JSON. The stream is removed.
    fn into_reply(self, reply_status: ReplyStatus) -> HttpResponse {
        self.guard.remove_stream(self.log.number);
        let reply = self.take_reply();
        // The session ended just now and discarded the reply.
        if reply.is_empty() {
            return not_found();
        }
        let mut reply = response::json(reply_status.status, reply);
        if let Some(error) = reply_status.refused {
            response::explain(&mut reply, &error);
        }
        reply
    }

    /// Returns a response that reads the stream from its start. It begins with a priming event, an event id without
    /// data, with which the client can resume before it has received a message; only for clients of revisions that
    /// define it.
    pub(crate) fn into_events_from_start(mut self) -> HttpResponse {
        if self.guard.polls {
            let id = id(self.log.number, self.position());
            sse::priming(&mut self.opening, &id, Some(self.guard.common.limits.retry));
        }
        self.into_events()
    }

    /// Returns a response that reads the stream.
    pub(crate) fn into_events(self) -> HttpResponse {
        let every = self.keep_alive();
        response::events(HttpBody::events(EventSource::Session(self), every))
    }

    /// Returns the keep-alive interval of a silent response.
    fn keep_alive(&self) -> Duration {
        self.guard.common.limits.keep_alive
    }

    /// Polls for the next chunk of encoded events.
    pub(crate) fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if self.ended || self.reader.as_ref().is_some_and(|reader| reader.is_displaced()) {
            return Poll::Ready(None);
        }
        let mut chunk = std::mem::take(&mut self.opening);
        let mut id = format!("{}-", self.log.number);
        let stem = id.len();
        let polled = self.poll_read(cx, |event, message| {
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
