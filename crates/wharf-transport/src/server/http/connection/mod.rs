//! Accept loop and connections of the HTTP server. Every wait for a client has a timeout.

pub(crate) mod drain;
pub(crate) mod head_and_write_timeouts;
pub(crate) mod http1;
pub(crate) mod http2;
mod refusals;
#[cfg(feature = "tls")]
pub(crate) mod tls;

use std::{convert::Infallible, net::SocketAddr, pin::Pin, sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use http::{Request, StatusCode, request::Parts};
use hyper::body::Incoming;
use socket2::{SockRef, TcpKeepalive};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite},
    net::{TcpListener, TcpStream},
    time::timeout,
};

use wharf_model::{ObservedTransport, RefusalReason, RequestExtensions};

use crate::server::http::{
    HttpService,
    connection::{
        drain::drain,
        http1::{ResponseGuard, serve_http1},
        http2::{HTTP2_PREFACE, serve_http2},
        refusals::{SERVER_FULL_RESPONSE, refuse_connection},
    },
    request_body::discard_body,
    request_checks,
    request_headers::RequestHeaders,
    response,
    service::HttpEndpoint,
};
use crate::server::{
    limits::{
        connection_slots::{ConnectionSlot, SlotGuard},
        write_timeout::limit_unsent_bytes,
    },
    listener::{AcceptLimits, SocketListener, accept_loop, log_start},
    observed::ObservedPeer,
};

/// Interval of TCP keep-alive probes; the connection is closed after four without an answer.
const TCP_KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);

/// Accepts and serves connections until the server shuts down, then drains them within the grace period
/// (graceful shutdown).
pub async fn serve(service: HttpService, listener: TcpListener) {
    let endpoint = service.endpoint;
    let limits = endpoint.context.http_limits;
    log_start(ObservedTransport::Http, &listener.address());
    let client =
        |stream, scope, slot_guard| connection(endpoint.clone(), stream, scope, slot_guard);
    // A client that expects TLS cannot read a plain response.
    let refusal = if endpoint.http.is_encrypted() { &[][..] } else { SERVER_FULL_RESPONSE };
    let accept_limits = AcceptLimits {
        connections: limits.connections,
        refusal,
        shortage: &endpoint.context.shortage,
        setting: "the number of connections (`HttpLimits::connections`)",
        context: &endpoint.context,
        transport: Some(ObservedTransport::Http),
    };
    let mut clients = accept_loop(listener, accept_limits, &endpoint.shutdown, client).await;
    drain(&endpoint, &mut clients).await;
}

async fn connection(
    endpoint: Arc<HttpEndpoint>,
    stream: TcpStream,
    mut scope: RequestExtensions,
    slot_guard: SlotGuard,
) {
    scope.insert(ObservedTransport::Http);
    // Responses are written whole, so delaying small writes (Nagle's algorithm) only costs time.
    let _ = stream.set_nodelay(true);
    limit_unsent_bytes(&stream);
    // A client that vanished without closing would keep its streams while they are silent.
    let probes = TcpKeepalive::new()
        .with_time(TCP_KEEPALIVE_INTERVAL)
        .with_interval(TCP_KEEPALIVE_INTERVAL)
        .with_retries(3);
    let _ = SockRef::from(&stream).set_tcp_keepalive(&probes);
    #[cfg(feature = "tls")]
    if let Some(tls) = &endpoint.http.tls {
        let accepted = within_head_timeout(&endpoint, tls.accept(stream)).await;
        if let Some(Err(error)) = &accepted {
            let peer = ObservedPeer::new(&endpoint.context, &scope);
            peer.refused(RefusalReason::TlsHandshake, &error.to_string());
        }
        if let Some(Ok(stream)) = accepted {
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
    let refusal = negotiated.refusal(&prefix, is_http2);
    if let Some(why) = refusal {
        ObservedPeer::new(&endpoint.context, &scope).refused(RefusalReason::BadRequest, why);
    }
    match refusal {
        None if is_http2 => serve_http2(endpoint, stream, prefix, scope, slot_guard).await,
        None => serve_http1(endpoint, stream, prefix, scope, slot_guard).await,
        Some("") => {}
        Some(why) => refuse_connection(&mut stream, why).await,
    }
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

/// Reports why a connection ended, if that is the client's fault and no request was refused for it.
fn report_end(peer: &ObservedPeer, slot: &ConnectionSlot, ended: hyper::Result<()>) {
    if slot.is_stalled() {
        return peer.slow_client();
    }
    let is = |test: fn(&hyper::Error) -> bool| ended.as_ref().is_err_and(test);
    let faults = [
        (
            slot.has_slow_head(),
            RefusalReason::RequestTimeout,
            "the head of a request took too long to arrive",
        ),
        (
            is(hyper::Error::is_parse_too_large),
            RefusalReason::TooLarge,
            "the head of a request is too long",
        ),
        (
            is(hyper::Error::is_parse),
            RefusalReason::BadRequest,
            "the head of a request is malformed",
        ),
    ];
    if let Some((_, reason, detail)) = faults.into_iter().find(|fault| fault.0) {
        peer.refused(reason, detail);
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

/// Where a request comes from, and whether its head may be a request.
#[derive(Clone, Copy)]
pub(crate) struct RequestOrigin {
    /// Address of the client, or of a reverse proxy.
    pub(crate) peer: Option<SocketAddr>,
    /// False if the target has a fragment.
    pub(crate) well_formed: bool,
}

type ServiceResult = Result<response::HttpResponse, Infallible>;

/// Handles a request. The connection counts as responding until the response body has ended.
fn handle_request(
    endpoint: Arc<HttpEndpoint>,
    request: Request<Incoming>,
    mut scope: RequestExtensions,
    response_guard: ResponseGuard,
    RequestOrigin { peer, well_formed }: RequestOrigin,
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
        endpoint.observe(&mut reply, &parts, peer);
        match reply.status() {
            StatusCode::SWITCHING_PROTOCOLS => response_guard.keep(),
            _ => reply.body_mut().hold(response_guard),
        }
        Ok(reply)
    }
}
