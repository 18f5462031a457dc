//! Accept loop and connections of the HTTP server. Every wait for a client has a timeout.

pub(crate) mod drain;
pub(crate) mod head_and_write_timeouts;
pub(crate) mod http1_state;
pub(crate) mod http2_streams;
#[cfg(feature = "tls")]
pub(crate) mod tls;

use std::{
    convert::Infallible,
    future::{pending, ready},
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use http::{Request, StatusCode, request::Parts};
use hyper::{
    body::Incoming,
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use socket2::{SockRef, TcpKeepalive};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::timeout,
};

use wharf_model::{NetworkProtocolVersion, ObservedTransport, RequestExtensions};

use crate::server::http::{
    HttpLimits, HttpService,
    connection::{
        drain::{CLOSE_TIMEOUT, drain, drive},
        head_and_write_timeouts::{IoTimeouts, TimedIo},
        http1_state::{Http1State, ResponseGuard},
        http2_streams::Http2Streams,
    },
    request_body::discard_body,
    request_checks,
    request_headers::RequestHeaders,
    response,
    service::HttpEndpoint,
};
use crate::server::{
    limits::connection_slots::{ConnectionActivity, SlotGuard},
    listener::{AcceptLimits, accept_loop},
};

/// Connection preface of HTTP/2.
const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// First byte of a TLS handshake.
const TLS_HANDSHAKE_BYTE: u8 = 0x16;
/// Largest number of bytes that are read and discarded from a client that is refused.
const MAX_DISCARDED_BYTES: u64 = 64 << 10;
/// Interval of TCP keep-alive probes; the connection is closed after four without an answer.
const TCP_KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);
/// Interval of HTTP/2 PING frames on a silent connection.
const HTTP2_PING_INTERVAL: Duration = Duration::from_secs(30);
/// Response to a client that is refused because the server is full.
const SERVER_FULL_RESPONSE: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\n\
content-type: application/json\r\ncontent-length: 117\r\n\r\n\
{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32600,\"message\":\"The server is full: all connections are in use. Try again later\"}}";
/// Largest number of bytes that an HTTP/2 stream buffers for its peer.
const MAX_SEND_BUFFER_BYTES: usize = 64 << 10;

/// Accepts and serves connections until the server shuts down, then drains them within the grace period
/// (graceful shutdown).
pub async fn serve(service: HttpService, listener: TcpListener) {
    let endpoint = service.endpoint;
    let limits = endpoint.context.http_limits;
    let client =
        |stream, scope, slot_guard| connection(endpoint.clone(), stream, scope, slot_guard);
    // A client that expects TLS cannot read a plain response.
    let refusal = if endpoint.http.is_encrypted() { &[][..] } else { SERVER_FULL_RESPONSE };
    let accept_limits =
        AcceptLimits { connections: limits.connections, refusal, shortage: &endpoint.shortage };
    let mut clients = accept_loop(listener, accept_limits, &endpoint.shutdown, client).await;
    drain(&endpoint, &mut clients).await;
}

async fn connection(
    endpoint: Arc<HttpEndpoint>,
    stream: TcpStream,
    scope: RequestExtensions,
    slot_guard: SlotGuard,
) {
    // Responses are written whole, so delaying small writes (Nagle's algorithm) only costs time.
    let _ = stream.set_nodelay(true);
    // A client that vanished without closing would keep its streams while they are silent.
    let probes = TcpKeepalive::new()
        .with_time(TCP_KEEPALIVE_INTERVAL)
        .with_interval(TCP_KEEPALIVE_INTERVAL)
        .with_retries(3);
    let _ = SockRef::from(&stream).set_tcp_keepalive(&probes);
    #[cfg(feature = "tls")]
    if let Some(tls) = &endpoint.http.tls {
        if let Some(Ok(stream)) = within_head_timeout(&endpoint, tls.accept(stream)).await {
            let mut scope = scope;
            if let Some(certificate) =
                crate::server::http::connection::tls::client_certificate(&stream)
            {
                scope.insert(certificate);
            }
            let negotiated = crate::server::http::connection::tls::negotiated(&stream);
            serve_connection(&endpoint, stream, negotiated, scope, slot_guard).await;
        }
        return;
    }
    serve_connection(&endpoint, stream, NegotiatedProtocol::Plain, scope, slot_guard).await;
}

/// Protocol of a connection, as far as it is known before the first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "tls"), expect(dead_code, reason = "only TLS negotiates a version"))]
pub(crate) enum NegotiatedProtocol {
    /// Not encrypted: any version of HTTP.
    Plain,
    /// Encrypted without ALPN: any version of HTTP.
    Any,
    /// Version negotiated with ALPN.
    Http1,
    Http2,
}

impl NegotiatedProtocol {
    /// Returns the reason to refuse a client with these first bytes. Empty if the client could not read a
    /// response.
    fn refusal(self, prefix: &[u8], is_http2: bool) -> Option<&'static str> {
        match self {
            NegotiatedProtocol::Plain if prefix[0] == TLS_HANDSHAKE_BYTE => {
                Some("This port does not use TLS: use http:// instead of https://")
            }
            NegotiatedProtocol::Http1 if is_http2 => {
                Some("The TLS handshake negotiated HTTP/1.1, not HTTP/2")
            }
            NegotiatedProtocol::Http2 if !is_http2 => Some(""),
            _ => None,
        }
    }
}

