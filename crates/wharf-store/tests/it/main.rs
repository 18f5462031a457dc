//! Tests of the stores, in one binary.
#![allow(
    unreachable_pub,
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "tests fail by panicking"
)]

#[cfg(feature = "contract")]
mod contract;
#[cfg(feature = "contract")]
mod memory;
#[cfg(all(feature = "contract", feature = "redis"))]
mod redis;
#[cfg(all(feature = "contract", feature = "sqlite"))]
mod sqlite;
