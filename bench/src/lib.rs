//! Shared code of the benchmark programs: the command line of the servers, and the load generator. See
//! `docs/bench/README.md`.
#![forbid(unsafe_code)]

pub mod command_line;
#[cfg(all(feature = "runner", target_os = "linux"))]
pub mod load;
#[cfg(all(feature = "runner", target_os = "linux"))]
pub mod process;
pub mod work;
