//! Reads the body of a request within its limits of size, time and memory.

use std::{future::poll_fn, pin::Pin, task::Poll, time::Duration};

use bytes::{Buf, Bytes, BytesMut};
use http::{HeaderValue, header, request::Parts};
use http_body::Body;
use tokio::time::{Instant, timeout, timeout_at};
use wharf_model::{BudgetFull, RequestExtensions};

use crate::server::http::response::HttpResponse;
use crate::server::limits::{
    message_memory::{LARGE_MESSAGE_BYTES, MessageCharge},
    read_timeout::body_deadline,
};

/// Limits of the bytes and the time for discarding the body of a rejected request.
const MAX_DISCARDED_BYTES: usize = 64 << 10;
const DISCARD_TIMEOUT: Duration = Duration::from_secs(1);
/// Size from which a body is allocated exactly.
const EXACT_ALLOCATION_BYTES: usize = 1 << 20;

/// Error of reading a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyError {
    TooLong,
    TooSlow,
    Broken,
    /// The memory budget is used up by other messages.
    NoRoom,
}

/// Reads at most `limit` bytes of the body, within `timeout_after` and the time that the bytes need at the
/// minimum rate.
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
    // Length for which memory is already reserved.
    let mut reserved = 0;
    if declared > LARGE_MESSAGE_BYTES {
        let amount = declared * charge.copies(limit);
        // Boxed: most requests do not need the memory.
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
        // Most bodies arrive with their heads, and need no timer.
        let frame = match poll_once(&mut frame).await {
            Poll::Ready(frame) => frame,
            Poll::Pending => {
                let begun = *begun.get_or_insert_with(Instant::now);
                timeout_at(body_deadline(begun, timeout_after, had), frame)
                    .await
                    .map_err(|_| BodyError::TooSlow)?
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

/// Discards the unread body of a request that is rejected. The client can then reuse the connection, for
/// example to authenticate. If the body does not arrive soon, the response closes the connection.
pub(crate) async fn discard_body<B: Body>(
    mut reply: HttpResponse,
    parts: &Parts,
    body: Pin<&mut B>,
) -> HttpResponse {
    // A client that expects `100 Continue` must not be made to send the body.
    let waits = parts.headers.contains_key(header::EXPECT);
    // Boxed: most requests do not need the memory.
    if !body.is_end_stream() && (waits || !Box::pin(drain_body(body)).await) {
        reply.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    reply
}

/// Reads and drops a body. True if all of it has arrived.
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

/// Polls the future once.
async fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    poll_fn(|cx| Poll::Ready(Pin::new(&mut *future).poll(cx))).await
}

/// Collects a body. Most arrive in one piece, which is not copied.
#[derive(Default)]
struct BodyBuffer {
    first: Bytes,
    joined: BytesMut,
}

impl BodyBuffer {
    fn len(&self) -> usize {
        self.joined.len().max(self.first.len())
    }

    /// Adds a piece, after which `expected` bytes are still to come.
    fn add(&mut self, piece: Bytes, expected: usize) {
        if self.len() == 0 {
            self.first = piece;
            return;
        }
        if self.joined.is_empty() {
            let size = self.first.len() + piece.len() + expected;
            // Powers of two let the allocator reuse the memory for the next body, so the system need not clear
            // new pages. For long bodies that would waste too much.
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
