//! What a Wharf server keeps, on real engines: in memory, in SQLite, in Redis.
#![forbid(unsafe_code)]

mod clock;
mod ears;
mod memory;

pub use crate::{clock::Clock, memory::*};
