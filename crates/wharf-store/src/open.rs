//! A store by its URL.

use wharf_model::{Error, Stores};

use crate::{
    memory::memory_stores,
    url::{StoreUrl, invalid_url, unknown_scheme},
};

/// Opens the stores that a URL names:
///
/// - `memory:` ends with the process.
/// - `sqlite:PATH` (feature `sqlite`) is one file, created if it is not there, that outlives the process.
///   `?synchronous=normal` is faster, and may lose the last writes when the machine loses its power.
/// - `redis://USER:PASSWORD@HOST:PORT/DB` (feature `redis`) is shared by any number of processes.
///   `?prefix=NAME` (`wharf` if it is not given) keeps servers on one Redis apart.
/// - `rediss://…` (feature `redis-tls`) is the same, encrypted. `?ca=PATH` names the authority to trust
///   in the place of the system's; `cert=PATH&key=PATH` say who we are to a Redis that wants to know.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), wharf_model::Error> {
/// let stores = wharf_store::open("memory:").await?;
/// assert!(stores.nonces.claim("once", std::time::Duration::from_secs(60)).await?);
///
/// let error = wharf_store::open("mysql://localhost").await.unwrap_err();
/// assert!(error.message.contains("sqlite:PATH"));
/// # Ok(()) }
/// ```
///
/// It needs a tokio runtime, on which what keeps the connections to Redis goes on running.
///
/// # Errors
/// If the URL is none of these, or the store cannot be reached. What went wrong is told without
/// the URL, which may hold a password.
pub async fn open(url: &str) -> Result<Stores, Error> {
    let url = StoreUrl::parse(url)?;
    match url.scheme {
        "memory" if url.rest.is_empty() && url.settings.is_empty() => Ok(memory_stores()),
        "memory" => Err(invalid_url("memory: takes nothing more")),
        #[cfg(feature = "sqlite")]
        "sqlite" => crate::sqlite::open(&url).await,
        #[cfg(not(feature = "sqlite"))]
        "sqlite" => Err(crate::url::not_built("sqlite")),
        #[cfg(feature = "redis")]
        "redis" => crate::redis::open(&url).await,
        #[cfg(not(feature = "redis"))]
        "redis" => Err(crate::url::not_built("redis")),
        #[cfg(feature = "redis-tls")]
        "rediss" => crate::redis::open(&url).await,
        #[cfg(not(feature = "redis-tls"))]
        "rediss" => Err(crate::url::not_built("redis-tls")),
        _ => Err(unknown_scheme()),
    }
}
