//! Our own accept loop: every wait for a client has an end.

pub(crate) mod http1_state;
pub(crate) mod http2_streams;
pub(crate) mod io_timeouts;
#[cfg(feature = "tls")]
pub(crate) mod tls;

use std::{
    convert::Infallible,
    future::{pending, ready},
    pin::{Pin, pin},
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
    time::{Instant, timeout, timeout_at},
};

use wharf_model::RequestExtensions;

use crate::server::http::{
    HttpLimits, HttpService,
    connection::{
        http1_state::{Turn, Turns},
        http2_streams::Streams,
        io_timeouts::{Io, Patience},
    },
    host_origin,
    request_body::turned_away,
    request_headers::Seen,
    response,
    service::Site,
};
use crate::server::{
    limits::connection_slots::{Sitting, Spoken},
    listener::{Admission, welcome},
};

/// What an HTTP/2 connection begins with.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// What a handshake of TLS begins with.
const HANDSHAKE: u8 = 0x16;
/// How much of what a client sends to the wrong port is read.
const UNREAD: u64 = 64 << 10;
/// How often the system asks whether a silent client is still there; it is gone after four times.
const PROBE: Duration = Duration::from_secs(15);
/// How often a silent HTTP/2 connection is asked whether it is alive.
const PING: Duration = Duration::from_secs(30);
/// How long the last words may take once the grace is over.
const FAREWELL: Duration = Duration::from_secs(1);
/// What a client is told that finds no place among the connections.
const REFUSAL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\n\
content-type: application/json\r\ncontent-length: 117\r\n\r\n\
{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32600,\"message\":\"The server is full: all connections are in use. Try again later\"}}";
/// How many bytes wait in a connection for its peer to read them.
const BUFFER: usize = 64 << 10;

/// Serves every client that comes until the service's server shuts down, and then those that are
/// there for as long as their grace lasts.
pub async fn serve(service: HttpService, listener: TcpListener) {
    let site = service.site;
    let limits = site.http.limits;
    let client = |stream, scope, seat| connection(site.clone(), stream, scope, seat);
    // A client that expects TLS could not read it in the clear.
    let refusal = if site.http.is_encrypted() { &[][..] } else { REFUSAL };
    let admission =
        Admission { connections: limits.connections, refusal, shortage: &site.shortage };
    let mut clients = welcome(listener, admission, &site.shutdown, client).await;
    // Calls that are cut off when the grace is over are answered, which takes a moment.
    let deadline = Instant::now() + limits.grace + FAREWELL;
    let ended = async { while clients.join_next().await.is_some() {} };
    let _ = timeout_at(deadline, ended).await;
    clients.shutdown().await;
    // Lines say goodbye after that.
    site.tasks.finish(deadline).await;
}

impl HttpService {
    /// Waits until the server is told to stop and what outlives its requests has ended: WebSockets and the calls of
    /// legacy sessions, each within its grace period. For servers that are mounted in an application of one's own; the
    /// accept loop of [`serve`] does so itself.
    pub async fn drained(&self) {
        let site = &self.site;
        site.shutdown.stopped().await;
        site.tasks.finish(Instant::now() + site.http.limits.grace + FAREWELL).await;
    }
}

async fn connection(site: Arc<Site>, stream: TcpStream, scope: RequestExtensions, seat: Sitting) {
    // Replies are written whole, so waiting for more to send only delays them.
    let _ = stream.set_nodelay(true);
    // A client that is gone without a word would hold its streams for as long as they are silent.
    let probes = TcpKeepalive::new().with_time(PROBE).with_interval(PROBE).with_retries(3);
    let _ = SockRef::from(&stream).set_tcp_keepalive(&probes);
    #[cfg(feature = "tls")]
    if let Some(tls) = &site.http.tls {
        if let Some(Ok(stream)) = in_time(&site, tls.accept(stream)).await {
            let mut scope = scope;
            if let Some(certificate) = crate::server::http::connection::tls::certificate(&stream) {
                scope.insert(certificate);
            }
            let agreed = crate::server::http::connection::tls::agreed(&stream);
            serve_connection(&site, stream, agreed, scope, seat).await;
        }
        return;
    }
    serve_connection(&site, stream, Agreed::Plain, scope, seat).await;
}

/// What a client may speak, by what came before its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "tls"), expect(dead_code, reason = "only TLS agrees on a version"))]
pub(crate) enum Agreed {
    /// Nothing is encrypted: any version of HTTP.
    Plain,
    /// Any version of HTTP, because the client of an encrypted connection named none.
    Any,
    /// The version that the handshake of TLS ended with.
    Http1,
    Http2,
}

impl Agreed {
    /// Why a client may not begin like this. An empty text is for one that would not understand it.
    fn refusal(self, begun: &[u8], is_http2: bool) -> Option<&'static str> {
        match self {
            Agreed::Plain if begun[0] == HANDSHAKE => {
                Some("This port does not speak TLS: use http:// instead of https://")
            }
            Agreed::Http1 if is_http2 => Some("HTTP/1.1 was agreed on, not HTTP/2"),
            Agreed::Http2 if !is_http2 => Some(""),
            _ => None,
        }
    }
}

