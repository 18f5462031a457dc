//! The stores in a real Redis; every test starts its own.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]
#![allow(unreachable_pub, reason = "the items are used inside this test only")]

mod failures;
mod proxy;
mod server;
mod sharing;
#[cfg(feature = "redis-tls")]
mod tls;

use std::time::Duration;

use crate::{proxy::CuttingProxy, server::RedisServer};

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
