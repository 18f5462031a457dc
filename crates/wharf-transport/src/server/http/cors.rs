//! Cross-origin resource sharing (CORS): lets pages of allowed origins read responses.

use http::{HeaderMap, HeaderName, HeaderValue, header, request::Parts};
use wharf_wire::HeaderField;

use crate::server::http::{
    Http, request_headers::RequestHeaders, response, response::HttpResponse,
};

const EXPOSED: HeaderValue = HeaderValue::from_static(
    "DPoP-Nonce, Mcp-Session-Id, MCP-Protocol-Version, Retry-After, WWW-Authenticate",
);
const METHODS: HeaderValue = HeaderValue::from_static("GET, POST, DELETE, OPTIONS");
const MAX_AGE: HeaderValue = HeaderValue::from_static("7200");
const VARY: HeaderValue = HeaderValue::from_static("Origin");

/// Request headers that clients of some revision send.
static ALLOWED: [&str; 9] = [
    "accept",
    "authorization",
    "content-type",
    "dpop",
    "last-event-id",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "mcp-session-id",
];

/// Answers a preflight request. None if it is not one, or its origin is not allowed.
pub(crate) fn preflight(
    http: &Http,
    parts: &Parts,
    parsed: &RequestHeaders<'_>,
) -> Option<HttpResponse> {
    granted(http, parsed)?;
    parts.headers.get(header::ACCESS_CONTROL_REQUEST_METHOD)?;
    let mut reply = response::status(204);
    let headers = reply.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, METHODS);
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, MAX_AGE);
    if let Some(wanted) = wanted(&parts.headers) {
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, wanted);
    }
    Some(reply)
}

/// Returns the requested headers that clients may send.
fn wanted(headers: &HeaderMap) -> Option<HeaderValue> {
    let asked = headers.get(header::ACCESS_CONTROL_REQUEST_HEADERS)?.to_str().ok()?;
    let names = asked.split(',').map(|name| name.trim().to_ascii_lowercase());
    let sent = |name: &String| {
        let known = ALLOWED.contains(&&**name) || name.starts_with("mcp-param-");
        known && HeaderName::try_from(name).is_ok()
    };
    HeaderValue::try_from(names.filter(sent).collect::<Vec<_>>().join(", ")).ok()
}

/// Lets the page read the response, if its origin is allowed.
pub(crate) fn expose(http: &Http, parsed: &RequestHeaders<'_>, reply: &mut HttpResponse) {
    if http.cors.is_empty() {
        return;
    }
    let headers = reply.headers_mut();
    headers.append(header::VARY, VARY);
    if let Some(origin) = granted(http, parsed) {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
    }
}

fn granted(http: &Http, parsed: &RequestHeaders<'_>) -> Option<HeaderValue> {
    let HeaderField::One(origin) = parsed.origin else { return None };
    let granted = |allowed: &String| allowed.as_bytes().eq_ignore_ascii_case(origin);
    let known = http.cors.iter().any(granted);
    known.then(|| HeaderValue::from_bytes(origin).ok()).flatten()
}
