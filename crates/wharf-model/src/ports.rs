//! Storage behind traits, each with an in-memory default elsewhere.

use std::time::Duration;

use crate::{BoxFuture, Error};

/// Seals state that travels through the client and comes back.
///
/// `context` is authenticated but not stored: state opens only under the context it was sealed in.
pub trait StateSeal: Send + Sync + 'static {
    /// Seals `plain`, as text that survives JSON and URLs.
    fn seal(&self, context: &[u8], plain: &[u8]) -> String;
    /// Opens what [`seal`](StateSeal::seal) made; `None` for anything else.
    fn open(&self, context: &[u8], sealed: &str) -> Option<Vec<u8>>;
}

/// Remembers which one-time claims have been made.
pub trait NonceStore: Send + Sync + 'static {
    /// Claims `nonce` for `ttl`: true exactly once.
    fn claim(&self, nonce: &str, ttl: Duration) -> BoxFuture<Result<bool, Error>>;
}

/// Counts what callers use of a rate.
pub trait RateStore: Send + Sync + 'static {
    /// Takes one token from the bucket of `key`; `Err` says how long until there is one.
    fn take(&self, key: &str, rate: Rate) -> Result<(), Duration>;
}

/// A token bucket: `per_second` tokens come in, at most `burst` are kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// How many tokens a second come in.
    pub per_second: f64,
    /// How many tokens are kept at most.
    pub burst: f64,
}
