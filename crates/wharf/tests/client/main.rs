//! Behaviour of Wharf's client: every case over every transport, in every revision.
//!
//! The binary has a test harness of its own: each combination is a test with its own name. The binary is also its own
//! child process: `--serve` serves stdio.
#![allow(unreachable_pub, reason = "nothing outside a test reaches into it")]
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by panicking")]

mod cases;
mod harness;
#[path = "../behaviour/server.rs"]
mod server;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

use crate::{
    cases::{CASES, Case},
    harness::Harness,
};

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some("--serve") {
        runtime().block_on(harness::serve_stdio());
        return ExitCode::SUCCESS;
    }
    let trials = CASES.iter().flat_map(trials).collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// One test for each route and revision of the case.
fn trials(case: &'static Case) -> impl Iterator<Item = Trial> {
    case.routes.iter().flat_map(move |&route| {
        let revisions = case.revisions.iter().filter(move |revision| route.supports(revision));
        revisions.map(move |&revision| {
            let name = format!("{}/{route:?}/{revision}", case.name);
            Trial::test(name, move || {
                runtime().block_on(async {
                    (case.run)(Harness::start(route, revision).await).await;
                });
                Ok(())
            })
        })
    })
}

fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().expect("a runtime")
}
