//! What a Wharf server keeps, on real engines: in memory, in SQLite, in Redis.
#![forbid(unsafe_code)]

mod clock;
#[cfg(feature = "contract")]
pub mod contract;
mod ears;
mod memory;
mod open;
#[cfg(feature = "redis")]
mod redis;
#[cfg(feature = "sqlite")]
mod sqlite;
mod url;

pub use crate::{clock::Clock, memory::*, open::open};
