//! [`StoreOpenError`]: the ways in which opening a store fails.

use std::{borrow::Cow, error::Error as StdError, fmt, sync::Arc};

use wharf_model::{Error, ErrorKind};

/// Error of opening the stores that a URL names. It does not repeat the URL, which may contain a
/// password.
///
/// ```
/// # mod wharf { pub use wharf_store as store; }
/// use wharf::store::{self, StoreOpenError};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// match store::open("mysql://localhost").await {
///     Ok(_) => println!("opened"),
///     Err(StoreOpenError::InvalidUrl { message, .. }) => println!("{message}"),
///     Err(error) => println!("try again later: {error}"),
/// }
/// # }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum StoreOpenError {
    /// The URL is malformed, or this program was built without the store.
    #[non_exhaustive]
    InvalidUrl {
        /// What is wrong, and what to write instead.
        message: Cow<'static, str>,
        /// Error that shows the mistake.
        source: Option<Arc<dyn StdError + Send + Sync>>,
    },
    /// The store cannot be reached or used now.
    #[non_exhaustive]
    Unavailable {
        /// What failed, and why.
        message: Cow<'static, str>,
        /// Error of the store's driver.
        source: Option<Arc<dyn StdError + Send + Sync>>,
    },
    /// A file that the URL names cannot be used.
    #[non_exhaustive]
    File {
        /// What failed, and why.
        message: Cow<'static, str>,
        /// Error of the file.
        source: Option<Arc<dyn StdError + Send + Sync>>,
    },
}

impl StoreOpenError {
    pub(crate) fn of(error: Error) -> Self {
        let (message, source) = (error.message.clone(), error.shared_source());
        match error.kind {
            ErrorKind::InvalidParams => StoreOpenError::InvalidUrl { message, source },
            ErrorKind::TemporarilyUnavailable => StoreOpenError::Unavailable { message, source },
            _ => StoreOpenError::File { message, source },
        }
    }

    /// Returns the message, which is also what the error displays.
    #[must_use]
    pub fn message(&self) -> &str {
        match self {
            StoreOpenError::InvalidUrl { message, .. }
            | StoreOpenError::Unavailable { message, .. }
            | StoreOpenError::File { message, .. } => message,
        }
    }
}

impl fmt::Display for StoreOpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl StdError for StoreOpenError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            StoreOpenError::InvalidUrl { source, .. }
            | StoreOpenError::Unavailable { source, .. }
            | StoreOpenError::File { source, .. } => source.as_deref().map(|source| source as _),
        }
    }
}

/// For `?` in a handler: the store is not the fault of the handler's caller.
impl From<StoreOpenError> for Error {
    fn from(error: StoreOpenError) -> Self {
        Error::internal(error)
    }
}
