//! The `wharf` binary.
#![forbid(unsafe_code)]

mod arguments;
mod auth;
mod bridge;
mod bundle;
mod cargo_manifest;
mod cli;
mod commands;
mod common_options;
mod context;
mod demo;
mod error;
mod exit_status;
mod form;
mod logging;
mod registry;
mod run;
mod serve;
mod server_requests;
mod shell_completion;
mod show;
mod store_options;
mod suggest;
mod target_argument;
mod terminal;
mod tls_and_proxy_options;
mod trace;
mod trust;

use std::process::ExitCode;

/// Returns memory to the system after a burst. glibc's allocator keeps nearly all of it: one small
/// live allocation holds everything below it.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    run::main()
}
