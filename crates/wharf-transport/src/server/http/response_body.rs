//! What a response carries.

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
use wharf_wire::sse;

use crate::server::http::{
    call_stream::{BatchStream, CallStream, FULL},
    connection::{http1_state::Turn, http2_streams},
    legacy_sse::Feed,
    session::{Follower, Stored},
};
use crate::server::limits::message_memory::Taken;

/// What a response carries: nothing, one message, or a stream of events.
///
/// A stream is polled in place: a client that reads nothing holds its call back, and one that goes
/// away drops it.
#[derive(Debug, Default)]
pub struct HttpBody {
    inner: Inner,
    /// Given back when the response ends.
    turn: Option<Turn>,
    /// What the request's body takes, if it is large.
    share: Option<Arc<Taken>>,
}

#[derive(Default)]
enum Inner {
    #[default]
    Empty,
    Whole(Bytes),
    Events(Box<Events>),
}

struct Events {
    source: Source,
    every: Duration,
    alarm: Option<Pin<Box<Sleep>>>,
    /// When whoever listens may not listen any longer.
    until: Option<Pin<Box<Sleep>>>,
}

/// Where events come from.
#[expect(clippy::large_enum_variant, reason = "each is boxed once, with its alarm")]
pub(crate) enum Source {
    /// A call that ends with its response.
    Call(CallStream),
    /// The calls of a batch.
    Batch(BatchStream),
    /// A stream of a legacy session.
    Session(Follower),
    /// The same, through a store that several processes share.
    Stored(Stored),
    /// All that a client of 2024-11-05 hears.
    Feed(Feed),
}

impl Source {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        match self {
            Source::Call(it) => it.poll_chunk(cx),
            Source::Batch(it) => it.poll_chunk(cx),
            Source::Session(it) => it.poll_chunk(cx),
            Source::Stored(it) => it.poll_chunk(cx),
            Source::Feed(it) => it.poll_chunk(cx),
        }
    }
}

impl HttpBody {
    pub(crate) fn empty() -> Self {
        HttpBody::default()
    }

    pub(crate) fn whole(message: Vec<u8>) -> Self {
        Inner::Whole(message.into()).into()
    }

    /// A stream that shows that it is alive after `every` so much silence.
    pub(crate) fn events(source: Source, every: Duration) -> Self {
        Inner::Events(Box::new(Events { source, every, alarm: None, until: None })).into()
    }

    /// Ends the stream then, if it is one.
    pub(crate) fn end_at(&mut self, until: Instant) {
        if let Inner::Events(events) = &mut self.inner {
            events.until = Some(Box::pin(sleep_until(until)));
        }
    }

    /// Lets the request's body count until the reply is written, too: that may be as long.
    pub(crate) fn charge(&mut self, share: Arc<Taken>) {
        match &mut self.inner {
            Inner::Empty => {}
            Inner::Whole(message) => *message = share.charge(mem::take(message)),
            Inner::Events(events) => match &events.source {
                // The server forgets the message of a listen when it begins.
                Source::Call(call) if call.is_listen() => {}
                Source::Call(_) | Source::Batch(_) => self.share = Some(share),
                // The call holds its message itself, and need not end with the response.
                Source::Session(_) | Source::Stored(_) | Source::Feed(_) => {}
            },
        }
    }

    /// Holds a turn until the response ends.
    pub(crate) fn hold(&mut self, turn: Turn) {
        self.turn = Some(turn);
    }
}

impl From<Inner> for HttpBody {
    fn from(inner: Inner) -> Self {
        HttpBody { inner, turn: None, share: None }
    }
}

impl Events {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if self.until.as_mut().is_some_and(|until| until.as_mut().poll(cx).is_ready()) {
            return Poll::Ready(None);
        }
        let polled = self.source.poll_chunk(cx);
        if polled.is_ready() {
            if let Some(alarm) = &mut self.alarm {
                alarm.set(sleep(self.every));
            }
            return polled;
        }
        let alarm = self.alarm.get_or_insert_with(|| Box::pin(sleep(self.every)));
        if alarm.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        alarm.set(sleep(self.every));
        // Registers the next alarm.
        let _ = alarm.as_mut().poll(cx);
        Poll::Ready(Some(Bytes::from_static(sse::KEEP_ALIVE)))
    }
}

impl Inner {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let chunk = match self {
            Inner::Empty => None,
            // A client of HTTP/2 that takes nothing of it does not get all of it either.
            Inner::Whole(message) if message.len() > FULL && http2_streams::is_one() => {
                return Poll::Ready(Some(message.split_to(FULL)));
            }
            Inner::Whole(message) => Some(mem::take(message)),
            Inner::Events(events) => match events.poll_chunk(cx) {
                Poll::Ready(None) => None,
                polled => return polled,
            },
        };
        *self = Inner::Empty;
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
        http2_streams::polled(matches!(polled, Poll::Ready(Some(_))));
        polled.map(|chunk| chunk.map(|chunk| Ok(Frame::data(chunk))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.inner, Inner::Empty)
    }

    fn size_hint(&self) -> SizeHint {
        match &self.inner {
            Inner::Empty => SizeHint::with_exact(0),
            Inner::Whole(message) => SizeHint::with_exact(message.len() as u64),
            Inner::Events(_) => SizeHint::default(),
        }
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Inner::Empty => "nothing",
            Inner::Whole(_) => "a message",
            Inner::Events(_) => "events",
        })
    }
}
