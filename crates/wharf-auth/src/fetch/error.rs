//! Error for a request that could not be made, or whose response is not acceptable.

use std::{error::Error as StdError, fmt, mem, sync::Arc};

use wharf_connect::{ConnectionError, ConnectionErrorKind};
use wharf_model::{Error, ErrorKind};

/// Error of a request. The message is for people and never contains a URL's query; its
/// [`source`](StdError::source) is the cause, down to the error of the operating system.
///
/// ```
/// use std::error::Error as _;
/// use http::HeaderMap;
/// use wharf_auth::fetch::{Fetch, FetchError};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let fetch = Fetch::new().no_proxy();
/// let error = fetch.get("http://127.0.0.1:1/", HeaderMap::new()).await.unwrap_err();
/// assert!(matches!(error, FetchError::Unreachable { .. }));
/// assert!(error.source().is_some());
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum FetchError {
    /// The URL, the request or an option is invalid.
    #[non_exhaustive]
    Url {
        /// What was wrong.
        message: String,
        /// Error that shows the mistake.
        source: Option<FetchErrorSource>,
    },
    /// The URL leads to an address that is not allowed.
    #[non_exhaustive]
    Forbidden {
        /// Which address, and why.
        message: String,
    },
    /// No connection, or no trusted certificate.
    #[non_exhaustive]
    Unreachable {
        /// What failed, and why.
        message: String,
        /// Error of the connection.
        source: Option<FetchErrorSource>,
    },
    /// The request timed out.
    #[non_exhaustive]
    TimedOut {
        /// What took too long.
        message: String,
    },
    /// The response body is too long.
    #[non_exhaustive]
    TooLarge {
        /// Which response, and the limit.
        message: String,
    },
    /// The response is not valid HTTP or JSON.
    #[non_exhaustive]
    InvalidResponse {
        /// What was wrong.
        message: String,
        /// Error of HTTP; that of JSON would quote the body.
        source: Option<FetchErrorSource>,
    },
}

/// Error that caused a [`FetchError`], shared by the clones of that one.
type FetchErrorSource = Arc<dyn StdError + Send + Sync>;

impl FetchError {
    /// Returns true if a retry may succeed.
    pub fn is_transient(&self) -> bool {
        matches!(self, FetchError::Unreachable { .. } | FetchError::TimedOut { .. })
    }

    pub(crate) fn url(message: impl Into<String>) -> FetchError {
        FetchError::Url { message: message.into(), source: None }
    }

    /// Returns the message, which is also what the error displays.
    #[must_use]
    pub fn message(&self) -> &str {
        match self {
            FetchError::Url { message, .. }
            | FetchError::Forbidden { message }
            | FetchError::Unreachable { message, .. }
            | FetchError::TimedOut { message }
            | FetchError::TooLarge { message }
            | FetchError::InvalidResponse { message, .. } => message,
        }
    }
}

/// Compares the kind and the message: the source is ignored.
impl PartialEq for FetchError {
    fn eq(&self, other: &Self) -> bool {
        mem::discriminant(self) == mem::discriminant(other) && self.message() == other.message()
    }
}

impl fmt::Display for FetchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl StdError for FetchError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            FetchError::Url { source, .. }
            | FetchError::Unreachable { source, .. }
            | FetchError::InvalidResponse { source, .. } => {
                source.as_deref().map(|source| source as _)
            }
            FetchError::Forbidden { .. }
            | FetchError::TimedOut { .. }
            | FetchError::TooLarge { .. } => None,
        }
    }
}

impl From<ConnectionError> for FetchError {
    fn from(error: ConnectionError) -> Self {
        let (message, kind) = (error.to_string(), error.kind());
        let source = || Some(Arc::new(error) as FetchErrorSource);
        match kind {
            ConnectionErrorKind::Settings => FetchError::Url { message, source: source() },
            ConnectionErrorKind::Forbidden => FetchError::Forbidden { message },
            ConnectionErrorKind::TimedOut => FetchError::TimedOut { message },
            _ => FetchError::Unreachable { message, source: source() },
        }
    }
}

impl From<FetchError> for Error {
    fn from(error: FetchError) -> Self {
        Error::new(ErrorKind::TransportError)
            .with_message(error.message().to_owned())
            .with_source(error)
    }
}
