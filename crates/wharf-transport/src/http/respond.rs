//! Responses, each in one line.

use std::time::Duration;

use http::{HeaderName, HeaderValue, Response, StatusCode, header};
use wharf_model::{Error, Outcome};

use super::HttpBody;

pub(crate) type Reply = Response<HttpBody>;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");
const NO_CACHE: HeaderValue = HeaderValue::from_static("no-cache");
const UNBUFFERED: (HeaderName, HeaderValue) =
    (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));

/// A status and nothing else.
pub(crate) fn status(code: u16) -> Reply {
    with_status(code, HttpBody::empty())
}

/// One JSON-RPC message, or an array of them.
pub(crate) fn json(code: u16, message: Vec<u8>) -> Reply {
    let mut reply = with_status(code, HttpBody::whole(message));
    reply.headers_mut().insert(header::CONTENT_TYPE, JSON);
    reply
}

/// The end of a call, with when to try again if the client should.
pub(crate) fn ended(code: u16, outcome: &Outcome, message: Vec<u8>) -> Reply {
    let mut reply = json(code, message);
    if let (429 | 503, Outcome::Failed(error)) = (code, outcome) {
        retry_after(&mut reply, error);
    }
    reply
}

/// Says when to try again, if the error does.
pub(crate) fn retry_after(reply: &mut Reply, error: &Error) {
    let data = error.data.as_deref();
    let after = data.and_then(|data| data["retryAfterMs"].as_u64());
    let seconds = after.map(|ms| Duration::from_millis(ms).as_millis().div_ceil(1000).max(1));
    if let Some(seconds) = seconds.and_then(|it| HeaderValue::try_from(it.to_string()).ok()) {
        reply.headers_mut().insert(header::RETRY_AFTER, seconds);
    }
}

/// A stream of events.
pub(crate) fn events(body: HttpBody) -> Reply {
    let mut reply = Response::new(body);
    let headers = reply.headers_mut();
    headers.insert(header::CONTENT_TYPE, EVENTS);
    headers.insert(header::CACHE_CONTROL, NO_CACHE);
    headers.insert(UNBUFFERED.0, UNBUFFERED.1);
    reply
}

/// A refusal that concerns no message in particular, and says what to do about it.
pub(crate) fn refuse(code: u16, problem: &str) -> Reply {
    let problem = serde_json::Value::from(problem);
    json(
        code,
        format!(r#"{{"jsonrpc":"2.0","error":{{"code":-32600,"message":{problem}}}}}"#)
            .into_bytes(),
    )
}

/// The verb is not offered; these are.
pub(crate) fn not_allowed(allowed: &'static str) -> Reply {
    let mut reply = refuse(405, &format!("This endpoint offers {allowed} only"));
    reply.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allowed));
    reply
}

fn with_status(code: u16, body: HttpBody) -> Reply {
    let mut reply = Response::new(body);
    *reply.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    reply
}
