//! Tasks of `cargo xtask`, and the stages of each in their order. `test` is what CI runs.

use std::time::{Duration, Instant};

use crate::bench;
use crate::conformance;
use crate::features;
use crate::foreign;
use crate::fuzz;
use crate::packages;
use crate::sqlite;
use crate::tests;
use crate::tidy;
use crate::workspace::Workspace;

/// Task of `cargo xtask`.
pub(crate) struct Task {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) stages: &'static [Stage],
}

/// All tasks.
pub(crate) const TASKS: &[Task] = &[
    Task {
        name: "test",
        about: "runs everything that CI runs",
        stages: &[
            FORMAT,
            TIDY,
            CLIPPY,
            COMMON_FEATURES,
            SQLITE_VERSIONS,
            FOREIGN,
            REDIS,
            PROMETHEUS,
            CHROMIUM,
            TEST_BUILD,
            TESTS,
            DOC_TESTS,
            DOCS,
        ],
    },
    Task { name: "lint", about: "checks format, tidy and clippy", stages: &[FORMAT, TIDY, CLIPPY] },
    Task {
        name: "tidy",
        about: "checks names and paths in documents, names of types, prose of comments, sizes of files, where revisions are named, and dependencies",
        stages: &[TIDY],
    },
    Task {
        name: "features",
        about: "checks that the crates build without warnings with the feature sets that users enable",
        stages: &[FEATURES],
    },
    Task {
        name: "foreign",
        about: "installs the clients and servers of other projects that the tests run, into target/foreign",
        stages: &[FOREIGN],
    },
    Task {
        name: "redis",
        about: "installs redis-server for the tests of stores, if it is missing",
        stages: &[REDIS],
    },
    Task {
        name: "prometheus",
        about: "installs prometheus for the tests of metrics, if it is missing",
        stages: &[PROMETHEUS],
    },
    Task {
        name: "chromium",
        about: "installs chromium for the tests of apps, if it is missing",
        stages: &[CHROMIUM],
    },
    Task {
        name: "sqlite",
        about: "checks that the SQLite store builds together with sqlx and recent versions of rusqlite",
        stages: &[SQLITE],
    },
    Task {
        name: "conformance",
        about: "runs the official conformance suite and writes target/conformance/report.md",
        stages: &[CONFORMANCE],
    },
    Task {
        name: "fuzz",
        about: "runs the fuzz targets; `fuzz TARGET --seconds N` one of them, or longer than a minute",
        stages: &[FUZZ],
    },
    Task {
        name: "bench",
        about: "measures Wharf and its peers and writes docs/bench; `bench --help` lists the options",
        stages: &[BENCH],
    },
];

/// Stage of a task.
#[derive(Clone, Copy)]
pub(crate) struct Stage {
    name: &'static str,
    run: fn(&Workspace) -> Result<(), String>,
    /// Advice that is printed if the stage fails.
    advice: &'static str,
}

pub(crate) const FORMAT: Stage = Stage {
    name: "format",
    run: |workspace| workspace.cargo("fmt --all --check"),
    advice: "run `cargo fmt --all` (if cargo has no fmt: `rustup component add rustfmt`)",
};

pub(crate) const TIDY: Stage =
    Stage { name: "tidy", run: tidy::run, advice: "fix the problems listed above" };

pub(crate) const CLIPPY: Stage = Stage {
    name: "clippy",
    run: |workspace| {
        workspace.cargo("clippy --workspace --all-targets --all-features -- -D warnings")
    },
    advice: "fix the warnings printed above (if cargo has no clippy: `rustup component add clippy`)",
};

pub(crate) const FEATURES: Stage = Stage {
    name: "features",
    run: features::run,
    advice: "fix the warnings printed above, then run `cargo xtask features` again",
};

pub(crate) const COMMON_FEATURES: Stage =
    Stage { name: "common features", run: features::run_common, ..FEATURES };

pub(crate) const FOREIGN: Stage = Stage {
    name: "foreign programs",
    run: foreign::install,
    advice: "fix the cause, then run `cargo xtask foreign` again",
};

pub(crate) const REDIS: Stage = Stage {
    name: "redis",
    run: packages::install,
    advice: "install Redis 6 or newer, so that `redis-server` is on the PATH, then run `cargo xtask redis`",
};

pub(crate) const PROMETHEUS: Stage = Stage {
    name: "prometheus",
    run: packages::install_prometheus,
    advice: "install Prometheus, so that `prometheus` and `promtool` are on the PATH, then run `cargo xtask prometheus`",
};

pub(crate) const CHROMIUM: Stage = Stage {
    name: "chromium",
    run: packages::install_chromium,
    advice: "install Chromium as `/usr/bin/chromium`, then run `cargo xtask chromium`",
};

pub(crate) const SQLITE: Stage = Stage {
    name: "sqlite",
    run: sqlite::check,
    advice: "change the version range of rusqlite in Cargo.toml, or the code of the store, so that every version builds",
};

pub(crate) const SQLITE_VERSIONS: Stage =
    Stage { name: "sqlite versions", run: sqlite::resolve, ..SQLITE };

pub(crate) const TEST_BUILD: Stage =
    Stage { name: "test build", run: tests::build, advice: "fix the errors printed above" };

pub(crate) const TESTS: Stage = Stage {
    name: "tests and conformance",
    run: tests::run,
    advice: "fix the failed tests and scenarios above (`cargo xtask conformance` runs the scenarios alone)",
};

pub(crate) const CONFORMANCE: Stage = Stage {
    name: "conformance",
    run: conformance::run,
    advice: "fix the failed scenarios above, then run `cargo xtask conformance` again",
};

pub(crate) const DOC_TESTS: Stage = Stage {
    name: "doc tests",
    run: |workspace| workspace.cargo("test --doc --workspace --all-features"),
    advice: "fix the examples named above",
};

pub(crate) const DOCS: Stage = Stage {
    name: "documentation",
    run: |workspace| {
        let crates = workspace.published_crates()?;
        workspace.cargo(&format!(
            "doc --no-deps --all-features --package {}",
            crates.join(" --package ")
        ))
    },
    advice: "fix the rustdoc warnings printed above",
};

pub(crate) const BENCH: Stage =
    Stage { name: "bench", run: bench::run, advice: "see `cargo xtask bench --help`" };

pub(crate) const FUZZ: Stage = Stage {
    name: "fuzz",
    run: fuzz::run,
    advice: "see `fuzz/README.md` for how to repeat an input and to keep it as a seed",
};

/// Runs the stages in turn, stops at the first that fails, and prints the time of each.
pub(crate) fn run(stages: &[Stage], workspace: &Workspace) -> Result<(), String> {
    let mut times = Vec::new();
    let mut result = Ok(());
    for stage in stages {
        println!("== {}", stage.name);
        let began = Instant::now();
        result = (stage.run)(workspace)
            .map_err(|why| format!("{} failed: {why}; {}", stage.name, stage.advice));
        times.push((stage.name, began.elapsed()));
        if result.is_err() {
            break;
        }
    }
    print_times(&times, if result.is_ok() { "passed" } else { "failed" });
    result
}

fn print_times(times: &[(&str, Duration)], end: &str) {
    println!();
    for (stage, time) in times {
        println!("{stage:<24}{:>8.1} s", time.as_secs_f32());
    }
    let sum: Duration = times.iter().map(|row| row.1).sum();
    println!("{end:<24}{:>8.1} s", sum.as_secs_f32());
}
