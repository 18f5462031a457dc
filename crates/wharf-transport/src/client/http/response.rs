//! A response: a JSON-RPC message, an SSE stream, or another body.

use std::{future::poll_fn, pin::Pin, sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use http::{
    HeaderMap, Response, StatusCode, Version,
    header::{CONTENT_ENCODING, CONTENT_TYPE},
};
use http_body::Body as _;
use hyper::body::Incoming;
use tokio::{task::coop::consume_budget, time::timeout};
use wharf_model::{Error, ErrorKind, FailureOrigin, excerpt};
use wharf_wire::sse::{EventParser, ServerEvent};

/// Maximum length of an unused body that is read to reuse the connection.
const MAX_DRAIN_BYTES: u64 = 64 << 10;
/// Timeout for reading it.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum length of a body excerpt in an error.
const MAX_EXCERPT_BYTES: usize = 1 << 10;

/// A response with an unread body.
pub(super) struct ServerResponse {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    version: Version,
    body: Incoming,
}

/// The kind of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MediaKind {
    Json,
    Events,
    Other,
}

impl ServerResponse {
    pub(super) fn new(response: Response<Incoming>) -> ServerResponse {
        let (parts, body) = response.into_parts();
        let (status, headers, version) = (parts.status, parts.headers, parts.version);
        ServerResponse { status, headers, version, body }
    }

    fn content_type(&self) -> Option<&str> {
        self.headers.get(CONTENT_TYPE)?.to_str().ok()
    }

    pub(super) fn media(&self) -> MediaKind {
        // The client accepts no content encoding, but some servers encode nevertheless.
        let encoding = self.headers.get(CONTENT_ENCODING);
        if encoding.is_some_and(|it| !it.as_bytes().eq_ignore_ascii_case(b"identity")) {
            return MediaKind::Other;
        }
        let essence = self.content_type().unwrap_or_default().split(';').next().unwrap_or_default();
        match &*essence.trim().to_ascii_lowercase() {
            "application/json" => MediaKind::Json,
            "text/event-stream" => MediaKind::Events,
            _ => MediaKind::Other,
        }
    }

    /// Status line, content type and encoding, for errors and traces.
    pub(super) fn status_line(&self) -> String {
        let (version, status) = (self.version, self.status);
        let coded = self.headers.get(CONTENT_ENCODING).and_then(|it| it.to_str().ok());
        let coded = coded.map_or(String::new(), |it| format!(" ({})", excerpt(it)));
        match self.content_type().map(excerpt) {
            Some(kind) => format!("{version:?} {status}, {kind:?}{coded}"),
            None => format!("{version:?} {status}, no content type{coded}"),
        }
    }

    /// Reads the body, up to `limit` bytes.
    pub(super) async fn read_all(mut self, limit: usize) -> Result<Bytes, Error> {
        let too_large = || {
            let problem = format!("The server's response is longer than {limit} bytes");
            Error::new(ErrorKind::ContentTooLarge)
                .with_message(problem)
                .from_client(FailureOrigin::Protocol)
        };
        if self.body.size_hint().lower() > limit as u64 {
            return Err(too_large());
        }
        let mut first = Bytes::new();
        let mut rest = BytesMut::new();
        while let Some(chunk) = next_chunk(&mut self.body).await? {
            if first.len() + rest.len() + chunk.len() > limit {
                return Err(too_large());
            }
            // Most bodies arrive in one chunk, which is not copied.
            if first.is_empty() && rest.is_empty() {
                first = chunk;
                continue;
            }
            rest.extend_from_slice(&std::mem::take(&mut first));
            rest.extend_from_slice(&chunk);
        }
        Ok(if rest.is_empty() { first } else { rest.freeze() })
    }

    /// Reads the start of the body as one printable line, for an error.
    pub(super) async fn read_start(mut self) -> String {
        let mut seen = Vec::new();
        let read = async {
            while let Ok(Some(chunk)) = next_chunk(&mut self.body).await {
                seen.extend_from_slice(&chunk[..chunk.len().min(MAX_EXCERPT_BYTES)]);
                if seen.len() >= MAX_EXCERPT_BYTES {
                    break;
                }
            }
        };
        let _ = timeout(DRAIN_TIMEOUT, read).await;
        printable_excerpt(&seen)
    }

    /// Reads the rest of an unused body if it is short, so that the connection can be reused.
    pub(super) async fn drain(mut self) {
        if self.body.size_hint().upper().is_none_or(|upper| upper > MAX_DRAIN_BYTES) {
            return;
        }
        let read = async { while let Ok(Some(_)) = next_chunk(&mut self.body).await {} };
        let _ = timeout(DRAIN_TIMEOUT, read).await;
    }

    /// The body as an SSE stream with events of at most `limit` bytes.
    pub(super) fn events(self, limit: usize) -> SseStream {
        SseStream { body: self.body, events: EventParser::new(limit), received_any: false }
    }
}

/// A short excerpt without control characters.
pub(super) fn printable_excerpt(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let plain: String = text.chars().map(|it| if it.is_control() { ' ' } else { it }).collect();
    excerpt(plain.trim()).into_owned()
}

/// A stream of server-sent events (SSE).
pub(super) struct SseStream {
    body: Incoming,
    events: EventParser,
    /// Set once any bytes were received.
    received_any: bool,
}

impl SseStream {
    /// The next event; `None` at the end of the stream. Cancel-safe.
    ///
    /// # Errors
    /// `ContentTooLarge` if an event is too long; another error if the connection broke.
    pub(super) async fn next(&mut self) -> Result<Option<ServerEvent>, Error> {
        // A server that never pauses must not starve other futures of the task.
        consume_budget().await;
        loop {
            if let Some(event) = self.events.next() {
                return event.map(Some);
            }
            match next_chunk(&mut self.body).await? {
                Some(chunk) => self.events.push(&chunk),
                None => return Ok(None),
            }
            self.received_any = true;
        }
    }

    /// The last event id, to resume after.
    pub(super) fn last_id(&self) -> Option<&str> {
        self.events.last_id()
    }

    /// The reconnection time that the server sent.
    pub(super) fn retry(&self) -> Option<Duration> {
        self.events.retry()
    }

    /// Returns whether any bytes were received.
    pub(super) fn received_any(&self) -> bool {
        self.received_any
    }
}

async fn next_chunk(body: &mut Incoming) -> Result<Option<Bytes>, Error> {
    loop {
        let frame = match poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await {
            None => return Ok(None),
            Some(Ok(frame)) => frame,
            Some(Err(error)) => {
                let problem =
                    format!("The connection broke during the server's response ({error})");
                let broken = Error::new(ErrorKind::ConnectionClosed).with_message(problem);
                return Err(broken.from_client_because(FailureOrigin::Interrupted, Arc::new(error)));
            }
        };
        if let Ok(data) = frame.into_data() {
            return Ok(Some(data));
        }
    }
}
