//! A request's body, within its limits.

use std::{future::poll_fn, pin::Pin, task::Poll, time::Duration};

use bytes::{Buf, Bytes, BytesMut};
use http::{HeaderValue, header, request::Parts};
use http_body::Body;
use tokio::time::{Instant, timeout, timeout_at};
use wharf_model::{BudgetFull, RequestExtensions};

use crate::server::http::response::HttpResponse;
use crate::server::limits::message_memory::{
    LARGE_MESSAGE_BYTES, MIN_BYTES_PER_SECOND, MessageCharge,
};

/// The most bytes that are let in of a request that was refused, and how long they may take.
const MAX_DISCARDED_BYTES: usize = 64 << 10;
const DISCARD_TIMEOUT: Duration = Duration::from_secs(1);
/// From how many bytes on a body gets exactly as much memory as it needs.
const EXACT_ALLOCATION_BYTES: usize = 1 << 20;

/// Why there is no body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyError {
    TooLong,
    TooSlow,
    Broken,
    /// Others take all the room there is.
    NoRoom,
}

/// Reads the body, at most `limit` bytes of it, in `timeout_after` and the time that `MIN_BYTES_PER_SECOND` grants.
pub(crate) async fn read_body<B: Body>(
    mut body: Pin<&mut B>,
    limit: usize,
    timeout_after: Duration,
    charge: &mut MessageCharge,
    scope: &RequestExtensions,
) -> Result<Bytes, BodyError> {
    let declared = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if declared > limit {
        return Err(BodyError::TooLong);
    }
    // Up to which length there is room already.
    let mut reserved = 0;
    if declared > LARGE_MESSAGE_BYTES {
        let amount = declared * charge.copies(limit);
        // Boxed: most requests need no room for it.
        Box::pin(charge.reserve(amount, timeout_after, scope))
            .await
            .map_err(|BudgetFull| BodyError::NoRoom)?;
        reserved = declared;
    }
    let mut begun = None;
    let mut pieces = BodyBuffer::default();
    while !body.is_end_stream() {
        let had = pieces.len();
        let mut frame = poll_fn(|cx| body.as_mut().poll_frame(cx).map_err(|_| BodyError::Broken));
        // Most bodies come with their heads, and need no timer.
        let frame = match poll_once(&mut frame).await {
            Poll::Ready(frame) => frame,
            Poll::Pending => {
                let begun = *begun.get_or_insert_with(Instant::now);
                let deadline = begun
                    + timeout_after
                    + Duration::from_millis(had as u64 * 1000 / MIN_BYTES_PER_SECOND);
                timeout_at(deadline, frame).await.map_err(|_| BodyError::TooSlow)?
            }
        };
        let Some(frame) = frame else { break };
        let Ok(mut data) = frame?.into_data() else { continue };
        let size = data.remaining();
        if had + size > limit {
            return Err(BodyError::TooLong);
        }
        if had + size > reserved {
            let copies = if had + size > LARGE_MESSAGE_BYTES { charge.copies(limit) } else { 1 };
            charge.add(size * copies, scope).map_err(|BudgetFull| BodyError::NoRoom)?;
        }
        let expected = body.size_hint().lower().min(limit as u64) as usize;
        pieces.add(data.copy_to_bytes(size), expected);
    }
    Ok(pieces.whole())
}

/// Refuses a request whose body nobody reads, and which may still be on its way. Clients use the connection again, to
/// find out how to come in, or where: they can if all of it comes in a moment, and are told so if they cannot.
pub(crate) async fn discard_body<B: Body>(
    mut reply: HttpResponse,
    parts: &Parts,
    body: Pin<&mut B>,
) -> HttpResponse {
    // Who waits to be told to send the body shall not send it.
    let waits = parts.headers.contains_key(header::EXPECT);
    // Boxed: most requests need no room for it.
    if !body.is_end_stream() && (waits || !Box::pin(drain_body(body)).await) {
        reply.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    reply
}

/// Lets a body pass that nobody wants. Whether all of it has passed.
async fn drain_body<B: Body>(mut body: Pin<&mut B>) -> bool {
    let mut left = MAX_DISCARDED_BYTES;
    if body.size_hint().lower() > left as u64 {
        return false;
    }
    let passing = async {
        while let Some(frame) = poll_fn(|cx| body.as_mut().poll_frame(cx)).await {
            let Ok(frame) = frame else { return false };
            let size = frame.data_ref().map_or(0, Buf::remaining);
            match left.checked_sub(size) {
                Some(less) => left = less,
                None => return false,
            }
        }
        true
    };
    timeout(DISCARD_TIMEOUT, passing).await.unwrap_or(false)
}

/// Polls the future once, whatever comes of it.
async fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    poll_fn(|cx| Poll::Ready(Pin::new(&mut *future).poll(cx))).await
}

/// A body as it comes. Most come in one piece, which is kept as it is.
#[derive(Default)]
struct BodyBuffer {
    first: Bytes,
    joined: BytesMut,
}

impl BodyBuffer {
    fn len(&self) -> usize {
        self.joined.len().max(self.first.len())
    }

    /// One more piece, after which `expected` bytes are still to come.
    fn add(&mut self, piece: Bytes, expected: usize) {
        if self.len() == 0 {
            self.first = piece;
            return;
        }
        if self.joined.is_empty() {
            let size = self.first.len() + piece.len() + expected;
            // Alike for bodies of about one size: an allocator then keeps the room for the next
            // one, and the system need not clear new pages for it. For long ones that would take too much.
            let size = if size > EXACT_ALLOCATION_BYTES { size } else { size.next_power_of_two() };
            self.joined.reserve(size);
            self.joined.extend_from_slice(&self.first);
        }
        self.joined.extend_from_slice(&piece);
    }

    fn whole(self) -> Bytes {
        if self.joined.is_empty() { self.first } else { self.joined.freeze() }
    }
}