/// Sends the reason in an HTTP/1.1 response and closes the connection before its first request.
async fn refuse_connection(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), why: &str) {
    let response = format!(
        "HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n{why}\n",
        why.len() + 1,
    );
    let sending = async {
        stream.write_all(response.as_bytes()).await?;
        stream.shutdown().await?;
        // Closing a socket with unread input resets the connection, and the client may lose the response.
        tokio::io::copy(&mut stream.take(MAX_DISCARDED_BYTES), &mut tokio::io::sink()).await
    };
    let _ = timeout(CLOSE_TIMEOUT, sending).await;
}

/// Serves a connection with the version of HTTP that its first bytes show.
async fn serve_connection<S>(
    endpoint: &Arc<HttpEndpoint>,
    mut stream: S,
    negotiated: NegotiatedProtocol,
    scope: RequestExtensions,
    slot_guard: SlotGuard,
) where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let Some(Some((prefix, is_http2))) =
        within_head_timeout(endpoint, first_bytes(&mut stream)).await
    else {
        return;
    };
    match negotiated.refusal(&prefix, is_http2) {
        None if is_http2 => serve_http2(endpoint, stream, prefix, scope, slot_guard).await,
        None => serve_http1(endpoint, stream, prefix, scope, slot_guard).await,
        Some("") => {}
        Some(why) => refuse_connection(&mut stream, why).await,
    }
}

async fn serve_http1<S>(
    endpoint: &Arc<HttpEndpoint>,
    stream: S,
    prefix: Bytes,
    mut scope: RequestExtensions,
    slot_guard: SlotGuard,
) where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let limits = endpoint.context.http_limits;
    let (slot, state) = (slot_guard.slot().clone(), Http1State::default());
    slot.set_activity(ConnectionActivity::Http1(state.clone()));
    scope.insert(slot);
    scope.insert(ObservedTransport::Http);
    scope.insert(NetworkProtocolVersion("1.1"));
    let scope = scope.shared();
    let timeouts = IoTimeouts { head: Some((limits.head, state.clone())), write: limits.write };
    let io = TokioIo::new(TimedIo::new(stream, prefix, timeouts, slot_guard));
    let handle_request = service_fn(|request| {
        let well_formed = !state.has_fragment();
        handle_request(
            endpoint.clone(),
            request,
            scope.clone(),
            state.begin_response(),
            well_formed,
        )
    });
    let connection = http1(&limits).serve_connection(io, handle_request).with_upgrades();
    drive(endpoint, connection, |it| it.graceful_shutdown(), |_| pending(), ready(())).await;
}

