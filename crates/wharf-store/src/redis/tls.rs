//! TLS to Redis (`rediss:`) by rustls. The TLS support of the `redis` crate would use the
//! process-wide cryptography provider, and would load the root certificates again for each
//! connection.

use std::{io, path::Path, sync::Arc};

use redis::{
    AsyncConnectionConfig, ConnectionAddr, ConnectionInfo, RedisResult, aio::MultiplexedConnection,
};
use tokio::{net::TcpStream, task::AbortHandle, time::timeout};
use tokio_rustls::{
    TlsConnector,
    rustls::{
        CertificateError, ClientConfig, Error as TlsError, RootCertStore,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
    },
};
use wharf_model::Error;

use crate::redis::{connector::RedisConnection, reconnect::COMMAND_TIMEOUT};
use crate::url::invalid_url;

/// Files named in the URL.
#[derive(Clone, Debug, Default)]
pub(super) struct TlsFiles {
    /// Certificate authority that must have signed the certificate of Redis; the system's if
    /// `None`.
    pub(super) ca: Option<String>,
    /// Client certificate for mutual TLS.
    pub(super) cert: Option<String>,
    pub(super) key: Option<String>,
}

impl TlsFiles {
    /// Returns the field of a setting.
    pub(super) fn setting_mut(&mut self, setting: &str) -> &mut Option<String> {
        match setting {
            "ca" => &mut self.ca,
            "cert" => &mut self.cert,
            _ => &mut self.key,
        }
    }
}

/// TLS connector with the trusted roots and the client certificate.
#[derive(Clone)]
pub(super) struct TlsDialer {
    connector: TlsConnector,
}

/// Aborts the task that moves the bytes of a connection when the connection is dropped.
pub(super) struct ConnectionDriver(AbortHandle);

impl Drop for ConnectionDriver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl TlsDialer {
    /// Reads the files, or the system's root certificates, which takes milliseconds.
    pub(super) async fn load(files: TlsFiles) -> Result<Self, Error> {
        let loaded = tokio::task::spawn_blocking(move || config(&files)).await;
        let config = loaded.map_err(Error::internal)??;
        Ok(TlsDialer { connector: TlsConnector::from(Arc::new(config)) })
    }

    pub(super) async fn connect(
        &self,
        info: &ConnectionInfo,
        config: &AsyncConnectionConfig,
    ) -> RedisResult<RedisConnection> {
        let ConnectionAddr::Tcp(host, port) = info.addr() else {
            return Err(io::Error::from(io::ErrorKind::Unsupported).into());
        };
        let connecting = async {
            let name = ServerName::try_from(host.clone()).map_err(io::Error::other)?;
            let stream = TcpStream::connect((host.as_str(), *port)).await?;
            stream.set_nodelay(true)?;
            let stream = self.connector.connect(name, stream).await.map_err(explain)?;
            let settings = info.redis_settings();
            MultiplexedConnection::new_with_config(settings, stream, config.clone()).await
        };
        let connected = timeout(COMMAND_TIMEOUT, connecting).await;
        let (redis, driver) = connected.map_err(|_| handshake_timeout())??;
        let driver = ConnectionDriver(tokio::spawn(driver).abort_handle());
        Ok(RedisConnection { redis, _driver: Some(Arc::new(driver)) })
    }
}

fn config(files: &TlsFiles) -> Result<ClientConfig, Error> {
    let roots = match &files.ca {
        Some(path) => roots_from_file(path)?,
        None => system_roots()?,
    };
    let provider = Arc::new(ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(Error::internal)?
        .with_root_certificates(roots);
    match (&files.cert, &files.key) {
        (Some(cert), Some(key)) => {
            let read = PrivateKeyDer::from_pem_file(key)
                .map_err(|why| unreadable_file("key", key, why))?;
            let config = config.with_client_auth_cert(certificates("cert", cert)?, read);
            config.map_err(|why| unreadable_file("cert", cert, why))
        }
        (None, None) => Ok(config.with_no_client_auth()),
        _ => Err(invalid_url("`cert` and `key` go together: name both or neither")),
    }
}

/// Root certificates from a file. No other authority is trusted.
fn roots_from_file(path: &str) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates("ca", path)? {
        roots.add(certificate).map_err(|why| unreadable_file("ca", path, why))?;
    }
    Ok(roots)
}

fn system_roots() -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    match roots.is_empty() {
        true => Err(invalid_url("this system has no root certificates: name a file with ?ca=PATH")),
        false => Ok(roots),
    }
}

fn certificates(setting: &str, path: &str) -> Result<Vec<CertificateDer<'static>>, Error> {
    let read = CertificateDer::pem_file_iter(Path::new(path)).and_then(Iterator::collect);
    let read: Vec<_> = read.map_err(|why| unreadable_file(setting, path, why))?;
    match read.is_empty() {
        true => Err(unreadable_file(setting, path, "it contains no certificate")),
        false => Ok(read),
    }
}

fn unreadable_file(setting: &str, path: &str, why: impl std::fmt::Display) -> Error {
    invalid_url(format!("cannot read the PEM file {path} of `{setting}`: {why}"))
}

/// Error for a handshake without a reply: a Redis without TLS waits for the end of a line, which
/// never comes.
fn handshake_timeout() -> io::Error {
    io::Error::new(
        io::ErrorKind::TimedOut,
        "no reply to the TLS handshake; does it speak TLS at this port?",
    )
}

/// Replaces common TLS errors by one that says what to do.
fn explain(why: io::Error) -> io::Error {
    let told = why.get_ref().and_then(|why| why.downcast_ref());
    io::Error::other(match told {
        Some(TlsError::InvalidCertificate(
            CertificateError::UnknownIssuer | CertificateError::BadSignature,
        )) => {
            "its certificate is not signed by a trusted authority; name the authority with ?ca=PATH"
        }
        Some(TlsError::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        )) => "its certificate is for another name",
        Some(TlsError::InvalidMessage(_)) => {
            "it does not speak TLS; use redis:// for a connection without TLS"
        }
        _ => return why,
    })
}
