//! Connects to Redis, with or without TLS, direct or through a proxy.
//!
//! The connection is made by `wharf-connect` and not by the `redis` crate, whose TLS would use the process-wide
//! cryptography provider and load the root certificates again for each connection.

use std::{io, sync::Arc};

use redis::{
    AsyncConnectionConfig, ConnectionAddr, ConnectionInfo, RedisResult, aio::MultiplexedConnection,
};
use tokio::{
    task::AbortHandle,
    time::{Instant, timeout_at},
};
use wharf_connect::{ConnectionError, ConnectionErrorKind, HostConnector, Origin, ProxySettings};
use wharf_model::{Error, ErrorKind};

use crate::redis::reconnect::COMMAND_TIMEOUT;
use crate::url::invalid_url;

/// Settings of the connection in a Redis URL: files with certificates, and a proxy.
#[derive(Clone, Debug, Default)]
pub(super) struct ConnectionSettings {
    /// Certificate authority that must have signed the certificate of Redis; the system's if `None`.
    #[cfg(feature = "redis-tls")]
    pub(super) ca: Option<String>,
    /// Client certificate for mutual TLS, and its key.
    #[cfg(feature = "redis-tls")]
    pub(super) cert: Option<String>,
    #[cfg(feature = "redis-tls")]
    pub(super) key: Option<String>,
    /// URL of an HTTP proxy. Those of the environment are not used: they are for the web.
    pub(super) proxy: Option<String>,
}

/// Address and settings of Redis.
#[derive(Clone)]
pub(super) struct RedisConnector {
    info: ConnectionInfo,
    origin: Origin,
    connector: HostConnector,
}

/// Connection that its clones share.
#[derive(Clone)]
pub(super) struct RedisConnection {
    pub(super) redis: MultiplexedConnection,
    /// Task that moves the bytes of the connection.
    _driver: Arc<ConnectionDriver>,
}

/// Aborts the task that moves the bytes of a connection when the connection is dropped.
struct ConnectionDriver(AbortHandle);

impl Drop for ConnectionDriver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl RedisConnector {
    /// Reads the files, and with TLS the system's root certificates, which takes milliseconds.
    pub(super) async fn new(
        info: ConnectionInfo,
        encrypted: bool,
        settings: ConnectionSettings,
    ) -> Result<Self, Error> {
        let ConnectionAddr::Tcp(host, port) = info.addr() else {
            return Err(invalid_url("write redis://HOST:PORT/DB?prefix=NAME"));
        };
        let invalid = |error: ConnectionError| invalid_url(error.to_string()).with_source(error);
        let origin = Origin::new(host, *port, encrypted).map_err(invalid)?;
        if settings.proxy.is_some() && origin.is_loopback() {
            return Err(invalid_url(
                "a Redis on this machine is never reached through a proxy: remove `proxy`",
            ));
        }
        let proxy = settings.proxy.as_deref().map(ProxySettings::url).transpose();
        let proxy = proxy.map_err(invalid)?.unwrap_or_default();
        let connector = HostConnector::new().proxy(proxy).timeout(COMMAND_TIMEOUT);
        #[cfg(feature = "redis-tls")]
        let connector = match encrypted {
            true => with_certificates(connector, &origin, settings).await?,
            false => connector,
        };
        Ok(RedisConnector { info, origin, connector })
    }

    /// Connects and greets Redis within [`COMMAND_TIMEOUT`].
    pub(super) async fn connect(
        &self,
        config: &AsyncConnectionConfig,
    ) -> RedisResult<RedisConnection> {
        let deadline = Instant::now() + COMMAND_TIMEOUT;
        let stream = self.connector.connect(&self.origin).await.map_err(explain)?;
        let settings = self.info.redis_settings();
        let greeting = MultiplexedConnection::new_with_config(settings, stream, config.clone());
        let greeted = timeout_at(deadline, greeting).await;
        let (redis, driver) = greeted.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        let driver = ConnectionDriver(tokio::spawn(driver).abort_handle());
        Ok(RedisConnection { redis, _driver: Arc::new(driver) })
    }
}

