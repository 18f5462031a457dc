//! Opens stores by URL.

use wharf_model::{Error, Stores};

use crate::{
    StoreOpenError,
    memory::memory_stores,
    url::{StoreUrl, invalid_url, unknown_scheme},
};

/// Opens the stores that a URL names:
///
/// - `memory:` ends with the process.
/// - `sqlite:PATH` (feature `sqlite`) is one file that survives the process. It is created if it
///   does not exist. `?synchronous=normal` is faster and may lose the last writes at a power
///   failure.
/// - `redis://USER:PASSWORD@HOST:PORT/DB` (feature `redis`) is shared by any number of processes.
///   `?prefix=NAME` (default `wharf`) separates servers on one Redis.
/// - `rediss://…` (feature `redis-tls`) is the same over TLS. `?ca=PATH` is the certificate
///   authority to trust instead of the system's; `cert=PATH&key=PATH` is the client certificate for
///   a Redis that requires one.
/// - Both take `?proxy=http://USER:PASSWORD@HOST:PORT`, an HTTP proxy, for a Redis on another machine. The
///   proxies of the environment are not used.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), wharf_model::Error> {
/// let stores = wharf_store::open("memory:").await?;
/// assert!(stores.nonces.claim("once", std::time::Duration::from_secs(60)).await?);
///
/// let error = wharf_store::open("mysql://localhost").await.unwrap_err();
/// assert!(error.message().contains("sqlite:PATH"));
/// # Ok(()) }
/// ```
///
/// It needs a tokio runtime, on which the tasks that maintain the connections to Redis run.
///
/// # Errors
/// If the URL is none of these, or the store cannot be reached. The error does not repeat the URL,
/// which may contain a password.
pub async fn open(url: &str) -> Result<Stores, StoreOpenError> {
    open_stores(url).await.map_err(StoreOpenError::of)
}

async fn open_stores(url: &str) -> Result<Stores, Error> {
    let url = StoreUrl::parse(url)?;
    match url.scheme {
        "memory" if url.rest.is_empty() && url.settings.is_empty() => Ok(memory_stores()),
        "memory" => Err(invalid_url("write memory: and nothing after it")),
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
