//! What the URL of a store says.

use std::borrow::Cow;

use wharf_model::{Error, ErrorKind};

/// A URL, taken apart as far as all stores have it in common.
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

/// The URL is none of ours. What it was is not repeated: it may hold a password.
pub(crate) fn unknown_scheme() -> Error {
    invalid_url("write memory:, sqlite:PATH or redis://HOST:PORT/DB")
}

/// This program was built without the store.
#[cfg(not(all(feature = "sqlite", feature = "redis-tls")))]
pub(crate) fn not_built(feature: &str) -> Error {
    let message =
        format!("this program was built without it; build it with the feature `{feature}`");
    invalid_url(message)
}

/// An error that says what to write.
pub(crate) fn invalid_url(what: impl Into<Cow<'static, str>>) -> Error {
    let message = format!("The store's URL is no good: {}", what.into());
    Error::new(ErrorKind::InvalidParams).with_message(message)
}