/// Adds the certificates in the files.
#[cfg(feature = "redis-tls")]
async fn with_certificates(
    mut connector: HostConnector,
    origin: &Origin,
    settings: ConnectionSettings,
) -> Result<HostConnector, Error> {
    let ConnectionSettings { ca, cert, key, .. } = settings;
    if let Some(path) = &ca {
        let pem = read("ca", path).await?;
        let trusted = connector.without_system_roots().trust_pem(&pem);
        connector = trusted.map_err(|why| unusable_file(&format!("{path} of `ca`"), why))?;
    }
    // Before the client certificate, so that an error is about the root certificates.
    connector.load().await.map_err(|why| {
        let advice = "name a file with the certificate of its authority: ?ca=PATH";
        invalid_url(format!("{why}; {advice}")).with_source(why)
    })?;
    match (cert, key) {
        (Some(cert), Some(key)) => {
            let (certificates, private) = (read("cert", &cert).await?, read("key", &key).await?);
            let files = format!("{cert} of `cert` and {key} of `key`");
            let identity = wharf_connect::TlsIdentity::from_pem(&certificates, &private);
            let identity = identity.map_err(|why| unusable_file(&files, why))?;
            connector = connector.identity(origin, identity);
            connector.load().await.map_err(|why| unusable_file(&files, why))?;
        }
        (None, None) => {}
        _ => return Err(invalid_url("`cert` and `key` go together: name both or neither")),
    }
    Ok(connector)
}

#[cfg(feature = "redis-tls")]
async fn read(setting: &str, path: &str) -> Result<String, Error> {
    let file = path.to_owned();
    let read = tokio::task::spawn_blocking(move || std::fs::read_to_string(file)).await;
    let read = read.map_err(Error::internal)?;
    read.map_err(|why| unusable_file(&format!("{path} of `{setting}`"), why))
}

/// Error for PEM files, each named with its setting.
#[cfg(feature = "redis-tls")]
fn unusable_file(files: &str, why: impl std::error::Error + Send + Sync + 'static) -> Error {
    let message = format!("cannot use the PEM file {files} in the store URL: {why}");
    Error::internal(why).with_message(message)
}

/// Says what to do in the words of a Redis URL. The error of the connection is the source.
fn explain(error: ConnectionError) -> io::Error {
    use wharf_connect::TlsProblem::{Closed, NoReply, NotTls, Rejected, UnknownIssuer, WrongName};
    let advice = match error.kind() {
        ConnectionErrorKind::Tls(UnknownIssuer) => {
            "its certificate is not signed by a trusted authority; name the authority with ?ca=PATH"
        }
        ConnectionErrorKind::Tls(WrongName) => "its certificate is for another name",
        ConnectionErrorKind::Tls(NotTls) => {
            "it does not speak TLS; use redis:// for a connection without TLS"
        }
        ConnectionErrorKind::Tls(Closed) => {
            "it ended the TLS handshake; if it does not speak TLS, use redis://"
        }
        ConnectionErrorKind::Tls(NoReply) => {
            "it did not answer the TLS handshake in time; if it does not speak TLS, use redis://"
        }
        ConnectionErrorKind::Tls(Rejected) => {
            "it rejected the TLS handshake; if it requires a client certificate, name it with ?cert=PATH&key=PATH"
        }
        ConnectionErrorKind::Tls(_) => "the TLS handshake failed",
        ConnectionErrorKind::TimedOut => return io::Error::new(io::ErrorKind::TimedOut, error),
        _ => return io::Error::other(error),
    };
    let cause = std::error::Error::source(&error).map_or(String::new(), |it| format!(" ({it})"));
    let unavailable = Error::new(ErrorKind::TemporarilyUnavailable);
    io::Error::other(unavailable.with_message(format!("{advice}{cause}")).with_source(error))
}
