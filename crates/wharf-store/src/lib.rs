//! What a Wharf server keeps, on real engines: in memory, in SQLite, in Redis.
//!
//! [`open`] takes a URL and gives all [`Stores`](wharf_model::Stores) of a server. The traits are in
//! `wharf-model`; what they promise is in `contract`, as tests that a store of your own can run.
#![forbid(unsafe_code)]

mod clock;
#[cfg(feature = "contract")]
pub mod contract;
mod encrypted;
mod memory;
mod open;
#[cfg(feature = "redis")]
mod redis;
#[cfg(feature = "sqlite")]
mod sqlite;
mod subscribers;
mod url;

pub use crate::encrypted::sealed;
pub use crate::{memory::*, open::open};

/// The examples of the guide are tests.
#[cfg(all(doctest, feature = "contract"))]
#[doc = include_str!("../../../docs/stores.md")]
struct GuideExamples;
