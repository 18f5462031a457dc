//! The stages that tasks are made of.

use std::time::Instant;

use crate::bench;
use crate::conformance;
use crate::features;
use crate::foreign;
use crate::redis;
use crate::sqlite;
use crate::tidy;
use crate::workspace::Workspace;

/// One step of a task.
#[derive(Clone, Copy)]
pub(crate) struct Stage {
    name: &'static str,
    run: fn(&Workspace) -> Result<(), String>,
    /// What to do when it fails.
    advice: &'static str,
}

pub(crate) const FORMAT: Stage = Stage {
    name: "format",
    run: |workspace| workspace.cargo("fmt --all --check"),
    advice: "run `cargo fmt --all` (if cargo has no fmt: `rustup component add rustfmt`)",
};

pub(crate) const TIDY: Stage =
    Stage { name: "tidy", run: tidy::run, advice: "correct what is listed above" };

pub(crate) const CLIPPY: Stage = Stage {
    name: "clippy",
    run: |workspace| {
        workspace.cargo("clippy --workspace --all-targets --all-features -- -D warnings")
    },
    advice: "mend what it printed above (if cargo has no clippy: `rustup component add clippy`)",
};

pub(crate) const FEATURES: Stage = Stage {
    name: "features",
    run: features::run,
    advice: "mend what it printed above; `cargo xtask features` tries again",
};

pub(crate) const FOREIGN: Stage = Stage {
    name: "foreign programs",
    run: foreign::install,
    advice: "mend that, then run `cargo xtask foreign` to try again",
};

pub(crate) const REDIS: Stage = Stage {
    name: "redis",
    run: redis::install,
    advice: "install Redis 6 or newer, so that `redis-server` is on the PATH, then run `cargo xtask redis`",
};

pub(crate) const SQLITE: Stage = Stage {
    name: "sqlite",
    run: sqlite::check,
    advice: "change the range of rusqlite in Cargo.toml, or the store's code, so that each of them builds",
};

pub(crate) const TESTS: Stage =
    Stage { name: "tests", run: tests, advice: "mend what the tests printed above" };

pub(crate) const CONFORMANCE: Stage = Stage {
    name: "conformance",
    run: conformance::run,
    advice: "mend what failed above, then run `cargo xtask conformance` to try again",
};

pub(crate) const DOC_TESTS: Stage = Stage {
    name: "doc tests",
    run: |workspace| workspace.cargo("test --doc --workspace --all-features"),
    advice: "mend the examples named above",
};

pub(crate) const DOCS: Stage = Stage {
    name: "documentation",
    run: |workspace| workspace.cargo("doc --no-deps --workspace --all-features"),
    advice: "mend what rustdoc printed above",
};

pub(crate) const BENCH: Stage =
    Stage { name: "bench", run: bench::run, advice: "see `cargo xtask bench --help`" };

/// Runs the stages in turn and stops at the first that fails.
pub(crate) fn run(stages: &[Stage], workspace: &Workspace) -> Result<(), String> {
    let start = Instant::now();
    for stage in stages {
        println!("== {}", stage.name);
        let began = Instant::now();
        (stage.run)(workspace)
            .map_err(|why| format!("{} failed: {why}; {}", stage.name, stage.advice))?;
        println!("== {}: {:.1} s", stage.name, began.elapsed().as_secs_f32());
    }
    println!("== all well: {:.1} s", start.elapsed().as_secs_f32());
    Ok(())
}

fn tests(workspace: &Workspace) -> Result<(), String> {
    if workspace.has_cargo("nextest") {
        return workspace.cargo("nextest run --workspace --all-features");
    }
    println!("cargo-nextest is missing, so `cargo test` runs the tests, more slowly");
    println!("(to have it: `cargo install cargo-nextest --locked`)");
    workspace.cargo("test --workspace --all-features --lib --bins --tests --examples")
}
