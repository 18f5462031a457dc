//! The stores in a real Redis; every test starts its own.

mod contract;
mod failures;
mod proxy;
#[cfg(feature = "redis-tls")]
mod tls;
mod tunnel;

use std::time::Duration;

use wharf_testbed::redis_server::RedisServer;

use crate::redis::proxy::CuttingProxy;

/// Polls `done` until it returns true.
async fn until<R: Future<Output = bool>>(what: &str, done: impl Fn() -> R) {
    let polling = async {
        while !done().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let limit = Duration::from_secs(60);
    tokio::time::timeout(limit, polling)
        .await
        .unwrap_or_else(|_| panic!("timed out waiting until {what}"));
}
