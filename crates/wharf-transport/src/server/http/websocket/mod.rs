//! WebSocket transport: each JSON-RPC message is one text message, handled like a line of a JSON lines
//! connection.

pub(crate) mod connection;
pub(crate) mod frames;

use std::sync::Arc;

use http::{
    HeaderMap, HeaderName, HeaderValue, Method, header,
    header::{CONNECTION, UPGRADE},
    request::Parts,
};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use wharf_model::{ObservedTransport, RequestExtensions};

use crate::server::http::{response, response::HttpResponse, service::HttpEndpoint};
use crate::server::limits::connection_slots::ConnectionSlot;

/// Subprotocol that clients must offer.
const MCP_SUBPROTOCOL: &str = "mcp";
const WEBSOCKET: HeaderValue = HeaderValue::from_static("websocket");
const VERSION: HeaderValue = HeaderValue::from_static("13");

/// Returns true if the request asks for an upgrade to WebSocket.
pub(crate) fn is_upgrade_request(parts: &Parts) -> bool {
    let lists = |name, token: &str| {
        tokens(&parts.headers, name).any(|listed| listed.eq_ignore_ascii_case(token))
    };
    parts.method == Method::GET && lists(CONNECTION, "upgrade") && lists(UPGRADE, "websocket")
}

/// Answers the handshake, and serves the client after the upgrade.
pub(crate) fn upgrade(
    endpoint: &Arc<HttpEndpoint>,
    parts: &Parts,
    mut scope: RequestExtensions,
) -> HttpResponse {
    let headers = &parts.headers;
    if headers.get(header::SEC_WEBSOCKET_VERSION) != Some(&VERSION) {
        let mut reply = response::refuse(426, "Only version 13 of WebSocket is supported");
        reply.headers_mut().insert(header::SEC_WEBSOCKET_VERSION, VERSION);
        set_upgrade_headers(&mut reply);
        return reply;
    }
    let Some(key) = key(headers) else {
        return response::refuse(400, "Sec-WebSocket-Key must be 16 bytes in Base64");
    };
    if !tokens(headers, header::SEC_WEBSOCKET_PROTOCOL).any(|offered| offered == MCP_SUBPROTOCOL) {
        return response::refuse(400, "The client must offer the subprotocol `mcp`");
    }
    let Some(upgraded) = scope.remove::<OnUpgrade>() else {
        return response::refuse(400, "This connection cannot become a WebSocket: use HTTP/1.1");
    };
    let Ok(accept) = HeaderValue::try_from(derive_accept_key(key)) else {
        return response::status(500);
    };
    let (context, limits, shutdown) =
        (endpoint.context.clone(), endpoint.context.http_limits, endpoint.shutdown.clone());
    scope.insert(endpoint.budget.clone());
    scope.insert(ObservedTransport::WebSocket);
    let slot = scope.get::<Arc<ConnectionSlot>>().cloned();
    let serving = endpoint.tasks.spawn(async move {
        if let Ok(stream) = upgraded.await {
            connection::serve(context, scope, TokioIo::new(stream), limits, shutdown).await;
        }
    });
    if let Some(slot) = slot {
        slot.set_task(serving);
    }
    let mut reply = response::status(101);
    set_upgrade_headers(&mut reply);
    reply.headers_mut().insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    let spoken = HeaderValue::from_static(MCP_SUBPROTOCOL);
    reply.headers_mut().insert(header::SEC_WEBSOCKET_PROTOCOL, spoken);
    reply
}

fn set_upgrade_headers(reply: &mut HttpResponse) {
    let headers = reply.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, WEBSOCKET);
}

/// Returns the elements of a list header, from all its lines.
fn tokens(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &str> {
    let lines = headers.get_all(name).into_iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).map(str::trim)
}

/// Returns the value of `Sec-WebSocket-Key` if it is valid.
fn key(headers: &HeaderMap) -> Option<&[u8]> {
    let mut keys = headers.get_all(header::SEC_WEBSOCKET_KEY).into_iter();
    let (Some(key), None) = (keys.next(), keys.next()) else { return None };
    // The Base64 of 16 bytes.
    let is_digit = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    let digits = key.as_bytes().strip_suffix(b"==").filter(|digits| digits.len() == 22)?;
    digits.iter().all(is_digit).then(|| key.as_bytes())
}
