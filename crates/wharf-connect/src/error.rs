//! Error of a connection that was not made.

use std::{error, fmt, sync::Arc};

/// Error of a connection. The message is for people and contains no credentials.
///
/// ```
/// use wharf_connect::{ConnectionErrorKind, Origin};
///
/// let error = Origin::parse("ftp://host").unwrap_err();
/// assert_eq!(error.kind(), ConnectionErrorKind::Settings);
/// ```
#[derive(Clone, Debug)]
pub struct ConnectionError {
    kind: ConnectionErrorKind,
    message: String,
    source: Option<Arc<dyn error::Error + Send + Sync>>,
}

/// Step that failed.
///
/// ```
/// use wharf_connect::{ConnectionErrorKind, ProxySettings};
///
/// let error = ProxySettings::url("socks5://127.0.0.1:1080").unwrap_err();
/// assert_eq!(error.kind(), ConnectionErrorKind::Settings);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectionErrorKind {
    /// A URL, a certificate, a key or a proxy is invalid.
    Settings,
    /// The address policy does not allow an address of the host (SSRF protection).
    Forbidden,
    /// The name has no address.
    Resolve,
    /// No address of the host accepts the connection.
    Unreachable,
    /// The proxy cannot be reached, or refused the connection.
    Proxy,
    /// The proxy requires a user and a password, or other ones.
    ProxyAuthentication,
    /// The TLS handshake failed.
    Tls(TlsProblem),
    /// The deadline has passed.
    TimedOut,
}

/// Reason of a failed TLS handshake.
///
/// ```
/// use wharf_connect::{ConnectionErrorKind, TlsProblem};
///
/// /// Advice for a user, beside the message of the error.
/// fn advice(kind: ConnectionErrorKind) -> &'static str {
///     match kind {
///         ConnectionErrorKind::Tls(TlsProblem::UnknownIssuer) => "trust its authority",
///         ConnectionErrorKind::Tls(TlsProblem::NotTls) => "connect without TLS",
///         _ => "",
///     }
/// }
/// # assert_eq!(advice(ConnectionErrorKind::TimedOut), "");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TlsProblem {
    /// The server answered with something else: it does not speak TLS.
    NotTls,
    /// The server closed the connection during the handshake.
    Closed,
    /// The server did not answer the handshake in time: it may not speak TLS.
    NoReply,
    /// No trusted authority has signed the certificate.
    UnknownIssuer,
    /// The certificate is for another name.
    WrongName,
    /// The server rejected the handshake: it may require a client certificate.
    Rejected,
    /// Another problem of the certificate or the handshake.
    Other,
}

impl ConnectionError {
    pub(crate) fn new(kind: ConnectionErrorKind, message: impl Into<String>) -> ConnectionError {
        ConnectionError { kind, message: message.into(), source: None }
    }

    pub(crate) fn settings(message: impl Into<String>) -> ConnectionError {
        ConnectionError::new(ConnectionErrorKind::Settings, message)
    }

    /// Puts the name of a setting before the message.
    pub(crate) fn of_setting(self, name: &str) -> ConnectionError {
        ConnectionError { message: format!("{name}: {}", self.message), ..self }
    }

    /// Converts it into an error of a proxy, with the same source.
    pub(crate) fn of_proxy(self) -> ConnectionError {
        let message = format!("cannot use the proxy: {self}");
        ConnectionError { kind: ConnectionErrorKind::Proxy, message, source: self.source }
    }

    /// Sets the error of the operating system, of TLS or of a parser.
    pub(crate) fn because(
        self,
        source: impl error::Error + Send + Sync + 'static,
    ) -> ConnectionError {
        ConnectionError { source: Some(Arc::new(source)), ..self }
    }

    /// Returns the step that failed.
    pub fn kind(&self) -> ConnectionErrorKind {
        self.kind
    }
}

impl PartialEq for ConnectionError {
    fn eq(&self, other: &Self) -> bool {
        (self.kind, &self.message) == (other.kind, &other.message)
    }
}

impl fmt::Display for ConnectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl error::Error for ConnectionError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        self.source.as_deref().map(|error| error as _)
    }
}
