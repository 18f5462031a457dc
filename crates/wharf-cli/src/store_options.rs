//! Store options of the demo server.

use clap::Args;
use wharf::{ErrorKind, Server, server::KeyRing, store};

use crate::{common_options::with_secret, error::CliError};

/// Options for the task store and its encryption.
#[derive(Debug, Args)]
pub(crate) struct StoreOptions {
    /// Task store: memory:, sqlite:PATH, or redis://HOST:PORT/DB or rediss://..., which several
    /// processes can share. A final @env:VARIABLE, such as a password, is read from the environment
    #[arg(long, value_name = "URL", value_parser = with_secret)]
    store: Option<String>,
    /// Encrypt the stored data with the keys in this file, or in @env:VARIABLE
    #[arg(long, requires = "store", value_name = "FILE")]
    store_key: Option<String>,
}

impl StoreOptions {
    /// Adds the store to the server.
    pub(crate) async fn apply(&self, server: Server) -> Result<Server, CliError> {
        let Some(url) = &self.store else { return Ok(server) };
        let keys = self.store_key.as_deref().map(keys).transpose()?;
        let stores = store::open(url).await.map_err(|error| {
            let is_redis = url.starts_with("redis");
            let message = error.message().to_owned();
            match error {
                store::StoreOpenError::Unavailable { .. } if is_redis => {
                    CliError::of_kind(ErrorKind::TemporarilyUnavailable, message)
                        .hint(START_REDIS.to_owned())
                }
                // Caused by the URL, or by a file that it names.
                _ => CliError::usage(message),
            }
        })?;
        let server = server.store(stores);
        Ok(match keys {
            Some(keys) => server.store_key(keys),
            None => server,
        })
    }

    /// Line that describes the store, if there is one.
    pub(crate) fn description(&self) -> String {
        let encrypted = if self.store_key.is_some() { ", encrypted" } else { "" };
        let line =
            |url: &String| format!("Tasks are stored in {}{encrypted}.\n", without_user(url));
        self.store.as_ref().map(line).unwrap_or_default()
    }
}

const START_REDIS: &str = "Start Redis, or correct the URL. A running server reconnects by itself.";

/// Keys from a file or a variable. They are never on the command line, which others on the machine
/// can read.
fn keys(place: &str) -> Result<KeyRing, CliError> {
    if place.parse::<KeyRing>().is_ok() {
        let fail =
            CliError::usage("--store-key is a key itself; other users can read the command line");
        return Err(fail.hint(
            "Put the key into a file, or into an environment variable: @env:NAME.".to_owned(),
        ));
    }
    let keys = match place.strip_prefix("@env:") {
        Some(variable) => KeyRing::from_env(variable),
        None => KeyRing::from_file(place),
    };
    keys.map_err(|error| CliError::usage(format!("--store-key: {error}")))
}

/// URL without user and password, which end at its last `@`.
fn without_user(url: &str) -> String {
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme @ ("redis" | "rediss"), _)), Some((_, place))) => {
            format!("{scheme}://{place}")
        }
        _ => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn store_urls_are_shown_without_passwords() {
        for (url, told) in [
            ("memory:", "memory:"),
            ("sqlite:/var/me@home.db", "sqlite:/var/me@home.db"),
            ("redis://host:6379/1?prefix=a", "redis://host:6379/1?prefix=a"),
            ("redis://me:secret@host/1", "redis://host/1"),
            ("rediss://:s@cr?t/s@host", "rediss://host"),
        ] {
            assert_eq!(without_user(url), told);
        }
    }
}
