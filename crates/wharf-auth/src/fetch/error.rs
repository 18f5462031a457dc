use std::fmt;

use wharf_model::{Error, ErrorKind};

/// Why a request has no answer. The texts are for people, and hold no query of a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FetchError {
    /// The URL, or what was to be sent there, cannot be used.
    Url(String),
    /// The URL leads where no request may go.
    Forbidden(String),
    /// Nobody answers there, or nobody who can be trusted.
    Unreachable(String),
    /// It took too long.
    TimedOut(String),
    /// The answer is too long.
    TooLarge(String),
    /// The answer is not what it should be.
    Garbled(String),
}

impl FetchError {
    /// Whether the same may work later.
    pub fn is_passing(&self) -> bool {
        matches!(self, FetchError::Unreachable(_) | FetchError::TimedOut(_))
    }

    fn text(&self) -> &str {
        match self {
            FetchError::Url(text)
            | FetchError::Forbidden(text)
            | FetchError::Unreachable(text)
            | FetchError::TimedOut(text)
            | FetchError::TooLarge(text)
            | FetchError::Garbled(text) => text,
        }
    }
}

impl fmt::Display for FetchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl std::error::Error for FetchError {}

impl From<FetchError> for Error {
    fn from(error: FetchError) -> Self {
        Error::new(ErrorKind::TransportError).with_message(error.text().to_owned())
    }
}
