//! Error of a connection that was not made.

use std::{error, fmt};

/// Error of a connection. The message is for people and contains no credentials.
///
/// ```
/// use wharf_connect::{ConnectErrorKind, Origin};
///
/// let error = Origin::parse("ftp://host").unwrap_err();
/// assert_eq!(error.kind(), ConnectErrorKind::Settings);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectError {
    kind: ConnectErrorKind,
    message: String,
}

/// Step that failed.
///
/// ```
/// use wharf_connect::{ConnectErrorKind, ProxySettings};
///
/// let error = ProxySettings::url("socks5://127.0.0.1:1080").unwrap_err();
/// assert_eq!(error.kind(), ConnectErrorKind::Settings);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectErrorKind {
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
    /// The TLS handshake failed.
    Tls(TlsProblem),
    /// The deadline has passed.
    TimedOut,
}

/// Reason of a failed TLS handshake.
///
/// ```
/// use wharf_connect::{ConnectErrorKind, TlsProblem};
///
/// /// Advice for a user, beside the message of the error.
/// fn advice(kind: ConnectErrorKind) -> &'static str {
///     match kind {
///         ConnectErrorKind::Tls(TlsProblem::UnknownIssuer) => "trust its authority",
///         ConnectErrorKind::Tls(TlsProblem::NotTls) => "connect without TLS",
///         _ => "",
///     }
/// }
/// # assert_eq!(advice(ConnectErrorKind::TimedOut), "");
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

impl ConnectError {
    pub(crate) fn new(kind: ConnectErrorKind, message: impl Into<String>) -> ConnectError {
        ConnectError { kind, message: message.into() }
    }

    pub(crate) fn settings(message: impl Into<String>) -> ConnectError {
        ConnectError::new(ConnectErrorKind::Settings, message)
    }

    /// Returns the step that failed.
    pub fn kind(&self) -> ConnectErrorKind {
        self.kind
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl error::Error for ConnectError {}
