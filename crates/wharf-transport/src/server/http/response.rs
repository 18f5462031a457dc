//! Constructors of HTTP responses.

use std::pin::Pin;

use http::{HeaderName, HeaderValue, Response, StatusCode, header};
use wharf_model::{Error, ErrorKind, Outcome, RefusalReason};

use crate::server::http::HttpBody;

pub(crate) type HttpResponse = Response<HttpBody>;

/// A response that is ready, as most are, or a future of one.
pub(crate) enum EventualResponse<'a> {
    Now(HttpResponse),
    Later(Pin<Box<dyn Future<Output = HttpResponse> + Send + 'a>>),
}

impl<'a> EventualResponse<'a> {
    /// Wraps a future. It is boxed, so that responses that are ready do not need its memory.
    pub(crate) fn later(reply: impl Future<Output = HttpResponse> + Send + 'a) -> Self {
        EventualResponse::Later(Box::pin(reply))
    }

    /// Waits for the response.
    pub(crate) async fn ready(self) -> HttpResponse {
        match self {
            EventualResponse::Now(reply) => reply,
            EventualResponse::Later(reply) => reply.await,
        }
    }
}

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");
const NO_CACHE: HeaderValue = HeaderValue::from_static("no-cache");
const UNBUFFERED: (HeaderName, HeaderValue) =
    (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));

/// Status without a body.
pub(crate) fn status(code: u16) -> HttpResponse {
    with_status(code, HttpBody::empty())
}

/// One JSON-RPC message, or an array of them.
pub(crate) fn json(code: u16, message: Vec<u8>) -> HttpResponse {
    let mut reply = with_status(code, HttpBody::whole(message));
    reply.headers_mut().insert(header::CONTENT_TYPE, JSON);
    reply
}

/// Reply of a call, with the headers that its error implies.
pub(crate) fn ended(code: u16, outcome: &Outcome, message: Vec<u8>) -> HttpResponse {
    let mut reply = json(code, message);
    if let Outcome::Failed(error) = outcome {
        explain(&mut reply, error);
    }
    reply
}

/// Adds `Retry-After` or `WWW-Authenticate`, depending on the status.
pub(crate) fn explain(reply: &mut HttpResponse, error: &Error) {
    let (name, value) = match reply.status().as_u16() {
        429 | 503 => (header::RETRY_AFTER, HeaderValue::from(retry_after(error))),
        401 | 403 => {
            let challenge = match error.kind.is_insufficient_scope() {
                true => r#"Bearer error="insufficient_scope""#,
                false => "Bearer",
            };
            // For an authenticator that writes a more specific challenge.
            reply.extensions_mut().insert(error.clone());
            (header::WWW_AUTHENTICATE, HeaderValue::from_static(challenge))
        }
        _ => return,
    };
    reply.headers_mut().insert(name, value);
}

/// Returns the seconds for `Retry-After`.
fn retry_after(error: &Error) -> u64 {
    let data = error.data.as_deref();
    let after = data.and_then(|data| data["retryAfterMs"].as_u64());
    after.unwrap_or_default().div_ceil(1000).max(1)
}

/// Stream of server-sent events.
pub(crate) fn events(body: HttpBody) -> HttpResponse {
    let mut reply = Response::new(body);
    let headers = reply.headers_mut();
    headers.insert(header::CONTENT_TYPE, EVENTS);
    headers.insert(header::CACHE_CONTROL, NO_CACHE);
    headers.insert(UNBUFFERED.0, UNBUFFERED.1);
    reply
}

/// Error response that belongs to no message, for the usual reason of its status.
pub(crate) fn refuse(code: u16, problem: &str) -> HttpResponse {
    refuse_for(RefusalReason::of_status(code), code, problem)
}

/// Error response that belongs to no message.
pub(crate) fn refuse_for(reason: RefusalReason, code: u16, problem: &str) -> HttpResponse {
    let problem = serde_json::Value::from(problem);
    let message = format!(r#"{{"jsonrpc":"2.0","error":{{"code":-32600,"message":{problem}}}}}"#);
    refused(reason, json(code, message.into_bytes()))
}

/// Marks a response as the refusal of a request that was no call.
pub(crate) fn refused(reason: RefusalReason, mut reply: HttpResponse) -> HttpResponse {
    reply.body_mut().refusal = Some(reason);
    reply
}

/// Reply that the codec wrote: an error if `refused` has a kind.
pub(crate) fn replied(code: u16, message: Vec<u8>, refused: Option<ErrorKind>) -> HttpResponse {
    mark_refused(refused, json(code, message))
}

/// Marks a response as a refusal if it reports an error of this kind.
pub(crate) fn mark_refused(kind: Option<ErrorKind>, reply: HttpResponse) -> HttpResponse {
    match kind {
        Some(kind) => refused(RefusalReason::of_kind(kind), reply),
        None => reply,
    }
}

/// Response 503: overloaded; the client may retry after a second.
pub(crate) fn busy(reason: RefusalReason, problem: &str) -> HttpResponse {
    let mut reply = refuse_for(reason, 503, problem);
    reply.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    reply
}

/// Response 503 without a body.
pub(crate) fn unavailable() -> HttpResponse {
    let mut reply = status(503);
    reply.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    reply
}

/// Response 405 with the allowed methods.
pub(crate) fn not_allowed(allowed: &'static str) -> HttpResponse {
    let mut reply = refuse(405, &format!("This endpoint allows only {allowed}"));
    reply.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allowed));
    reply
}

fn with_status(code: u16, body: HttpBody) -> HttpResponse {
    let mut reply = Response::new(body);
    *reply.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    reply
}
