//! A request's body, within its limits.

use std::{pin::pin, time::Duration};

use bytes::{Buf, Bytes, BytesMut};
use http_body::Body;
use tokio::time::{Instant, timeout_at};

/// What a slow client must at least send a second once its time of grace is over.
const RATE: u64 = 64 << 10;

/// Why there is no body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unread {
    TooLong,
    TooSlow,
    Broken,
}

/// Reads the body, at most `limit` bytes of it, in `patience` and the time that `RATE` grants.
pub(crate) async fn read<B: Body>(
    body: B,
    limit: usize,
    patience: Duration,
) -> Result<Bytes, Unread> {
    let mut body = pin!(body);
    if body.size_hint().lower() > limit as u64 {
        return Err(Unread::TooLong);
    }
    let begun = Instant::now();
    let mut whole = BytesMut::new();
    let mut first = Bytes::new();
    loop {
        if body.is_end_stream() {
            break;
        }
        let had = whole.len().max(first.len()) as u64;
        let deadline = begun + patience + Duration::from_millis(had * 1000 / RATE);
        let frame = std::future::poll_fn(|cx| body.as_mut().poll_frame(cx));
        let frame = match timeout_at(deadline, frame).await {
            Err(_) => return Err(Unread::TooSlow),
            Ok(None) => break,
            Ok(Some(Err(_))) => return Err(Unread::Broken),
            Ok(Some(Ok(frame))) => frame,
        };
        let Ok(mut data) = frame.into_data() else { continue };
        let size = data.remaining();
        if had as usize + size > limit {
            return Err(Unread::TooLong);
        }
        let data = data.copy_to_bytes(size);
        // Most messages come in one piece, which is kept as it is.
        match (first.is_empty(), whole.is_empty()) {
            (true, true) => first = data,
            (_, true) => {
                let expected = body.size_hint().lower().min(limit as u64) as usize;
                whole.reserve(first.len() + data.len() + expected);
                whole.extend_from_slice(&first);
                whole.extend_from_slice(&data);
            }
            _ => whole.extend_from_slice(&data),
        }
    }
    Ok(if whole.is_empty() { first } else { whole.freeze() })
}
