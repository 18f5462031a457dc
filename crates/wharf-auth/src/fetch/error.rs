//! Error for a request that could not be made, or whose response is not acceptable.

use std::fmt;

use wharf_connect::{ConnectionError, ConnectionErrorKind};
use wharf_model::{Error, ErrorKind};

/// Error of a request. The message is for people and never contains a URL's query.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FetchError {
    /// The URL or the request is invalid.
    Url(String),
    /// The URL leads to an address that is not allowed.
    Forbidden(String),
    /// No connection, or no trusted certificate.
    Unreachable(String),
    /// The request timed out.
    TimedOut(String),
    /// The response body is too long.
    TooLarge(String),
    /// The response is not valid HTTP or JSON.
    InvalidResponse(String),
}

impl FetchError {
    /// Returns true if a retry may succeed.
    pub fn is_transient(&self) -> bool {
        matches!(self, FetchError::Unreachable(_) | FetchError::TimedOut(_))
    }

    fn text(&self) -> &str {
        match self {
            FetchError::Url(text)
            | FetchError::Forbidden(text)
            | FetchError::Unreachable(text)
            | FetchError::TimedOut(text)
            | FetchError::TooLarge(text)
            | FetchError::InvalidResponse(text) => text,
        }
    }
}

impl fmt::Display for FetchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl std::error::Error for FetchError {}

impl From<ConnectionError> for FetchError {
    fn from(error: ConnectionError) -> Self {
        let text = error.to_string();
        match error.kind() {
            ConnectionErrorKind::Settings => FetchError::Url(text),
            ConnectionErrorKind::Forbidden => FetchError::Forbidden(text),
            ConnectionErrorKind::TimedOut => FetchError::TimedOut(text),
            _ => FetchError::Unreachable(text),
        }
    }
}

impl From<FetchError> for Error {
    fn from(error: FetchError) -> Self {
        Error::new(ErrorKind::TransportError).with_message(error.text().to_owned())
    }
}
