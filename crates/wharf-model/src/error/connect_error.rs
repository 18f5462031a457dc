//! [`ConnectError`]: the ways in which connecting to a server fails.

use std::{borrow::Cow, error::Error as StdError, fmt, time::Duration};

use serde_json::Value;

use super::failure_origin::source_of;
use super::{Error, ErrorKind, FailureOrigin, SharedSource};

/// Error of connecting to a server.
///
/// ```
/// # mod wharf { pub mod client { pub use wharf_model::*; } }
/// use std::{error::Error, io};
/// use wharf::client::ConnectError;
///
/// /// Returns whether nothing listens at the address.
/// fn is_down(error: &ConnectError) -> bool {
///     let mut cause = error.source();
///     while let Some(error) = cause {
///         if let Some(io) = error.downcast_ref::<io::Error>() {
///             return io.kind() == io::ErrorKind::ConnectionRefused;
///         }
///         cause = error.source();
///     }
///     false
/// }
/// ```
///
/// It displays what failed, why, and what to do; its [`source`](StdError::source) is the cause, down
/// to the error of the operating system. In a handler, `?` makes an internal error of it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ConnectError {
    /// The target or an option for it is unusable, such as a malformed URL or header.
    #[non_exhaustive]
    InvalidTarget {
        /// What was wrong.
        message: Cow<'static, str>,
        /// Error that shows the mistake.
        source: Option<SharedSource>,
    },
    /// The program of the server does not start.
    #[non_exhaustive]
    Start {
        /// What failed, why, and what to do.
        message: Cow<'static, str>,
        /// Error of the operating system.
        source: Option<SharedSource>,
    },
    /// The host cannot be resolved or connected to, TLS failed, or the connection broke.
    #[non_exhaustive]
    Transport {
        /// What failed, and why.
        message: Cow<'static, str>,
        /// Error of the operating system, of TLS or of HTTP.
        source: Option<SharedSource>,
    },
    /// The server's answer is not that of an MCP server.
    #[non_exhaustive]
    NotMcp {
        /// What the server answered.
        message: Cow<'static, str>,
        /// Error of the parser.
        source: Option<SharedSource>,
    },
    /// Client and server have no protocol version in common.
    #[non_exhaustive]
    NoCommonVersion {
        /// The versions of both.
        message: Cow<'static, str>,
        /// Versions that the server supports, if it said so.
        supported: Vec<String>,
    },
    /// The server requires credentials or other ones, or the client could not obtain them.
    Unauthorized(Error),
    /// The server answered the handshake with this error.
    Refused(Error),
    /// The server did not complete the handshake in time.
    #[non_exhaustive]
    TimedOut {
        /// What took too long, and which option allows more time.
        message: Cow<'static, str>,
        /// Time that the server had.
        limit: Duration,
    },
}

impl ConnectError {
    /// Returns the error of connecting for the error that ended the handshake.
    #[doc(hidden)]
    #[must_use]
    pub fn of_outcome(error: Error) -> ConnectError {
        let (kind, source) = (error.kind, error.shared_source());
        let message = || error.message.clone();
        match error.origin() {
            None if kind == ErrorKind::UnsupportedProtocolVersion => no_common_version(&error),
            None if is_authorization(kind) => ConnectError::Unauthorized(error),
            None => ConnectError::Refused(error),
            Some(FailureOrigin::Authorization) => ConnectError::Unauthorized(error),
            Some(FailureOrigin::Usage | FailureOrigin::Target) => {
                ConnectError::InvalidTarget { message: message(), source }
            }
            Some(FailureOrigin::Start) => ConnectError::Start { message: message(), source },
            Some(FailureOrigin::NotSent | FailureOrigin::Interrupted) => {
                ConnectError::Transport { message: message(), source }
            }
            Some(FailureOrigin::Protocol) => ConnectError::NotMcp { message: message(), source },
            Some(FailureOrigin::NoCommonVersion) => no_common_version(&error),
            Some(FailureOrigin::Timeout(_, limit)) => {
                ConnectError::TimedOut { message: message(), limit }
            }
        }
    }

    /// Returns the kind: that of the server's error, or one for the failure of the client.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            ConnectError::Refused(error) | ConnectError::Unauthorized(error) => error.kind,
            ConnectError::InvalidTarget { .. } => ErrorKind::InvalidParams,
            ConnectError::Start { .. }
            | ConnectError::Transport { .. }
            | ConnectError::NotMcp { .. } => ErrorKind::TransportError,
            ConnectError::NoCommonVersion { .. } => ErrorKind::UnsupportedProtocolVersion,
            ConnectError::TimedOut { .. } => ErrorKind::RequestTimeout,
        }
    }

    /// Returns the message, which is also what the error displays.
    #[must_use]
    pub fn message(&self) -> &str {
        match self {
            ConnectError::Refused(error) | ConnectError::Unauthorized(error) => &error.message,
            ConnectError::InvalidTarget { message, .. }
            | ConnectError::Start { message, .. }
            | ConnectError::Transport { message, .. }
            | ConnectError::NotMcp { message, .. }
            | ConnectError::NoCommonVersion { message, .. }
            | ConnectError::TimedOut { message, .. } => message,
        }
    }

    /// Returns the error that the server sent, with its code and its data.
    #[must_use]
    pub fn refusal(&self) -> Option<&Error> {
        match self {
            ConnectError::Refused(error) | ConnectError::Unauthorized(error) => Some(error),
            _ => None,
        }
    }
}

fn no_common_version(error: &Error) -> ConnectError {
    let listed = error.data.as_deref().and_then(|data| data.get("supported")?.as_array());
    let supported = listed.into_iter().flatten().filter_map(Value::as_str);
    let supported = supported.map(str::to_owned).collect();
    ConnectError::NoCommonVersion { message: error.message.clone(), supported }
}

/// Returns whether other credentials may help.
fn is_authorization(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Unauthenticated | ErrorKind::Forbidden | ErrorKind::InsufficientScope)
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl StdError for ConnectError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            ConnectError::Refused(error) | ConnectError::Unauthorized(error) => error.source(),
            ConnectError::InvalidTarget { source, .. }
            | ConnectError::Start { source, .. }
            | ConnectError::Transport { source, .. }
            | ConnectError::NotMcp { source, .. } => source_of(source),
            ConnectError::NoCommonVersion { .. } | ConnectError::TimedOut { .. } => None,
        }
    }
}

/// For `?` in a handler: that its server is unreachable is not the fault of the handler's caller.
impl From<ConnectError> for Error {
    fn from(error: ConnectError) -> Self {
        Error::internal(error)
    }
}
