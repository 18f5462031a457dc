//! Converts HTTP error responses to errors.

use std::time::Duration;

use bytes::Bytes;
use http::{
    HeaderMap, StatusCode,
    header::{RETRY_AFTER, WWW_AUTHENTICATE},
};
use serde_json::{Map, Value};
use tokio::time::timeout;
use wharf_connect::parse_retry_after;
use wharf_model::{Error, ErrorKind, FailureOrigin};
use wharf_wire::{ClientCodec, ServerMessage, error_codes};

use crate::client::http::{
    response::{ServerResponse, printable_excerpt},
    server_url::ServerUrl,
};

/// Maximum length of an error body that is read.
const MAX_ERROR_BODY_BYTES: usize = 1 << 20;
/// Maximum length of a challenge that is kept.
const MAX_CHALLENGE_BYTES: usize = 8 << 10;
/// Maximum `Retry-After` that is passed on.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

/// Timeout for reading the body.
const ERROR_BODY_TIMEOUT: Duration = Duration::from_secs(5);
/// Words by which servers report an unknown session.
const SESSION_GONE_WORDS: [&str; 6] =
    ["valid", "not found", "unknown", "expired", "no session", "terminated"];

/// The error kind of a status without a JSON-RPC body.
fn by_status(status: StatusCode) -> ErrorKind {
    match status.as_u16() {
        401 => ErrorKind::Unauthenticated,
        403 => ErrorKind::Forbidden,
        413 => ErrorKind::ContentTooLarge,
        429 => ErrorKind::RateLimited,
        503 => ErrorKind::TemporarilyUnavailable,
        _ => ErrorKind::TransportError,
    }
}

/// Error for a response that is not a message: a status that stands for an error of the server, or
/// the answer of something else.
pub(crate) fn by_status_error(status: StatusCode, problem: String) -> Error {
    let error = Error::new(by_status(status)).with_message(problem);
    match error.kind {
        ErrorKind::TransportError => error.from_client(FailureOrigin::Protocol),
        _ => error,
    }
}

/// Returns whether a status shows nothing about the server's revision.
pub(super) fn is_inconclusive(status: StatusCode) -> bool {
    matches!(status.as_u16(), 401 | 403 | 429) || status.is_server_error()
}

/// An error response: its body and the resulting error.
pub(super) struct ErrorResponse {
    pub(super) status: StatusCode,
    pub(super) error: Error,
    /// The body is a JSON-RPC message.
    is_message: bool,
    body: Bytes,
}

impl ErrorResponse {
    pub(super) async fn read(
        response: ServerResponse,
        from: &ServerUrl,
        codec: Option<&ClientCodec>,
    ) -> ErrorResponse {
        let (status, headers, status_line) =
            (response.status, response.headers.clone(), response.status_line());
        let body = timeout(ERROR_BODY_TIMEOUT, response.read_all(MAX_ERROR_BODY_BYTES)).await;
        let body = body.ok().and_then(Result::ok).unwrap_or_default();
        let json_rpc_error = codec.and_then(|codec| json_rpc_error(codec, &body));
        let is_message = json_rpc_error.is_some();
        let mut error = match json_rpc_error {
            Some(json_rpc_error) => with_status(json_rpc_error, status, codec),
            None => {
                let shown = printable_excerpt(&body);
                let colon = if shown.is_empty() { "" } else { ": " };
                let problem = format!("{from} answered with {status_line}{colon}{shown}");
                by_status_error(status, problem)
            }
        };
        // The server's own error data is kept, unless HTTP decided the status and not the server.
        if error.data.is_none() || is_inconclusive(status) {
            add_data(&mut error, status, &headers);
        }
        ErrorResponse { status, error, is_message, body }
    }

    /// Returns whether the response cannot come from the server of the handshake, which had no sessions: the
    /// server was replaced.
    pub(super) fn is_from_replaced_server(&self) -> bool {
        let is_foreign = matches!(self.status.as_u16(), 400 | 404 | 405) && !self.is_message;
        is_foreign || self.error.kind.is_unsupported_protocol_version()
    }

    /// The JSON-RPC message in the body.
    pub(super) fn message(&self) -> Option<&[u8]> {
        self.is_message.then_some(&self.body)
    }

    /// Returns whether the response means that the session does not exist. Some servers answer 400
    /// with a text.
    pub(super) fn is_about_session(&self) -> bool {
        if self.is_message
            && (self.error.kind.is_method_not_found() || self.error.kind.is_invalid_params())
        {
            return false;
        }
        match self.status {
            StatusCode::NOT_FOUND => true,
            StatusCode::BAD_REQUEST => {
                let body = String::from_utf8_lossy(&self.body).to_ascii_lowercase();
                body.contains("session")
                    && SESSION_GONE_WORDS.iter().any(|word| body.contains(word))
            }
            _ => false,
        }
    }
}

/// The JSON-RPC error in the body, if any.
fn json_rpc_error(codec: &ClientCodec, body: &Bytes) -> Option<Error> {
    let heard = codec.decode(body.clone()).ok()?;
    heard.into_iter().find_map(|it| match it {
        ServerMessage::Reply { result: Err(error), .. } => Some(error),
        _ => None,
    })
}

/// The server's own error, with the kind of the status if that is more specific.
fn with_status(mut error: Error, status: StatusCode, codec: Option<&ClientCodec>) -> Error {
    let own = codec.map(|codec| error_codes::status(error.kind, codec.revision()));
    let kind = by_status(status);
    if kind != ErrorKind::TransportError && own != Some(status.as_u16()) {
        error.kind = kind;
    }
    error
}

/// Adds status, challenges and `Retry-After` as error data.
fn add_data(error: &mut Error, status: StatusCode, headers: &HeaderMap) {
    let mut data = match error.data.take().map(|it| *it) {
        Some(Value::Object(data)) => data,
        _ => Map::new(),
    };
    data.entry("httpStatus").or_insert(status.as_u16().into());
    let challenges: Vec<_> =
        headers.get_all(WWW_AUTHENTICATE).iter().filter_map(|it| it.to_str().ok()).collect();
    if !challenges.is_empty() {
        let mut challenge = challenges.join(", ");
        challenge.truncate(MAX_CHALLENGE_BYTES);
        // `insufficient_scope` is the one detail of a challenge that the status lacks.
        if error.kind.is_forbidden() && challenge.contains("insufficient_scope") {
            error.kind = ErrorKind::InsufficientScope;
        }
        data.entry("wwwAuthenticate").or_insert(challenge.into());
    }
    if let Some(after) =
        headers.get(RETRY_AFTER).and_then(|it| it.to_str().ok()).and_then(parse_retry_after)
    {
        let millis = u64::try_from(after.min(MAX_RETRY_AFTER).as_millis()).unwrap_or(u64::MAX);
        data.entry("retryAfterMs").or_insert(millis.into());
    }
    error.data = Some(Box::new(Value::Object(data)));
}
