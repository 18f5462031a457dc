//! Rejects requests by their headers: framing (400, 501), content types (415), `Accept` (406) and
//! `MCP-Protocol-Version` (400).

use http::{HeaderValue, Method, Version, header, request::Parts};
use wharf_model::RefusalReason;
use wharf_wire::{HeaderField, ServerProtocol};

use crate::server::http::{
    Streaming, request_headers::RequestHeaders, response, response::HttpResponse,
    service::HttpEndpoint,
};

/// Rejects malformed requests, and requests that servers in a row may read differently (request smuggling):
/// those without exactly one host, and bodies with another transfer coding than one `chunked`.
pub(crate) fn check_framing(
    parts: &Parts,
    parsed: &RequestHeaders<'_>,
) -> Result<(), Box<HttpResponse>> {
    let problem = match (parsed.host, parsed.transfer_encoding) {
        (HeaderField::Several, _) => (400, "There is more than one Host header"),
        (HeaderField::Absent, _)
            if parts.uri.authority().is_none() && parts.version != Version::HTTP_10 =>
        {
            (400, "There is no Host header")
        }
        (_, HeaderField::Absent) => return Ok(()),
        (_, HeaderField::One(coding)) if coding.trim_ascii().eq_ignore_ascii_case(b"chunked") => {
            return Ok(());
        }
        (_, HeaderField::One(_)) => (501, "The only supported Transfer-Encoding is `chunked`"),
        (_, HeaderField::Several) => (400, "There is more than one Transfer-Encoding header"),
    };
    Err(Box::new(malformed(problem.0, problem.1)))
}

/// Rejects a request and closes the connection, because the bytes that follow may not be a request.
pub(crate) fn malformed(status: u16, problem: &str) -> HttpResponse {
    let mut reply = response::refuse(status, problem);
    reply.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    reply
}

/// Rejects a body with a content coding, such as a compressed one. RFC 9110 asks to name the accepted codings.
pub(crate) fn unsupported_encoding() -> HttpResponse {
    let mut reply =
        response::refuse(415, "The body must not be encoded: send it without Content-Encoding");
    reply.headers_mut().insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    reply
}

impl HttpEndpoint {
    /// Rejects a request whose body cannot be a message, or whose client could not read the reply.
    pub(super) fn check_post_headers(
        &self,
        parts: &Parts,
        parsed: &RequestHeaders<'_>,
    ) -> Option<HttpResponse> {
        let refuse = |status, problem| Some(response::refuse(status, problem));
        if parts.method != Method::POST {
            return Some(response::not_allowed("POST"));
        }
        if !parsed.is_plain() {
            return Some(unsupported_encoding());
        }
        if !parsed.is_json() {
            return refuse(415, "The body must be application/json");
        }
        if !parsed.accept.json && !parsed.accept.events {
            return refuse(406, "Accept must allow application/json or text/event-stream");
        }
        if !parsed.accept.json && self.http.streaming == Streaming::Never {
            return refuse(406, "This server does not stream: accept application/json");
        }
        None
    }
}

/// Rejects a GET whose client could not read the event stream of its session.
pub(crate) fn check_session_get(parsed: &RequestHeaders<'_>) -> Option<HttpResponse> {
    (!parsed.accept.events).then(|| response::refuse(406, "Accept must allow text/event-stream"))
}

/// Rejects a GET whose client could not read the event stream of HTTP+SSE.
pub(crate) fn check_legacy_sse_get(parsed: &RequestHeaders<'_>) -> Option<HttpResponse> {
    (!parsed.accept.events)
        .then(|| response::refuse(406, "This endpoint returns a stream: accept text/event-stream"))
}

/// Rejects a subscription whose client could not read its stream.
pub(crate) fn no_stream_for_listen() -> HttpResponse {
    response::refuse(406, "subscriptions/listen needs a stream: accept text/event-stream")
}

/// Rejects a GET or DELETE of a session whose `MCP-Protocol-Version` the server does not support. That of a POST is checked
/// with its message.
pub(crate) fn check_version(
    parsed: &RequestHeaders<'_>,
    wire: &ServerProtocol,
) -> Result<(), Box<HttpResponse>> {
    match parsed.message.is_supported(wire) {
        true => Ok(()),
        false => Err(Box::new(response::refuse_for(
            RefusalReason::UnsupportedVersion,
            400,
            "Unsupported MCP-Protocol-Version",
        ))),
    }
}
