//! TLS with rustls and the system's root certificates.

use std::{io, sync::Arc};

use tokio::{net::TcpStream, sync::OnceCell};
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{self, ClientConfig, RootCertStore, crypto::ring, pki_types::ServerName},
};

pub(super) type TlsClientStream = TlsStream<TcpStream>;

/// TLS configuration. Root certificates are loaded on first use, which takes milliseconds.
#[derive(Clone, Default)]
pub(super) struct TlsTrust {
    config: Arc<OnceCell<Arc<ClientConfig>>>,
    without_http2: bool,
}

impl TlsTrust {
    #[cfg(feature = "websocket")]
    pub(super) fn without_http2() -> TlsTrust {
        TlsTrust { without_http2: true, ..TlsTrust::default() }
    }

    pub(super) async fn encrypt(
        &self,
        host: &str,
        stream: TcpStream,
    ) -> io::Result<TlsClientStream> {
        let load = || load(self.without_http2);
        let config = self.config.get_or_try_init(load).await?.clone();
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        TlsConnector::from(config).connect(name, stream).await
    }
}

async fn load(without_http2: bool) -> io::Result<Arc<ClientConfig>> {
    tokio::task::spawn_blocking(move || config(without_http2)).await.map_err(io::Error::other)?
}

fn config(without_http2: bool) -> io::Result<Arc<ClientConfig>> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let why = found.errors.first().map_or(String::new(), |error| format!(": {error}"));
        return Err(io::Error::other(format!(
            "this system has no root certificates{why}; set SSL_CERT_FILE"
        )));
    }
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let protocols = [&b"h2"[..], b"http/1.1"];
    let offered = &protocols[usize::from(without_http2)..];
    config.alpn_protocols = offered.iter().map(|it| it.to_vec()).collect();
    Ok(Arc::new(config))
}

/// Detects a handshake with a server that does not use TLS: `Some(true)` if it answered with
/// something else, `Some(false)` if it closed the connection, which may have this reason, and
/// `None` for any other error.
pub(super) fn is_not_tls(error: &io::Error) -> Option<bool> {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match (inner, error.kind()) {
        (Some(rustls::Error::InvalidMessage(_)), _) => Some(true),
        (None, io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset) => Some(false),
        _ => None,
    }
}

pub(super) fn is_http2(stream: &TlsClientStream) -> bool {
    stream.get_ref().1.alpn_protocol() == Some(b"h2")
}
