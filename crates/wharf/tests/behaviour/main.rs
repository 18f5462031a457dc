//! Behaviour of the server as a client observes it: every case over every transport, in every revision.
//!
//! The binary has a test harness of its own: each combination is a test with its own name. The binary is also its own
//! child process: `--serve` serves stdio, `--parent` starts such a child and waits.
#![allow(unreachable_pub, reason = "nothing outside a test reaches into it")]
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by panicking")]

mod cases;
mod client;
mod harness;
mod http_as_lines;
mod server;
mod web;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

use crate::{
    cases::{CASES, Case},
    harness::Harness,
};

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("--serve") => runtime().block_on(harness::serve_stdio()),
        Some("--serve-on-one-thread") => one_thread().block_on(harness::serve_stdio()),
        Some("--parent") => harness::run_parent_process(),
        _ => {
            let trials = CASES.iter().flat_map(trials).collect();
            return libtest_mimic::run(&Arguments::from_args(), trials).exit_code();
        }
    }
    ExitCode::SUCCESS
}

/// One test for each transport and revision of the case.
fn trials(case: &'static Case) -> impl Iterator<Item = Trial> {
    case.transports.iter().flat_map(move |&transport| {
        case.revisions.iter().map(move |&revision| {
            let name = format!("{}/{transport:?}/{revision}", case.name);
            Trial::test(name, move || {
                runtime().block_on(async {
                    (case.run)(Harness::start(transport).await, revision).await;
                });
                Ok(())
            })
        })
    })
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime")
}

fn one_thread() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}
