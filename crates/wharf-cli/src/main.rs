//! The `wharf` binary.
#![forbid(unsafe_code)]

mod arguments;
mod auth;
mod cli;
mod context;
mod demo;
mod fail;
mod form;
mod logging;
mod questions;
mod run;
mod serve;
mod shared;
mod show;
mod stored;
mod suggest;
mod target;
mod terminal;
mod trace;
mod trust;
mod verbs;

use std::process::ExitCode;

/// Gives memory back to the system after a burst. glibc's allocator keeps nearly all of it: one small allocation that
/// lives on holds everything below it.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    run::main()
}
