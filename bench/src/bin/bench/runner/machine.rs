//! Machine and versions of a run.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

/// Root directory of the workspace.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Describes the machine and the versions as JSON.
pub(crate) fn describe(cores: usize) -> Value {
    let said = |program: &str, words: &[&str]| {
        let output = Command::new(program).args(words).current_dir(root()).output();
        let output = output.ok().filter(|output| output.status.success());
        output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let changed = said("git", &["status", "--porcelain"]).is_some_and(|text| !text.is_empty());
    json!({
        "date": said("date", &["--utc", "+%Y-%m-%d %H:%M UTC"]),
        "commit": said("git", &["rev-parse", "--short", "HEAD"]),
        "uncommitted_changes": changed,
        "processor": field("/proc/cpuinfo", "model name"),
        "cores": cores,
        "memory": field("/proc/meminfo", "MemTotal"),
        "kernel": first_line("/proc/sys/kernel/osrelease"),
        "load_average": load_average(),
        "rustc": said("rustc", &["--version"]),
        "versions": versions(),
    })
}

/// Load average of the last minute.
pub(crate) fn load_average() -> Option<f64> {
    first_line("/proc/loadavg")?.split(' ').next()?.parse().ok()
}

/// Versions of the main dependencies, from the lock file.
fn versions() -> Value {
    const CRATES: [&str; 6] = ["rmcp", "tower-mcp", "hyper", "axum", "tokio", "serde_json"];
    let lock = fs::read_to_string(root().join("Cargo.lock")).unwrap_or_default();
    let version = |name: &&str| {
        let (_, after) = lock.split_once(&format!("name = \"{name}\"\nversion = \""))?;
        let version = after.split('"').next()?;
        Some(((*name).to_owned(), Value::from(version)))
    };
    let redis = redis_version().map(|version| ("redis-server".to_owned(), Value::from(version)));
    CRATES.iter().filter_map(version).chain(foreign_versions()).chain(redis).collect()
}

/// Versions of the servers in other languages, from the files that pin them.
fn foreign_versions() -> impl Iterator<Item = (String, Value)> {
    const PINS: [(&str, &str, &str, &str); 3] = [
        ("BENCH_PYTHON", "fastmcp", "tests/foreign/requirements.txt", "\nfastmcp=="),
        ("BENCH_PYTHON", "pydocket", "bench/python/requirements.txt", "\npydocket=="),
        (
            "BENCH_NODE",
            "@modelcontextprotocol/server",
            "tests/foreign/package.json",
            "/server\": \"",
        ),
    ];
    PINS.into_iter().filter_map(|(variable, name, file, before)| {
        env::var_os(variable)?;
        let pins = fs::read_to_string(root().join(file)).ok()?;
        let version = pins.split_once(before)?.1.split(['\n', '"']).next()?;
        Some((name.to_owned(), Value::from(version)))
    })
}

/// Version of the installed Redis, from `Redis server v=7.0.15 sha=…`.
fn redis_version() -> Option<String> {
    let output = Command::new("redis-server").arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Some(text.split_once("v=")?.1.split(' ').next()?.to_owned())
}

/// The first field of this name in a file of lines such as `name : value`.
fn field(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn first_line(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.lines().next()?.trim().to_owned())
}