/// Says in plain HTTP/1.1 why a connection ends before its first request.
async fn turn_down(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), why: &str) {
    let told = format!(
        "HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n{why}\n",
        why.len() + 1,
    );
    let telling = async {
        stream.write_all(told.as_bytes()).await?;
        stream.shutdown().await?;
        // A connection that is closed with input unread takes back what the client has not read yet.
        tokio::io::copy(&mut stream.take(UNREAD), &mut tokio::io::sink()).await
    };
    let _ = timeout(FAREWELL, telling).await;
}

/// Serves a connection in the version of HTTP that its first bytes have.
async fn serve_connection<S>(
    site: &Arc<Site>,
    mut stream: S,
    agreed: Agreed,
    scope: RequestExtensions,
    seat: Sitting,
) where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let Some(Some((begun, is_http2))) = in_time(site, first_bytes(&mut stream)).await else {
        return;
    };
    match agreed.refusal(&begun, is_http2) {
        None if is_http2 => serve_http2(site, stream, begun, scope, seat).await,
        None => serve_http1(site, stream, begun, scope, seat).await,
        Some("") => {}
        Some(why) => turn_down(&mut stream, why).await,
    }
}

async fn serve_http1<S>(
    site: &Arc<Site>,
    stream: S,
    begun: Bytes,
    mut scope: RequestExtensions,
    seat: Sitting,
) where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let limits = site.http.limits;
    let (place, turns) = (seat.seat().clone(), Turns::default());
    place.speaks(Spoken::Http1(turns.clone()));
    scope.insert(place);
    let scope = scope.shared();
    let patience = Patience { head: Some((limits.head, turns.clone())), write: limits.write };
    let io = TokioIo::new(Io::new(stream, begun, patience, seat));
    let answer = service_fn(|request| {
        let well_formed = !turns.has_fragment();
        answer(site.clone(), request, scope.clone(), turns.take(), well_formed)
    });
    let connection = http1(&limits).serve_connection(io, answer).with_upgrades();
    drive(site, connection, |it| it.graceful_shutdown(), |_| pending(), ready(())).await;
}

async fn serve_http2<S>(
    site: &Arc<Site>,
    stream: S,
    begun: Bytes,
    mut scope: RequestExtensions,
    seat: Sitting,
) where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let limits = site.http.limits;
    let (place, turns, streams) =
        (seat.seat().clone(), Turns::default(), Streams::new(limits.write));
    place.speaks(Spoken::Http2(streams.seen()));
    scope.insert(place);
    let scope = scope.shared();
    // `Streams` closes idle HTTP/2 connections, so there is no timeout for the next head.
    let patience = Patience { head: None, write: limits.write };
    let io = TokioIo::new(Io::new(stream, begun, patience, seat));
    // The parser drops fragments: a target with one is the path without it.
    let answer =
        service_fn(|request| answer(site.clone(), request, scope.clone(), turns.take(), true));
    let connection = http2(&limits, &streams).serve_connection(io, answer);
    let idle = |patience| streams.idle(patience);
    drive(site, connection, |it| it.graceful_shutdown(), idle, streams.idle(Duration::ZERO)).await;
}

