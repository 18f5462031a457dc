//! Store options of the demo server.

use clap::Args;
use wharf::{ErrorKind, Server, server::KeyRing, store};

use crate::{common_options::with_secret, error::Fail};

/// Where tasks are kept, and what seals them.
#[derive(Debug, Args)]
pub(crate) struct Stored {
    /// Keep tasks there: memory:, sqlite:PATH, redis://HOST:PORT/DB or rediss://..., which several
    /// processes share. @env:VARIABLE is read from the environment, where a password belongs
    #[arg(long, value_name = "URL", value_parser = with_secret)]
    store: Option<String>,
    /// Seal what is stored of tasks with the keys in this file, or in @env:VARIABLE
    #[arg(long, requires = "store", value_name = "FILE")]
    store_key: Option<String>,
}

impl Stored {
    /// Adds the store to the server.
    pub(crate) async fn keep(&self, server: Server) -> Result<Server, Fail> {
        let Some(url) = &self.store else { return Ok(server) };
        let keys = self.store_key.as_deref().map(keys).transpose()?;
        let stores = store::open(url).await.map_err(|error| {
            let is_redis = url.starts_with("redis");
            match error.kind == ErrorKind::TemporarilyUnavailable && is_redis {
                true => Fail::connecting(error).hint(START_REDIS.to_owned()),
                // Caused by the URL, or by a file that it names.
                false => Fail::usage(error.message),
            }
        })?;
        let server = server.store(stores);
        Ok(match keys {
            Some(keys) => server.store_key(keys),
            None => server,
        })
    }

    /// Line that describes the store, if there is one.
    pub(crate) fn told(&self) -> String {
        let sealed = if self.store_key.is_some() { ", sealed" } else { "" };
        let line = |url: &String| format!("Tasks are kept in {}{sealed}.\n", without_user(url));
        self.store.as_ref().map(line).unwrap_or_default()
    }
}

const START_REDIS: &str =
    "Start it, or mend the URL. Once it was there, it may go and come back by itself.";

/// Keys from a file or a variable. They are never on the command line, which others on the machine
/// can read.
fn keys(place: &str) -> Result<KeyRing, Fail> {
    if place.parse::<KeyRing>().is_ok() {
        let fail = Fail::usage("--store-key was given a key, which others can read there");
        return Err(fail.hint("Put it into a file, or into a variable: @env:NAME.".to_owned()));
    }
    let keys = match place.strip_prefix("@env:") {
        Some(variable) => KeyRing::from_env(variable),
        None => KeyRing::from_file(place),
    };
    keys.map_err(|error| Fail::usage(format!("--store-key: {error}")))
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
    fn nobody_is_told_a_password() {
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
