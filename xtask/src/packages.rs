//! Installs Debian packages for the tests: `redis-server` for those of stores, `prometheus` for those of metrics, `chromium`
//! for those of apps.

use std::process::Command;

use crate::workspace::{Workspace, output, run};

pub(crate) fn install(_: &Workspace) -> Result<(), String> {
    install_package("redis-server", "redis-server")
}

/// Installs Prometheus with `promtool`.
pub(crate) fn install_prometheus(_: &Workspace) -> Result<(), String> {
    install_package("prometheus", "promtool")
}

/// Installs Chromium, which the tests start as `/usr/bin/chromium`.
pub(crate) fn install_chromium(_: &Workspace) -> Result<(), String> {
    install_package("chromium", "/usr/bin/chromium")
}

/// Installs a package if `program` is missing.
fn install_package(package: &str, program: &str) -> Result<(), String> {
    if let Some(version) = output(program, &["--version"]) {
        println!("{package}: using {}", version.lines().next().unwrap_or_default());
        return Ok(());
    }
    println!("{package}: installing Debian's package {package}");
    if output("apt-get", &["--version"]).is_none() {
        return Err(format!("{program} is missing, and so is apt-get, which would install it"));
    }
    if output("id", &["-u"]).is_some_and(|user| user != "0") {
        return Err(format!("{program} is missing, and only root can install {package}"));
    }
    // A missing or outdated package list is the usual reason for a failure.
    let arguments = ["install", "--yes", "--no-install-recommends", package];
    let installed = apt(&arguments).or_else(|_| apt(&["update"]).and_then(|()| apt(&arguments)));
    installed.map_err(|why| format!("{package} could not be installed: {why}"))?;
    match output(program, &["--version"]) {
        Some(_) => Ok(()),
        None => Err(format!("{package} was installed, but {program} does not run")),
    }
}

fn apt(arguments: &[&str]) -> Result<(), String> {
    let mut command = Command::new("apt-get");
    // Another installation, such as an automatic upgrade, holds the lock for a while.
    command.env("DEBIAN_FRONTEND", "noninteractive").args(["-q", "-o", "DPkg::Lock::Timeout=300"]);
    run(command.args(arguments))
}
