//! Body of a response, with keep-alives of event streams.

use std::{
    convert::Infallible,
    fmt, mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep, sleep_until};
use wharf_model::{ObservedEvent, ObservedTransport, Observers, RefusalReason};
use wharf_wire::sse;

use crate::server::http::{
    connection::{http1::ResponseGuard, http2},
    legacy_sse::LegacySseStream,
    session::{StoredStreamReader, StreamReader},
    stateless_stream::{BatchStream, CallStream},
};
use crate::server::limits::message_memory::MessageCharge;

/// Largest chunk of a body, in bytes.
pub(crate) const MAX_CHUNK_BYTES: usize = 32 << 10;

/// Body of a response: empty, one message, or a stream of events.
///
/// A stream is polled in place: a client that does not read holds its call back (back-pressure), and one that
/// disconnects drops it.
#[derive(Debug, Default)]
pub struct HttpBody {
    inner: BodyContent,
    /// Marks the connection as responding until the body is dropped.
    response_guard: Option<ResponseGuard>,
    /// Memory of a large request body.
    share: Option<Arc<MessageCharge>>,
    /// Why the request was refused, if it was no call.
    pub(crate) refusal: Option<RefusalReason>,
}

#[derive(Default)]
enum BodyContent {
    #[default]
    Empty,
    Whole(Bytes),
    EventBody(Box<EventBody>),
}

struct EventBody {
    source: EventSource,
    keep_alive: Duration,
    keep_alive_timer: Option<Pin<Box<Sleep>>>,
    /// Expiry of the client's credentials.
    expiry: Option<Pin<Box<Sleep>>>,
    observed: Option<ObservedStream>,
}

/// Open stream that observers know of, until it is dropped.
struct ObservedStream {
    observers: Observers,
    /// True if the bytes are counted here. Those of HTTP+SSE are counted by its JSON lines connection.
    counts_bytes: bool,
}

impl ObservedStream {
    fn open(observers: &Observers, source: &EventSource) -> Self {
        let counts_bytes = observers.count_bytes() && !matches!(source, EventSource::LegacySse(_));
        observers.emit(|| ObservedEvent::StreamOpened { transport: ObservedTransport::Http });
        ObservedStream { observers: observers.clone(), counts_bytes }
    }

    fn sent(&self, bytes: usize) {
        if self.counts_bytes {
            count_sent(&self.observers, bytes);
        }
    }
}

impl Drop for ObservedStream {
    fn drop(&mut self) {
        self.observers.emit(|| ObservedEvent::StreamClosed { transport: ObservedTransport::Http });
    }
}

fn count_sent(observers: &Observers, bytes: usize) {
    observers.emit(|| ObservedEvent::Sent { transport: ObservedTransport::Http, bytes });
}

/// Source of the events.
#[expect(clippy::large_enum_variant, reason = "each is boxed once, with its alarm")]
pub(crate) enum EventSource {
    /// A call that ends with its response.
    Call(CallStream),
    /// The calls of a batch.
    Batch(BatchStream),
    /// A stream of a legacy session.
    Session(StreamReader),
    /// A stream of a legacy session, read from a shared store.
    Stored(StoredStreamReader),
    /// All messages to a client of HTTP+SSE.
    LegacySse(LegacySseStream),
}

impl EventSource {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        match self {
            EventSource::Call(it) => it.poll_chunk(cx),
            EventSource::Batch(it) => it.poll_chunk(cx),
            EventSource::Session(it) => it.poll_chunk(cx),
            EventSource::Stored(it) => it.poll_chunk(cx),
            EventSource::LegacySse(it) => it.poll_chunk(cx),
        }
    }
}

impl HttpBody {
    pub(crate) fn empty() -> Self {
        HttpBody::default()
    }

    pub(crate) fn whole(message: impl Into<Bytes>) -> Self {
        BodyContent::Whole(message.into()).into()
    }

    /// Creates a stream that sends a keep-alive after this much silence.
    pub(crate) fn events(source: EventSource, keep_alive: Duration) -> Self {
        BodyContent::EventBody(Box::new(EventBody {
            source,
            keep_alive,
            keep_alive_timer: None,
            expiry: None,
            observed: None,
        }))
        .into()
    }

