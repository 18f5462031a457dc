//! Parses the URL of a store.

use std::borrow::Cow;

use wharf_model::{Error, ErrorKind};

/// Parts of a URL that all stores have in common.
pub(crate) struct StoreUrl<'a> {
    pub(crate) scheme: &'a str,
    /// Between the scheme and the settings.
    pub(crate) rest: &'a str,
    pub(crate) settings: Vec<(String, String)>,
}

impl<'a> StoreUrl<'a> {
    pub(crate) fn parse(url: &'a str) -> Result<Self, Error> {
        let (scheme, rest) = url.split_once(':').ok_or_else(unknown_scheme)?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let settings = query.split('&').filter(|setting| !setting.is_empty());
        let settings = settings.map(|setting| {
            let (name, value) = setting.split_once('=').unwrap_or((setting, ""));
            (name.to_owned(), value.to_owned())
        });
        Ok(StoreUrl { scheme, rest, settings: settings.collect() })
    }
}

/// Error for an unknown scheme. It does not repeat the URL, which may contain a password.
pub(crate) fn unknown_scheme() -> Error {
    invalid_url("write memory:, sqlite:PATH or redis://HOST:PORT/DB")
}

/// Error for a store that this program was built without.
#[cfg(not(all(feature = "sqlite", feature = "redis-tls")))]
pub(crate) fn not_built(feature: &str) -> Error {
    let message =
        format!("this program was built without this store; build it with the feature `{feature}`");
    invalid_url(message)
}

/// Error for an invalid URL, with what to write instead.
pub(crate) fn invalid_url(what: impl Into<Cow<'static, str>>) -> Error {
    let message = format!("invalid store URL: {}", what.into());
    Error::new(ErrorKind::InvalidParams).with_message(message)
}
