//! `cargo xtask bench`: builds the servers of `bench/`, each alone, and runs them.

use std::env;
use std::path::Path;
use std::process::Command;

use crate::files::read;
use crate::foreign;
use crate::redis;
use crate::workspace::{Workspace, run as run_program};

/// The programs of the package, each with the feature that it is built with.
const SERVERS: [(&str, &str); 4] = [
    ("wharf", "bench-wharf"),
    ("bare", "bench-bare"),
    ("rmcp", "bench-rmcp"),
    ("tower-mcp", "bench-tower-mcp"),
];
const RUNNER: (&str, &str) = ("runner", "bench");
/// The smallest server, for its size.
const QUICKSTART: (&str, &str) = ("wharf", "bench-quickstart");
/// Wharf's server with a store.
const WITH_STORE: (&str, &str) = ("tasks", "bench-wharf-tasks");

pub(crate) fn run(workspace: &Workspace) -> Result<(), String> {
    let words: Vec<String> = env::args().skip(2).collect();
    let has = |word: &str| words.iter().any(|it| it == word);
    build(workspace, RUNNER)?;
    let mut runner = Command::new(workspace.release_program(RUNNER.1));
    runner.args(&words);
    if !has("--help") && !has("--list") {
        build_servers(workspace, &words)?;
        add_foreign(workspace, &mut runner, has("--python"), has("--node"))?;
    }
    run_program(&mut runner)
}

fn build_servers(workspace: &Workspace, words: &[String]) -> Result<(), String> {
    let value = |option: &str| words.windows(2).find(|pair| pair[0] == option).map(|pair| &pair[1]);
    if value("--only").is_some_and(|only| only.starts_with("tasks")) {
        redis::install(workspace)?;
        return build(workspace, WITH_STORE);
    }
    let named = value("--servers");
    let wanted = |name: &str| named.is_none_or(|names| names.split(',').any(|it| it == name));
    for server in SERVERS.into_iter().filter(|(name, _)| wanted(name)) {
        build(workspace, server)?;
    }
    build(workspace, QUICKSTART)
}

/// Alone, so that no other server's features are switched on in what they share.
fn build(workspace: &Workspace, (feature, program): (&str, &str)) -> Result<(), String> {
    workspace.cargo(&format!(
        "build --release --package bench --no-default-features --features {feature} --bin {program}"
    ))
}

/// Tells the runner about servers of other languages.
fn add_foreign(
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
    let (node_program, python_program) =
        paths.trim().split_once('\n').ok_or("target/foreign/paths is not as it should be")?;
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

/// What makes uvicorn as fast as it gets, and FastMCP's tasks, beside the packages that the tests use.
fn install_extras(python: &str, pins: &Path, home: &Path) -> Result<(), String> {
    let words = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--upgrade"];
    // The pins are whole: with dependencies, it would install FastMCP again, in a version of its own choice.
    run_program(
        Command::new(python)
            .args(words)
            .arg("--no-deps")
            .arg("--target")
            .arg(home)
            .arg("-r")
            .arg(pins),
    )
}