    /// Reports the body to observers: its bytes, and a stream until its end.
    pub(crate) fn observe(&mut self, observers: &Observers) {
        match &mut self.inner {
            BodyContent::Empty => {}
            BodyContent::Whole(message) if observers.count_bytes() => {
                count_sent(observers, message.len());
            }
            BodyContent::Whole(_) => {}
            BodyContent::EventBody(events) => {
                events.observed = Some(ObservedStream::open(observers, &events.source));
            }
        }
    }

    /// Returns the message, if the body is one and was not sent yet.
    pub(crate) fn message(&self) -> &[u8] {
        match &self.inner {
            BodyContent::Whole(message) => message,
            _ => &[],
        }
    }

    /// Ends a stream at this time.
    pub(crate) fn end_at(&mut self, expiry: Instant) {
        if let BodyContent::EventBody(events) = &mut self.inner {
            events.expiry = Some(Box::pin(sleep_until(expiry)));
        }
    }

    /// Counts the memory of the request body until the reply is written, because the reply may be as large.
    pub(crate) fn charge(&mut self, share: Arc<MessageCharge>) {
        match &mut self.inner {
            BodyContent::Empty => {}
            BodyContent::Whole(message) => *message = share.charge(mem::take(message)),
            BodyContent::EventBody(events) => match &events.source {
                // The message of a subscription is dropped when the subscription starts.
                EventSource::Call(call) if call.is_subscription() => {}
                EventSource::Call(_) | EventSource::Batch(_) => self.share = Some(share),
                // The call counts its message itself, and may outlive the response.
                EventSource::Session(_) | EventSource::Stored(_) | EventSource::LegacySse(_) => {}
            },
        }
    }

    /// Marks the connection as responding until the body is dropped.
    pub(crate) fn hold(&mut self, response_guard: ResponseGuard) {
        self.response_guard = Some(response_guard);
    }
}

impl From<BodyContent> for HttpBody {
    fn from(inner: BodyContent) -> Self {
        HttpBody { inner, response_guard: None, share: None, refusal: None }
    }
}

impl EventBody {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if self.expiry.as_mut().is_some_and(|expiry| expiry.as_mut().poll(cx).is_ready()) {
            return Poll::Ready(None);
        }
        let polled = self.source.poll_chunk(cx);
        if let (Poll::Ready(Some(chunk)), Some(observed)) = (&polled, &self.observed) {
            observed.sent(chunk.len());
        }
        if polled.is_ready() {
            if let Some(keep_alive_timer) = &mut self.keep_alive_timer {
                keep_alive_timer.set(sleep(self.keep_alive));
            }
            return polled;
        }
        let keep_alive_timer =
            self.keep_alive_timer.get_or_insert_with(|| Box::pin(sleep(self.keep_alive)));
        if keep_alive_timer.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        keep_alive_timer.set(sleep(self.keep_alive));
        // Registers the waker with the timer.
        let _ = keep_alive_timer.as_mut().poll(cx);
        Poll::Ready(Some(Bytes::from_static(sse::KEEP_ALIVE)))
    }
}

impl BodyContent {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let chunk = match self {
            BodyContent::Empty => None,
            // In parts, so that a client of HTTP/2 that does not read does not get all of it.
            BodyContent::Whole(message) if message.len() > MAX_CHUNK_BYTES && http2::is_http2() => {
                return Poll::Ready(Some(message.split_to(MAX_CHUNK_BYTES)));
            }
            BodyContent::Whole(message) => Some(mem::take(message)),
            BodyContent::EventBody(events) => match events.poll_chunk(cx) {
                Poll::Ready(None) => None,
                polled => return polled,
            },
        };
        *self = BodyContent::Empty;
        Poll::Ready(chunk)
    }
}

impl Body for HttpBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let polled = self.inner.poll_chunk(cx);
        http2::record_poll(matches!(polled, Poll::Ready(Some(_))));
        polled.map(|chunk| chunk.map(|chunk| Ok(Frame::data(chunk))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.inner, BodyContent::Empty)
    }

    fn size_hint(&self) -> SizeHint {
        match &self.inner {
            BodyContent::Empty => SizeHint::with_exact(0),
            BodyContent::Whole(message) => SizeHint::with_exact(message.len() as u64),
            BodyContent::EventBody(_) => SizeHint::default(),
        }
    }
}

impl fmt::Debug for BodyContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BodyContent::Empty => "nothing",
            BodyContent::Whole(_) => "a message",
            BodyContent::EventBody(_) => "events",
        })
    }
}
