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

fn main() -> ExitCode {
    run::main()
}