/// Polls a connection until its end. Shuts it down gracefully when the server stops or the connection is idle.
async fn drive<C: Future, F: Future<Output = ()>>(
    site: &Site,
    connection: C,
    shut_down: impl FnOnce(Pin<&mut C>),
    idle: impl Fn(Duration) -> F,
    drained: impl Future<Output = ()>,
) {
    let mut connection = pin!(connection);
    tokio::select! {
        biased;
        _ = &mut connection => return,
        () = site.shutdown.stopped() => {}
        () = idle(site.http.limits.head) => {}
    }
    // Some clients read nothing more after GOAWAY.
    tokio::select! {
        _ = &mut connection => return,
        _ = timeout(FAREWELL, drained) => {}
    }
    shut_down(connection.as_mut());
    tokio::select! {
        _ = &mut connection => {}
        () = idle(FAREWELL) => {}
    }
}

/// What a client does before its first request, if it does it in time.
async fn in_time<T>(site: &Site, beginning: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        begun = timeout(site.http.limits.head, beginning) => begun.ok(),
        () = site.shutdown.stopped() => None,
    }
}

fn http1(limits: &HttpLimits) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        // The stream beneath it sees to that.
        .header_read_timeout(None)
        .max_header_size(limits.headers)
        .max_buf_size(limits.headers.max(8 << 10));
    builder
}

fn http2(limits: &HttpLimits, streams: &Streams) -> http2::Builder<Streams> {
    let mut builder = http2::Builder::new(streams.clone());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(u32::try_from(limits.streams).ok())
        .max_header_list_size(u32::try_from(limits.headers).unwrap_or(u32::MAX))
        .max_send_buf_size(BUFFER)
        .keep_alive_interval(PING)
        .keep_alive_timeout(limits.write);
    builder
}

/// What the client begins with, and whether that is HTTP/2. None if it leaves before it begins.
///
/// A client that begins like HTTP/2 must go on like it, or it could take its time for ever.
async fn first_bytes(stream: &mut (impl AsyncRead + Unpin)) -> Option<(Bytes, bool)> {
    let mut begun = BytesMut::with_capacity(PREFACE.len());
    loop {
        let mut room = (&mut *stream).take((PREFACE.len() - begun.len()) as u64);
        if room.read_buf(&mut begun).await.ok()? == 0 {
            return None;
        }
        if !PREFACE.starts_with(&begun) {
            return Some((begun.freeze(), false));
        }
        if begun.len() == PREFACE.len() {
            return Some((begun.freeze(), true));
        }
    }
}

/// Answers a request for another path than those that are served.
fn nowhere(site: &Site, parts: &Parts) -> response::Reply {
    match host_origin::check_form(parts, &Seen::of(&parts.headers)) {
        Err(refusal) => *refusal,
        Ok(()) => {
            let problem = format!("There is nothing here: the endpoint is {}", site.http.path);
            response::refuse(404, &problem)
        }
    }
}

type Answer = Result<response::Reply, Infallible>;

/// Answers a request. It is our turn until the answer's end.
fn answer(
    site: Arc<Site>,
    request: Request<Incoming>,
    mut scope: RequestExtensions,
    turn: Turn,
    well_formed: bool,
) -> impl Future<Output = Answer> {
    let (mut parts, mut body) = request.into_parts();
    scope.extend([std::mem::take(&mut parts.extensions)]);
    async move {
        let mut reply = match well_formed && site.http.serves(parts.uri.path()) {
            true => site.request(&parts, scope, Pin::new(&mut body)).await,
            false => {
                let reply = match well_formed {
                    true => nowhere(&site, &parts),
                    false => host_origin::malformed(400, "A request target has no fragment (#…)"),
                };
                turned_away(reply, &parts, Pin::new(&mut body)).await
            }
        };
        match reply.status() {
            StatusCode::SWITCHING_PROTOCOLS => turn.keep(),
            _ => reply.body_mut().hold(turn),
        }
        Ok(reply)
    }
}