async fn serve_http2<S>(
    endpoint: &Arc<HttpEndpoint>,
    stream: S,
    prefix: Bytes,
    mut scope: RequestExtensions,
    slot_guard: SlotGuard,
) where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let limits = endpoint.context.http_limits;
    let (slot, state, streams) =
        (slot_guard.slot().clone(), Http1State::default(), Http2Streams::new(limits.write));
    slot.set_activity(ConnectionActivity::Http2(streams.observer()));
    scope.insert(slot);
    scope.insert(ObservedTransport::Http);
    scope.insert(NetworkProtocolVersion("2"));
    let scope = scope.shared();
    // `Http2Streams` closes idle HTTP/2 connections, so there is no timeout for the next head.
    let timeouts = IoTimeouts { head: None, write: limits.write };
    let io = TokioIo::new(TimedIo::new(stream, prefix, timeouts, slot_guard));
    // The parser drops fragments, so a target with a fragment is served as the path alone.
    let handle_request = service_fn(|request| {
        handle_request(endpoint.clone(), request, scope.clone(), state.begin_response(), true)
    });
    let connection = http2(&limits, &streams).serve_connection(io, handle_request);
    let idle = |period| streams.idle(period);
    drive(endpoint, connection, |it| it.graceful_shutdown(), idle, streams.idle(Duration::ZERO))
        .await;
}

/// Runs a step before the first request, such as the TLS handshake, within the head timeout.
async fn within_head_timeout<T>(
    endpoint: &HttpEndpoint,
    step: impl Future<Output = T>,
) -> Option<T> {
    tokio::select! {
        result = timeout(endpoint.context.http_limits.head, step) => result.ok(),
        () = endpoint.shutdown.stopped() => None,
    }
}

fn http1(limits: &HttpLimits) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        // `TimedIo` applies this timeout.
        .header_read_timeout(None)
        .max_header_size(limits.headers)
        .max_buf_size(limits.headers.max(8 << 10));
    builder
}

fn http2(limits: &HttpLimits, streams: &Http2Streams) -> http2::Builder<Http2Streams> {
    let mut builder = http2::Builder::new(streams.clone());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(u32::try_from(limits.streams).ok())
        .max_header_list_size(u32::try_from(limits.headers).unwrap_or(u32::MAX))
        .max_send_buf_size(MAX_SEND_BUFFER_BYTES)
        .keep_alive_interval(HTTP2_PING_INTERVAL)
        .keep_alive_timeout(limits.write);
    builder
}

/// Reads the first bytes, and detects HTTP/2. None if the client disconnects.
///
/// A client that starts like the HTTP/2 preface must complete it, within the head timeout.
async fn first_bytes(stream: &mut (impl AsyncRead + Unpin)) -> Option<(Bytes, bool)> {
    let mut prefix = BytesMut::with_capacity(HTTP2_PREFACE.len());
    loop {
        let mut room = (&mut *stream).take((HTTP2_PREFACE.len() - prefix.len()) as u64);
        if room.read_buf(&mut prefix).await.ok()? == 0 {
            return None;
        }
        if !HTTP2_PREFACE.starts_with(&prefix) {
            return Some((prefix.freeze(), false));
        }
        if prefix.len() == HTTP2_PREFACE.len() {
            return Some((prefix.freeze(), true));
        }
    }
}

/// Returns the response for a path that is not served.
fn not_found(endpoint: &HttpEndpoint, parts: &Parts) -> response::HttpResponse {
    match request_checks::check_framing(parts, &RequestHeaders::of(&parts.headers)) {
        Err(refusal) => *refusal,
        Ok(()) => {
            let problem =
                format!("Nothing is served at this path: the endpoint is {}", endpoint.http.path);
            response::refuse(404, &problem)
        }
    }
}

type ServiceResult = Result<response::HttpResponse, Infallible>;

/// Handles a request. The connection counts as responding until the response body has ended.
fn handle_request(
    endpoint: Arc<HttpEndpoint>,
    request: Request<Incoming>,
    mut scope: RequestExtensions,
    response_guard: ResponseGuard,
    well_formed: bool,
) -> impl Future<Output = ServiceResult> {
    let (mut parts, mut body) = request.into_parts();
    scope.extend([std::mem::take(&mut parts.extensions)]);
    async move {
        let mut reply = match well_formed && endpoint.http.serves(parts.uri.path()) {
            true => endpoint.request(&parts, scope, Pin::new(&mut body)).await,
            false => {
                let reply = match well_formed {
                    true => not_found(&endpoint, &parts),
                    false => request_checks::malformed(
                        400,
                        "A request target must not have a fragment (#…)",
                    ),
                };
                discard_body(reply, &parts, Pin::new(&mut body)).await
            }
        };
        match reply.status() {
            StatusCode::SWITCHING_PROTOCOLS => response_guard.keep(),
            _ => reply.body_mut().hold(response_guard),
        }
        Ok(reply)
    }
}
