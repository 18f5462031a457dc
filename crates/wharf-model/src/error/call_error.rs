//! [`CallError`]: the ways in which a call of a client fails.

use std::{borrow::Cow, error::Error as StdError, fmt, time::Duration};

use super::failure_origin::source_of;
use super::{Error, ErrorKind, FailureOrigin, SharedSource};

/// Error of a call that a client made.
///
/// ```
/// # mod wharf { pub use wharf_model::*; pub mod client { pub use wharf_model::*; } }
/// use wharf::{ErrorKind, client::CallError};
///
/// fn advice(error: &CallError) -> &'static str {
///     match error {
///         CallError::Refused(error) if error.kind == ErrorKind::ToolNotFound => "list the tools",
///         CallError::Refused(_) => "the server knows why",
///         CallError::Transport { may_have_arrived: false, .. } => "call again",
///         CallError::Transport { .. } => "find out whether the call had an effect",
///         CallError::TimedOut { .. } => "wait longer",
///         _ => "report a bug",
///     }
/// }
/// ```
///
/// It displays what failed and why; its [`source`](StdError::source) is the cause, down to the error of
/// the operating system. In a handler, `?` makes an internal error of it, which is logged and not sent.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum CallError {
    /// The server answered with this error, or with an HTTP status that stands for it. Its `code` is
    /// the JSON-RPC code that the server sent.
    Refused(Error),
    /// The client could not obtain or use its credentials.
    Unauthorized(Error),
    /// The connection failed.
    #[non_exhaustive]
    Transport {
        /// What failed, and why.
        message: Cow<'static, str>,
        /// False if the server has certainly received no request of the call: it can be made again.
        may_have_arrived: bool,
        /// Error of the connection.
        source: Option<SharedSource>,
    },
    /// A timeout of this client expired.
    #[non_exhaustive]
    TimedOut {
        /// What took too long, and which option allows more time.
        message: Cow<'static, str>,
        /// Timeout that expired.
        timeout: TimeoutKind,
        /// Its length.
        limit: Duration,
    },
    /// The server violated the protocol, or exceeded a limit of this client.
    #[non_exhaustive]
    Protocol {
        /// The violation as a kind, such as [`ErrorKind::ValidationFailed`].
        kind: ErrorKind,
        /// What was wrong.
        message: Cow<'static, str>,
        /// Error of the parser.
        source: Option<SharedSource>,
    },
    /// The caller used the client in a wrong way: invalid arguments, a capability that the server
    /// does not declare, a client that is closed, a handler for server requests that failed.
    #[non_exhaustive]
    Usage {
        /// The mistake as a kind, such as [`ErrorKind::InvalidParams`].
        kind: ErrorKind,
        /// What was wrong.
        message: Cow<'static, str>,
        /// Error that shows the mistake.
        source: Option<SharedSource>,
    },
}

/// Timeout of a client.
///
/// ```
/// # mod wharf { pub mod client { pub use wharf_model::*; } }
/// use wharf::client::{CallError, TimeoutKind};
///
/// fn is_slow(error: &CallError) -> bool {
///     matches!(error, CallError::TimedOut { timeout: TimeoutKind::Total, .. })
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TimeoutKind {
    /// Time without progress or another event: `CallBuilder::timeout`, `CallOptions::idle`.
    Idle,
    /// Time of the whole call: `CallBuilder::total`, `CallOptions::total`.
    Total,
    /// Time to connect and to negotiate the protocol version: `ClientBuilder::handshake`.
    Connect,
}

impl CallError {
    /// Creates the error of a connection that failed, for a transport of your own.
    /// `may_have_arrived` is false if the server has certainly not received the request.
    ///
    /// ```
    /// # mod wharf { pub mod client { pub use wharf_model::*; } }
    /// use wharf::client::CallError;
    ///
    /// let cable = std::io::Error::other("the cable is cut");
    /// let error = CallError::transport("The server is unreachable", false, cable);
    /// assert!(std::error::Error::source(&error).is_some());
    /// ```
    pub fn transport(
        message: impl Into<Cow<'static, str>>,
        may_have_arrived: bool,
        source: impl Into<Box<dyn StdError + Send + Sync>>,
    ) -> CallError {
        let (message, source) = (message.into(), Some(SharedSource::from(source.into())));
        CallError::Transport { message, may_have_arrived, source }
    }

