//! The stores on a real Redis, which every test starts for itself.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]
#![allow(unreachable_pub, reason = "nothing outside a test reaches into it")]

mod failures;
mod proxy;
mod server;
mod sharing;
#[cfg(feature = "redis-tls")]
mod tls;

use std::time::Duration;

use crate::{proxy::CuttingProxy, server::RedisServer};

/// Looks again and again until `done` says yes.
async fn until<R: Future<Output = bool>>(what: &str, done: impl Fn() -> R) {
    let looks = async {
        while !done().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let patience = Duration::from_secs(60);
    tokio::time::timeout(patience, looks).await.unwrap_or_else(|_| panic!("never: {what}"));
}
