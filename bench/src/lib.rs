//! What the programs of this package share: a command line for the servers, and the load generator.
//! How to run them and what they say: `docs/bench/README.md`.
#![forbid(unsafe_code)]

pub mod command_line;
#[cfg(all(feature = "runner", target_os = "linux"))]
pub mod load;
#[cfg(all(feature = "runner", target_os = "linux"))]
pub mod process;
pub mod work;
