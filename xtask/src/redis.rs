//! Installs `redis-server` for the tests of stores.

use std::process::Command;

use crate::workspace::{Workspace, output, run};

const REDIS_SERVER: &str = "redis-server";

pub(crate) fn install(_: &Workspace) -> Result<(), String> {
    if let Some(version) = output(REDIS_SERVER, &["--version"]) {
        println!("redis: using {version}");
        return Ok(());
    }
    println!("redis: installing Debian's package {REDIS_SERVER}");
    // A missing or outdated package list is the usual reason for a failure.
    let installed = apt(&["install", "--yes", REDIS_SERVER])
        .or_else(|_| apt(&["update"]).and_then(|()| apt(&["install", "--yes", REDIS_SERVER])));
    installed.map_err(|why| format!("{REDIS_SERVER} could not be installed: {why}"))?;
    match output(REDIS_SERVER, &["--version"]) {
        Some(_) => Ok(()),
        None => Err(format!("{REDIS_SERVER} was installed, but does not run")),
    }
}

fn apt(arguments: &[&str]) -> Result<(), String> {
    run(Command::new("apt-get").env("DEBIAN_FRONTEND", "noninteractive").arg("-q").args(arguments))
}
