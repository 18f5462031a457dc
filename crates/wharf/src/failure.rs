//! Why a server did not start, or ended.

use std::{error::Error, fmt};

/// What `main` of a server returns.
pub type Result<T, E = Failure> = std::result::Result<T, E>;

/// Any error, on its way out of `main`.
///
/// Everything that is an error becomes one with `?`. It shows itself with its causes, because that
/// is what the person who started the server sees.
///
/// ```
/// fn port(text: &str) -> wharf::Result<u16> {
///     Ok(text.parse()?)
/// }
///
/// assert_eq!(port("many").unwrap_err().to_string(), "invalid digit found in string");
/// ```
pub struct Failure(Box<dyn Error + Send + Sync>);

impl Failure {
    /// A failure that says `text`.
    pub fn new(text: impl Into<String>) -> Self {
        Failure(text.into().into())
    }

    /// The error it came from.
    #[must_use]
    pub fn into_inner(self) -> Box<dyn Error + Send + Sync> {
        self.0
    }
}

impl<E: Error + Send + Sync + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        Failure(Box::new(error))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// `main` shows its error in this form.
impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut cause = self.0.source();
        while let Some(error) = cause {
            write!(f, "\n  because: {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}
