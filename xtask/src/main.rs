//! Development tasks of Wharf: `cargo xtask help` lists them.

mod bench;
mod conformance;
mod features;
mod files;
mod foreign;
mod fuzz;
mod node;
mod packages;
mod sqlite;
mod stage;
mod tests;
mod tidy;
mod workspace;

use std::env;
use std::process::ExitCode;

use stage::Stage;
use workspace::Workspace;

struct Task {
    name: &'static str,
    about: &'static str,
    stages: &'static [Stage],
}

const TASKS: &[Task] = &[
    Task {
        name: "test",
        about: "runs everything that CI runs",
        stages: &[
            stage::FORMAT,
            stage::TIDY,
            stage::CLIPPY,
            stage::COMMON_FEATURES,
            stage::SQLITE_VERSIONS,
            stage::FOREIGN,
            stage::REDIS,
            stage::PROMETHEUS,
            stage::TEST_BUILD,
            stage::TESTS,
            stage::DOC_TESTS,
            stage::DOCS,
        ],
    },
    Task {
        name: "lint",
        about: "checks format, tidy and clippy",
        stages: &[stage::FORMAT, stage::TIDY, stage::CLIPPY],
    },
    Task {
        name: "tidy",
        about: "checks names and paths in documents, names of types, sizes of files, where revisions are named, and dependencies",
        stages: &[stage::TIDY],
    },
    Task {
        name: "features",
        about: "checks that the crates build without warnings with the feature sets that users enable",
        stages: &[stage::FEATURES],
    },
    Task {
        name: "foreign",
        about: "installs the clients and servers of other projects that the tests run, into target/foreign",
        stages: &[stage::FOREIGN],
    },
    Task {
        name: "redis",
        about: "installs redis-server for the tests of stores, if it is missing",
        stages: &[stage::REDIS],
    },
    Task {
        name: "prometheus",
        about: "installs prometheus for the tests of metrics, if it is missing",
        stages: &[stage::PROMETHEUS],
    },
    Task {
        name: "sqlite",
        about: "checks that the SQLite store builds together with sqlx and recent versions of rusqlite",
        stages: &[stage::SQLITE],
    },
    Task {
        name: "conformance",
        about: "runs the official conformance suite and writes target/conformance/report.md",
        stages: &[stage::CONFORMANCE],
    },
    Task {
        name: "fuzz",
        about: "runs the fuzz targets; `fuzz TARGET --seconds N` one of them, or longer than a minute",
        stages: &[stage::FUZZ],
    },
    Task {
        name: "bench",
        about: "measures Wharf and its peers and writes docs/bench; `bench --help` lists the options",
        stages: &[stage::BENCH],
    },
];

fn main() -> ExitCode {
    let name = env::args().nth(1).unwrap_or_else(|| "help".to_owned());
    if matches!(name.as_str(), "help" | "--help" | "-h") {
        help();
        return ExitCode::SUCCESS;
    }
    let Some(task) = TASKS.iter().find(|task| task.name == name) else {
        eprintln!("xtask: there is no task `{name}`; choose one of these:\n");
        help();
        return ExitCode::FAILURE;
    };
    match Workspace::find().and_then(|workspace| stage::run(task.stages, &workspace)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
    }
}

fn help() {
    println!("usage: cargo xtask TASK\n");
    for task in TASKS {
        println!("  {:<13}{}", task.name, task.about);
    }
    println!("  {:<13}this list", "help");
}
