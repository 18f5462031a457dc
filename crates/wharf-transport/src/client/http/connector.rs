//! Opens TCP and TLS connections to servers.

use std::{
    fmt, io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use http::Uri;
use hyper_util::{
    client::legacy::connect::{Connected, Connection},
    rt::TokioIo,
};
use socket2::{SockRef, TcpKeepalive};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpStream, lookup_host},
    task::JoinSet,
    time::timeout,
};
use wharf_model::BoxFuture;

use crate::client::http::server_url::Origin;
#[cfg(feature = "tls")]
use crate::client::http::tls::{TlsClientStream, TlsTrust};

/// Timeout of a connection, including DNS and TLS.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Delay before the next address is tried in parallel (happy eyeballs).
const NEXT_ADDRESS_DELAY: Duration = Duration::from_millis(250);

/// Interval of TCP keep-alive probes; the connection is dropped after four without an answer.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(30);

/// Connection error, as text for users.
#[derive(Debug)]
pub(crate) struct ConnectError(pub(crate) String, pub(crate) Option<Arc<io::Error>>);

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ConnectError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.1.as_deref().map(|error| error as _)
    }
}

/// Connects to the origin of a URL.
#[derive(Clone, Default)]
pub(crate) struct HttpConnector {
    #[cfg(feature = "tls")]
    trust: TlsTrust,
}

impl HttpConnector {
    /// Creates a connector for WebSocket, which needs HTTP/1.1.
    #[cfg(feature = "websocket")]
    pub(crate) fn for_websocket() -> HttpConnector {
        HttpConnector {
            #[cfg(feature = "tls")]
            trust: TlsTrust::without_http2(),
        }
    }

    pub(crate) async fn open(&self, origin: &Origin) -> Result<ClientStream, ConnectError> {
        match timeout(CONNECT_TIMEOUT, self.connect(origin)).await {
            Ok(connected) => connected,
            Err(_) => {
                let seconds = CONNECT_TIMEOUT.as_secs();
                Err(ConnectError(format!("{origin} did not respond within {seconds} s"), None))
            }
        }
    }

    #[cfg(feature = "tls")]
    async fn connect(&self, origin: &Origin) -> Result<ClientStream, ConnectError> {
        let stream = connect_tcp(origin).await?;
        if !origin.is_encrypted() {
            return Ok(ClientStream::Plain(stream));
        }
        match self.trust.encrypt(origin.host(), stream).await {
            Ok(stream) => Ok(ClientStream::Encrypted(Box::new(stream))),
            Err(error) => {
                let problem = match crate::client::http::tls::is_not_tls(&error) {
                    Some(true) => {
                        let plain = origin.unencrypted();
                        format!("the server at {origin} does not speak TLS; try {plain}")
                    }
                    Some(false) => {
                        let plain = origin.unencrypted();
                        format!(
                            "{origin} ended the TLS handshake ({error}); if it does not speak TLS, try {plain}"
                        )
                    }
                    None => format!("{origin} has no trusted certificate ({error})"),
                };
                Err(ConnectError(problem, Some(Arc::new(error))))
            }
        }
    }

    #[cfg(not(feature = "tls"))]
    async fn connect(&self, origin: &Origin) -> Result<ClientStream, ConnectError> {
        if origin.is_encrypted() {
            let problem = "https needs the feature `tls`, and this program was built without it";
            return Err(ConnectError(problem.into(), None));
        }
        connect_tcp(origin).await.map(ClientStream::Plain)
    }
}

impl tower_service::Service<Uri> for HttpConnector {
    type Response = TokioIo<ClientStream>;
    type Error = ConnectError;
    type Future = BoxFuture<Result<TokioIo<ClientStream>, ConnectError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ConnectError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connector = self.clone();
        Box::pin(async move { connector.open(&Origin::of(&uri)).await.map(TokioIo::new) })
    }
}

async fn connect_tcp(origin: &Origin) -> Result<TcpStream, ConnectError> {
    let (host, port) = (origin.host(), origin.port());
    let addresses = match lookup_host((host, port)).await {
        Ok(addresses) => addresses.collect::<Vec<_>>(),
        Err(error) => {
            let problem = format!("cannot resolve host {host:?} ({error})");
            return Err(ConnectError(problem, Some(Arc::new(error))));
        }
    };
    let stream = first_of(addresses).await.map_err(|error| {
        let problem = match error.kind() {
            io::ErrorKind::ConnectionRefused => {
                format!("nothing listens at {host}:{port} (connection refused)")
            }
            _ => format!("{host}:{port} cannot be reached ({error})"),
        };
        ConnectError(problem, Some(Arc::new(error)))
    })?;
    // Messages are written whole, so Nagle's algorithm would only delay them.
    let _ = stream.set_nodelay(true);
    // A server that vanished would otherwise leave its streams open for ever.
    let probes = TcpKeepalive::new()
        .with_time(KEEPALIVE_INTERVAL)
        .with_interval(KEEPALIVE_INTERVAL)
        .with_retries(3);
    let _ = SockRef::from(&stream).set_tcp_keepalive(&probes);
    Ok(stream)
}

/// The first address that accepts the connection. Some addresses of a name may be unreachable.
async fn first_of(addresses: Vec<SocketAddr>) -> io::Result<TcpStream> {
    let mut attempts = JoinSet::new();
    let mut problem = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in addresses {
        attempts.spawn(TcpStream::connect(address));
        while let Ok(Some(Ok(ended))) = timeout(NEXT_ADDRESS_DELAY, attempts.join_next()).await {
            match ended {
                Ok(stream) => return Ok(stream),
                Err(error) => problem = error,
            }
        }
    }
    while let Some(Ok(ended)) = attempts.join_next().await {
        match ended {
            Ok(stream) => return Ok(stream),
            Err(error) => problem = error,
        }
    }
    Err(problem)
}

/// A connection, encrypted or not.
pub(crate) enum ClientStream {
    Plain(TcpStream),
    #[cfg(feature = "tls")]
    Encrypted(Box<TlsClientStream>),
}

/// Runs the same code on either variant.
macro_rules! each {
    ($stream:expr, $it:ident => $do:expr) => {
        match $stream.get_mut() {
            ClientStream::Plain($it) => $do,
            #[cfg(feature = "tls")]
            ClientStream::Encrypted($it) => $do,
        }
    };
}

impl Connection for ClientStream {
    fn connected(&self) -> Connected {
        match self {
            ClientStream::Plain(_) => Connected::new(),
            #[cfg(feature = "tls")]
            ClientStream::Encrypted(stream) if crate::client::http::tls::is_http2(stream) => {
                Connected::new().negotiated_h2()
            }
            #[cfg(feature = "tls")]
            ClientStream::Encrypted(_) => Connected::new(),
        }
    }
}

impl AsyncRead for ClientStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        each!(self, it => Pin::new(it).poll_read(cx, buffer))
    }
}

impl AsyncWrite for ClientStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        each!(self, it => Pin::new(it).poll_write(cx, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, it => Pin::new(it).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, it => Pin::new(it).poll_shutdown(cx))
    }
}
