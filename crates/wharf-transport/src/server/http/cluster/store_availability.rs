//! Availability of the shared stores: timeout of each operation, failure without waiting during an outage, and its end.

use std::time::Duration;

use tokio::time::timeout;
use wharf_model::{Error, ErrorKind, Stored};

use crate::server::http::cluster::Cluster;

/// Longest duration of a store operation.
const STORE_TIMEOUT: Duration = Duration::from_secs(5);
/// Time after which a client may retry a request that needs an unavailable store.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Error: a store failed or did not answer in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoreUnavailable;

impl StoreUnavailable {
    /// Returns the error for a client whose call needs the stores.
    pub(crate) fn error(self) -> Error {
        let millis = RETRY_AFTER.as_millis() as u64;
        let data = serde_json::json!({ "retryAfterMs": millis });
        Error::new(ErrorKind::TemporarilyUnavailable)
            .with_message(STORE_UNAVAILABLE)
            .with_data(data)
    }
}

/// Error text for requests that need an unavailable store.
pub(crate) const STORE_UNAVAILABLE: &str =
    "The store of this server is unavailable or full: try again later";

impl Cluster {
    /// Runs a store operation with a timeout. Fails at once while the stores are known to be unavailable.
    pub(crate) async fn store_call<T>(&self, operation: Stored<T>) -> Result<T, StoreUnavailable> {
        if self.stores_unavailable() {
            return Err(StoreUnavailable);
        }
        match timeout(STORE_TIMEOUT, operation).await {
            Ok(Ok(answer)) => Ok(answer),
            _ => {
                self.check_now.notify_one();
                Err(StoreUnavailable)
            }
        }
    }

    /// Returns true if the stores were unavailable at the last check.
    pub(crate) fn stores_unavailable(&self) -> bool {
        self.health.borrow().is_none()
    }

    /// Returns true if the stores answer now.
    pub(crate) async fn is_ready(&self) -> bool {
        !self.stores_unavailable() && self.store_call(self.stores.sessions.now()).await.is_ok()
    }

    /// Waits a moment, then until the stores are available.
    pub(crate) async fn wait_until_available(&self) {
        tokio::time::sleep(jitter(RETRY_AFTER / 4)).await;
        let _ = self.health.subscribe().wait_for(Option::is_some).await;
    }
}

/// Returns one to two times `least`, so that not all processes retry at once.
pub(super) fn jitter(least: Duration) -> Duration {
    let mut random = [0; 1];
    let _ = getrandom::fill(&mut random);
    least + least * u32::from(random[0]) / 256
}
