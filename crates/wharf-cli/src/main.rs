//! The `wharf` binary.
#![forbid(unsafe_code)]

mod arguments;
mod auth;
mod cli;
mod context;
mod demo;
mod fail;
mod form;
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
mod verbs;

use std::process::ExitCode;

use tikv_jemallocator::Jemalloc;

/// Gives memory back to the system after a burst. glibc's allocator keeps nearly all of it: one small allocation that
/// lives on holds everything below it.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> ExitCode {
    run::main()
}
