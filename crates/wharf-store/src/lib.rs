//! Storage for a Wharf server: in memory, in SQLite, in Redis.
//!
//! [`open`] takes a URL and returns all [`Stores`](wharf_model::Stores) of a server. The traits are
//! in `wharf-model`; their contract is in `contract`, as tests that a custom store can run.
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod clock;
#[cfg(feature = "contract")]
pub mod contract;
mod encrypted;
mod memory;
mod observed;
mod open;
mod open_error;
#[cfg(feature = "redis")]
mod redis;
#[cfg(feature = "sqlite")]
mod sqlite;
mod subscribers;
mod url;

pub use crate::encrypted::encrypted;
pub use crate::observed::observed;
pub use crate::{memory::*, open::open, open_error::StoreOpenError};
