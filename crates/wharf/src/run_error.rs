//! Error of a server that did not start, or failed.

use std::{error::Error, fmt};

/// Result of a server's `main`.
///
/// ```no_run
/// #[tokio::main]
/// async fn main() -> wharf::Result<()> {
///     let port: u16 = std::env::var("PORT")?.parse()?;
///     let server = wharf::Server::new("harbour", "1.0.0");
///     server.run_over(wharf::server::Transport::Tcp(([127, 0, 0, 1], port).into())).await
/// }
/// ```
pub type Result<T, E = RunError> = std::result::Result<T, E>;

/// Error that a server's `main` returns: the reason why it did not start, or failed.
///
/// The errors of this crate, of the standard library and of JSON convert with `?`; any other with
/// [`RunError::wrap`]. It displays its causes, because the user who started the server sees only
/// that.
///
/// ```
/// fn port(text: &str) -> wharf::Result<u16> {
///     Ok(text.parse()?)
/// }
///
/// assert_eq!(port("many").unwrap_err().to_string(), "invalid digit found in string");
/// ```
///
/// It implements `Error`, so a program with its own errors returns `Box<dyn Error>`, or the
/// equivalent of its error crate:
///
/// ```
/// # use std::error::Error;
/// fn serve(port: &str) -> Result<(), Box<dyn Error + Send + Sync>> {
///     wharf::server::Transport::tcp(port)?;
///     Ok(())
/// }
///
/// assert!(serve("nowhere").is_err());
/// ```
pub struct RunError(Box<dyn Error + Send + Sync>);

impl RunError {
    /// Error with the message `text`.
    pub fn new(text: impl Into<String>) -> Self {
        RunError(text.into().into())
    }

    /// Wraps an error of any type, for `map_err`:
    ///
    /// ```
    /// # #[derive(Debug)] struct Tides;
    /// # impl std::fmt::Display for Tides {
    /// #     fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result { f.write_str("low tide") }
    /// # }
    /// # impl std::error::Error for Tides {}
    /// # fn tides() -> Result<(), Tides> { Err(Tides) }
    /// fn start() -> wharf::Result<()> {
    ///     tides().map_err(wharf::RunError::wrap)
    /// }
    ///
    /// assert_eq!(start().unwrap_err().to_string(), "low tide");
    /// ```
    pub fn wrap(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        RunError(error.into())
    }

    /// Returns the wrapped error.
    #[must_use]
    pub fn into_inner(self) -> Box<dyn Error + Send + Sync> {
        self.0
    }
}

/// Delegates to the wrapped error, which it replaces in the chain of causes.
impl Error for RunError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}

/// One impl per error type: a blanket `From<E: Error>` would conflict with `From<RunError>`.
macro_rules! from {
    ($($(#[$attribute:meta])* $error:ty),* $(,)?) => {
        $(
            $(#[$attribute])*
            impl From<$error> for RunError {
                fn from(error: $error) -> Self {
                    RunError(error.into())
                }
            }
        )*
    };
}

from! {
    Box<dyn Error + Send + Sync>,
    String,
    &str,
    std::io::Error,
    std::fmt::Error,
    std::num::ParseIntError,
    std::num::ParseFloatError,
    std::str::ParseBoolError,
    std::str::Utf8Error,
    std::string::FromUtf8Error,
    std::net::AddrParseError,
    std::env::VarError,
    std::time::SystemTimeError,
    serde_json::Error,
    tokio::task::JoinError,
    wharf_model::Error,
    #[cfg(feature = "logs")]
    wharf_telemetry::LogConfigError,
    #[cfg(feature = "server")]
    wharf_store::StoreOpenError,
    #[cfg(feature = "client")]
    wharf_client::CallError,
    #[cfg(feature = "client")]
    wharf_client::ConnectError,
    #[cfg(feature = "gateway")]
    wharf_gateway::GatewayError,
    #[cfg(all(feature = "client", feature = "skills"))]
    wharf_extensions::skills::SkillError,
    #[cfg(all(feature = "client", feature = "skills"))]
    wharf_extensions::skills::SkillRefused,
    #[cfg(feature = "server")]
    wharf_server::ClientRequestError,
    #[cfg(feature = "server")]
    wharf_server::BuildError,
    #[cfg(feature = "server")]
    wharf_server::KeyError,
    #[cfg(feature = "server")]
    wharf_server::StepError,
    crate::model::UnknownRevision,
    #[cfg(all(feature = "http", feature = "server"))]
    wharf_transport::server::http::InvalidNetwork,
    #[cfg(feature = "client")]
    crate::client::config::ConfigError,
    #[cfg(feature = "auth")]
    wharf_auth::jose::JoseError,
    #[cfg(feature = "auth")]
    wharf_auth::fetch::FetchError,
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Message with its causes, because `main` prints its error with `Debug`. A cause that the message before it quotes
/// is not repeated.
impl fmt::Debug for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = self.0.to_string();
        f.write_str(&shown)?;
        let mut cause = self.0.source();
        while let Some(error) = cause {
            let text = error.to_string();
            if !shown.contains(&text) {
                write!(f, "\n  because: {text}")?;
                shown = text;
            }
            cause = error.source();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn run_errors_keep_the_causes() {
        let cause = io::Error::new(io::ErrorKind::AddrInUse, "taken");
        let failure = RunError::wrap(Box::new(io::Error::other(cause)));
        let boxed: Box<dyn Error + Send + Sync> = failure.into();
        assert_eq!(boxed.to_string(), "taken");
        let quoting = wharf_model::Error::internal(io::Error::other("disk full"));
        let failure = RunError::from(quoting.with_message("cannot save: disk full"));
        assert_eq!(format!("{failure:?}"), "cannot save: disk full");
        let telling = wharf_model::Error::internal(io::Error::other("disk full"));
        let failure = RunError::from(telling.with_message("cannot save"));
        assert_eq!(format!("{failure:?}"), "cannot save\n  because: disk full");
        let failure = RunError::from(io::Error::other("full"));
        assert_eq!(format!("{failure:?}"), "full");
        fn takes_errors(_: impl Error + Send + Sync + 'static) {}
        takes_errors(failure);
    }
}
