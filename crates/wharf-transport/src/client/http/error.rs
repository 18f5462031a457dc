//! Why a server refused.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::{
    HeaderMap, StatusCode,
    header::{RETRY_AFTER, WWW_AUTHENTICATE},
};
use serde_json::{Map, Value};
use tokio::time::timeout;
use wharf_model::{Error, ErrorKind};
use wharf_wire::{ClientCodec, ServerMessage, error_codes};

use crate::client::http::{
    response::{HttpResponse, on_one_line},
    server_url::ServerUrl,
};

/// How much of a refusal's body is read.
const BODY: usize = 1 << 20;
/// How much of a challenge is kept.
const CHALLENGE: usize = 8 << 10;
/// The longest time to come back after that is passed on.
const LATEST: Duration = Duration::from_secs(24 * 60 * 60);

/// How long it may take to come.
const PATIENCE: Duration = Duration::from_secs(5);
/// What servers say of sessions that they do not have.
const GONE: [&str; 6] = ["valid", "not found", "unknown", "expired", "no session", "terminated"];

/// What a status says by itself.
pub(crate) fn by_status(status: StatusCode) -> ErrorKind {
    match status.as_u16() {
        401 => ErrorKind::Unauthenticated,
        403 => ErrorKind::Forbidden,
        413 => ErrorKind::ContentTooLarge,
        429 => ErrorKind::RateLimited,
        503 => ErrorKind::TemporarilyUnavailable,
        _ => ErrorKind::TransportError,
    }
}

/// Whether a status says nothing about which revision the server speaks.
pub(super) fn is_no_verdict(status: StatusCode) -> bool {
    matches!(status.as_u16(), 401 | 403 | 429) || status.is_server_error()
}

/// A refusal: its body, as far as it is worth reading, and the error it amounts to.
pub(super) struct ErrorResponse {
    pub(super) status: StatusCode,
    pub(super) error: Error,
    /// Whether the body is a message.
    is_said: bool,
    body: Bytes,
}

impl ErrorResponse {
    pub(super) async fn read(answer: HttpResponse, from: &ServerUrl, talk: Option<&ClientCodec>) -> ErrorResponse {
        let (status, headers, head) = (answer.status, answer.headers.clone(), answer.head());
        let body = timeout(PATIENCE, answer.whole(BODY)).await;
        let body = body.ok().and_then(Result::ok).unwrap_or_default();
        let said = talk.and_then(|talk| said(talk, &body));
        let is_said = said.is_some();
        let mut error = match said {
            Some(said) => fitting(said, status, talk),
            None => {
                let shown = on_one_line(&body);
                let colon = if shown.is_empty() { "" } else { ": " };
                let problem = format!("{from} answered with {head}{colon}{shown}");
                Error::new(by_status(status)).with_message(problem)
            }
        };
        // What the server itself said stays as it is, except where HTTP decided and not the server.
        if error.data.is_none() || is_no_verdict(status) {
            add_data(&mut error, status, &headers);
        }
        ErrorResponse { status, error, is_said, body }
    }

    /// Whether no modern server would say so: it is another one by now.
    pub(super) fn is_of_another_era(&self) -> bool {
        let is_foreign = matches!(self.status.as_u16(), 400 | 404 | 405) && !self.is_said;
        is_foreign || self.error.kind.is_unsupported_protocol_version()
    }

    /// The message that it carries.
    pub(super) fn message(&self) -> Option<&[u8]> {
        self.is_said.then_some(&self.body)
    }

    /// Whether it says that there is no such session. Some servers say so with 400, in words.
    pub(super) fn is_about_session(&self) -> bool {
        if self.is_said
            && (self.error.kind.is_method_not_found() || self.error.kind.is_invalid_params())
        {
            return false;
        }
        match self.status {
            StatusCode::NOT_FOUND => true,
            StatusCode::BAD_REQUEST => {
                let said = String::from_utf8_lossy(&self.body).to_ascii_lowercase();
                said.contains("session") && GONE.iter().any(|word| said.contains(word))
            }
            _ => false,
        }
    }
}

/// The error that the body carries, if it is a message.
fn said(talk: &ClientCodec, body: &Bytes) -> Option<Error> {
    let heard = talk.hear(body.clone()).ok()?;
    heard.into_iter().find_map(|it| match it {
        ServerMessage::Reply { result: Err(error), .. } => Some(error),
        _ => None,
    })
}

/// The server's own error. Where the status says more than its number, the status counts.
fn fitting(mut said: Error, status: StatusCode, talk: Option<&ClientCodec>) -> Error {
    let own = talk.map(|talk| error_codes::status(said.kind, talk.revision()));
    let kind = by_status(status);
    if kind != ErrorKind::TransportError && own != Some(status.as_u16()) {
        said.kind = kind;
    }
    said
}

/// What the headers say to programs.
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
        challenge.truncate(CHALLENGE);
        // The one thing that a challenge says which the status does not.
        if error.kind.is_forbidden() && challenge.contains("insufficient_scope") {
            error.kind = ErrorKind::InsufficientScope;
        }
        data.entry("wwwAuthenticate").or_insert(challenge.into());
    }
    if let Some(after) = headers.get(RETRY_AFTER).and_then(|it| it.to_str().ok()).and_then(delay) {
        let millis = u64::try_from(after.min(LATEST).as_millis()).unwrap_or(u64::MAX);
        data.entry("retryAfterMs").or_insert(millis.into());
    }
    error.data = Some(Box::new(Value::Object(data)));
}

/// Seconds, or a date.
fn delay(text: &str) -> Option<Duration> {
    let text = text.trim();
    match text.parse::<u64>() {
        Ok(seconds) => Some(Duration::from_secs(seconds)),
        Err(_) => {
            let then = httpdate::parse_http_date(text).ok()?;
            Some(then.duration_since(SystemTime::now()).unwrap_or_default())
        }
    }
}