    /// Returns the error with which a transport ends a call, so that the caller of the client receives
    /// this one. A proxy sends its kind and its message to its own client.
    #[must_use]
    pub fn into_outcome_error(self) -> Error {
        let kind = self.kind();
        let (message, origin, source) = match self {
            CallError::Refused(error) => return error,
            CallError::Unauthorized(error) => {
                return error.from_client(FailureOrigin::Authorization);
            }
            CallError::Transport { message, may_have_arrived: true, source } => {
                (message, FailureOrigin::Interrupted, source)
            }
            CallError::Transport { message, source, .. } => {
                (message, FailureOrigin::NotSent, source)
            }
            CallError::TimedOut { message, timeout, limit } => {
                (message, FailureOrigin::Timeout(timeout, limit), None)
            }
            CallError::Protocol { message, source, .. } => {
                (message, FailureOrigin::Protocol, source)
            }
            CallError::Usage { message, source, .. } => (message, FailureOrigin::Usage, source),
        };
        let error = Error::new(kind).with_message(message);
        match source {
            Some(source) => error.from_client_because(origin, source),
            None => error.from_client(origin),
        }
    }

    /// Returns the error that the caller of a client receives for the error that ended its call.
    #[doc(hidden)]
    #[must_use]
    pub fn of_outcome(error: Error) -> CallError {
        let Some(origin) = error.origin() else { return CallError::Refused(error) };
        let (kind, source) = (error.kind, error.shared_source());
        let message = || error.message.clone();
        match origin {
            FailureOrigin::Authorization => CallError::Unauthorized(error),
            FailureOrigin::Usage | FailureOrigin::Target => {
                CallError::Usage { kind, message: message(), source }
            }
            FailureOrigin::NotSent | FailureOrigin::Start | FailureOrigin::Interrupted => {
                let may_have_arrived = origin == FailureOrigin::Interrupted;
                CallError::Transport { message: message(), may_have_arrived, source }
            }
            FailureOrigin::Protocol | FailureOrigin::NoCommonVersion => {
                CallError::Protocol { kind, message: message(), source }
            }
            FailureOrigin::Timeout(timeout, limit) => {
                CallError::TimedOut { message: message(), timeout, limit }
            }
        }
    }

    /// Returns the kind: that of the server's error, or one for the failure of the client.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            CallError::Refused(error) | CallError::Unauthorized(error) => error.kind,
            CallError::Transport { may_have_arrived: true, .. } => ErrorKind::ConnectionClosed,
            CallError::Transport { .. } => ErrorKind::TransportError,
            CallError::TimedOut { .. } => ErrorKind::RequestTimeout,
            CallError::Protocol { kind, .. } | CallError::Usage { kind, .. } => *kind,
        }
    }

    /// Returns the message, which is also what the error displays.
    #[must_use]
    pub fn message(&self) -> &str {
        match self {
            CallError::Refused(error) | CallError::Unauthorized(error) => &error.message,
            CallError::Transport { message, .. }
            | CallError::TimedOut { message, .. }
            | CallError::Protocol { message, .. }
            | CallError::Usage { message, .. } => message,
        }
    }

    /// Returns the error that the server sent, with its code and its data.
    #[must_use]
    pub fn refusal(&self) -> Option<&Error> {
        match self {
            CallError::Refused(error) => Some(error),
            _ => None,
        }
    }
}

/// Compares with the error that the server sent.
impl PartialEq<Error> for CallError {
    fn eq(&self, sent: &Error) -> bool {
        self.refusal() == Some(sent)
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl StdError for CallError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            CallError::Refused(error) | CallError::Unauthorized(error) => error.source(),
            CallError::Transport { source, .. }
            | CallError::Protocol { source, .. }
            | CallError::Usage { source, .. } => source_of(source),
            CallError::TimedOut { .. } => None,
        }
    }
}

/// For `?` in a handler: the failed call of a handler is not the fault of the handler's caller.
impl From<CallError> for Error {
    fn from(error: CallError) -> Self {
        Error::internal(error)
    }
}
