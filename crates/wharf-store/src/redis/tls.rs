//! Redis behind TLS, by rustls. The client of Redis could do it too, but would take whatever provider
//! of cryptography the program happens to have, and read whom to trust anew for each connection.

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

/// The files that the URL names.
#[derive(Clone, Debug, Default)]
pub(super) struct TlsFiles {
    /// The authority that must have signed Redis's certificate; the system's own if there is none.
    pub(super) ca: Option<String>,
    /// Who we are, for a Redis that wants to know.
    pub(super) cert: Option<String>,
    pub(super) key: Option<String>,
}

impl TlsFiles {
    /// The place of a setting.
    pub(super) fn setting_mut(&mut self, setting: &str) -> &mut Option<String> {
        match setting {
            "ca" => &mut self.ca,
            "cert" => &mut self.cert,
            _ => &mut self.key,
        }
    }
}

/// Whom to trust, and who we are.
#[derive(Clone)]
pub(super) struct TlsDialer {
    connector: TlsConnector,
}

/// Ends what moves the bytes of a connection when nobody has the connection any more.
pub(super) struct ConnectionDriver(AbortHandle);

impl Drop for ConnectionDriver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl TlsDialer {
    /// Reads the files, or the system's list, which takes milliseconds.
    pub(super) async fn load(files: TlsFiles) -> Result<Self, Error> {
        let loaded = tokio::task::spawn_blocking(move || config(&files)).await;
        let config = loaded.map_err(Error::from_std)??;
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
        .map_err(Error::from_std)?
        .with_root_certificates(roots);
    match (&files.cert, &files.key) {
        (Some(cert), Some(key)) => {
            let read = PrivateKeyDer::from_pem_file(key)
                .map_err(|why| unreadable_file("key", key, why))?;
            let config = config.with_client_auth_cert(certificates("cert", cert)?, read);
            config.map_err(|why| unreadable_file("cert", cert, why))
        }
        (None, None) => Ok(config.with_no_client_auth()),
        _ => Err(invalid_url("`cert` and `key` go together")),
    }
}

/// Whoever this authority has signed is trusted, and nobody else.
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
        true => {
            Err(invalid_url("this system has no list of certificates to trust: name one, ?ca=PATH"))
        }
        false => Ok(roots),
    }
}

fn certificates(setting: &str, path: &str) -> Result<Vec<CertificateDer<'static>>, Error> {
    let read = CertificateDer::pem_file_iter(Path::new(path)).and_then(Iterator::collect);
    let read: Vec<_> = read.map_err(|why| unreadable_file(setting, path, why))?;
    match read.is_empty() {
        true => Err(unreadable_file(setting, path, "there is no certificate in it")),
        false => Ok(read),
    }
}

fn unreadable_file(setting: &str, path: &str, why: impl std::fmt::Display) -> Error {
    invalid_url(format!("`{setting}` is a file of PEM, and {path} cannot be read: {why}"))
}

/// A Redis in the open waits for the end of a line, which never comes.
fn handshake_timeout() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "it says nothing; does it speak TLS at this port?")
}

/// Says what to do about what often goes wrong.
fn explain(why: io::Error) -> io::Error {
    let told = why.get_ref().and_then(|why| why.downcast_ref());
    io::Error::other(match told {
        Some(TlsError::InvalidCertificate(
            CertificateError::UnknownIssuer | CertificateError::BadSignature,
        )) => "nobody whom we trust has signed its certificate; ?ca=PATH names its authority",
        Some(TlsError::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        )) => "its certificate is for another name",
        Some(TlsError::InvalidMessage(_)) => "it does not speak TLS; redis:// is in the open",
        _ => return why,
    })
}
