//! `cargo xtask bench`: builds the benchmark servers, each by itself, and runs the benchmarks.

use std::env;
use std::path::Path;
use std::process::Command;

use crate::files::read;
use crate::foreign;
use crate::packages;
use crate::workspace::{Workspace, run as run_program};

/// Server programs of the package `bench`, each with the feature that builds it.
const SERVER_PROGRAMS: [(&str, &str); 4] = [
    ("wharf", "bench-wharf"),
    ("bare", "bench-bare"),
    ("rmcp", "bench-rmcp"),
    ("tower-mcp", "bench-tower-mcp"),
];
const RUNNER: (&str, &str) = ("runner", "bench");
/// Smallest server, whose file size is measured.
const QUICKSTART_SERVER: (&str, &str) = ("wharf", "bench-quickstart");
/// Wharf's server with a store, for the benchmarks of tasks.
const TASK_SERVER: (&str, &str) = ("tasks", "bench-wharf-tasks");
/// Wharf's server with observers, whose instructions are counted.
const OBSERVED_SERVER: (&str, &str) = ("observed", "bench-wharf-observed");
/// Validators of JSON Schema.
const VALIDATORS: (&str, &str) = ("schema", "bench-schema");

pub(crate) fn run(workspace: &Workspace) -> Result<(), String> {
    let args: Vec<String> = env::args().skip(2).collect();
    let has = |word: &str| args.iter().any(|it| it == word);
    build(workspace, RUNNER)?;
    let mut runner = Command::new(workspace.release_program(RUNNER.1));
    runner.args(&args);
    if !has("--help") && !has("--list") {
        build_servers(workspace, &args)?;
        configure_foreign_servers(workspace, &mut runner, has("--python"), has("--node"))?;
    }
    run_program(&mut runner)
}

fn build_servers(workspace: &Workspace, args: &[String]) -> Result<(), String> {
    let value = |option: &str| args.windows(2).find(|pair| pair[0] == option).map(|pair| &pair[1]);
    if value("--only").is_some_and(|only| only.starts_with("tasks")) {
        packages::install(workspace)?;
        return build(workspace, TASK_SERVER);
    }
    if value("--only").is_some_and(|only| only.starts_with("schema")) {
        return build(workspace, VALIDATORS);
    }
    let named = value("--servers");
    let wanted = |name: &str| named.is_none_or(|names| names.split(',').any(|it| it == name));
    for server in SERVER_PROGRAMS.into_iter().filter(|(name, _)| wanted(name)) {
        build(workspace, server)?;
    }
    if args.iter().any(|it| it == "--instructions") && wanted("wharf") {
        build(workspace, OBSERVED_SERVER)?;
    }
    build(workspace, QUICKSTART_SERVER)
}

/// Builds one program by itself, so that cargo does not unify the features of shared dependencies.
fn build(workspace: &Workspace, (feature, program): (&str, &str)) -> Result<(), String> {
    workspace.cargo(&format!(
        "build --release --package bench --no-default-features --features {feature} --bin {program}"
    ))
}

/// Passes the servers of other languages to the runner, through environment variables.
fn configure_foreign_servers(
    workspace: &Workspace,
    runner: &mut Command,
    python: bool,
    node: bool,
) -> Result<(), String> {
    if !python && !node {
        return Ok(());
    }
    foreign::install(workspace)?;
    let paths = read(&workspace.foreign.join("paths"))?;
    let (node_program, python_program) = paths
        .trim()
        .split_once('\n')
        .ok_or("target/foreign/paths is invalid: run `cargo xtask foreign` again")?;
    let bench = workspace.root.join("bench");
    runner.env("WHARF_FOREIGN", &workspace.foreign);
    if node {
        runner.env("BENCH_NODE", node_program);
        runner.env("BENCH_NODE_SERVER", bench.join("node/server.mjs"));
    }
    if python {
        let extras = workspace.target.join("bench-python");
        let pins = bench.join("python/requirements.txt");
        install_extras(python_program, &pins, &extras)?;
        runner.env("BENCH_PYTHON", python_program);
        runner.env("BENCH_PYTHON_SERVER", bench.join("python/server.py"));
        runner.env("PYTHONPATH", extras);
    }
    Ok(())
}

/// Installs uvicorn's optional accelerators and FastMCP's task support, in addition to the packages of the tests.
fn install_extras(python: &str, pins: &Path, home: &Path) -> Result<(), String> {
    let args = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--upgrade"];
    // The pins are complete. With dependencies, pip would install another version of FastMCP.
    run_program(
        Command::new(python)
            .args(args)
            .arg("--no-deps")
            .arg("--target")
            .arg(home)
            .arg("-r")
            .arg(pins),
    )
}
