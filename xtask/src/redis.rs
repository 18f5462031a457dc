//! Installs the Redis that the tests of stores start.

use std::process::Command;

use crate::workspace::{Workspace, output, run};

const PROGRAM: &str = "redis-server";

pub(crate) fn install(_: &Workspace) -> Result<(), String> {
    if let Some(version) = output(PROGRAM, &["--version"]) {
        println!("redis: the system's, {version}");
        return Ok(());
    }
    println!("redis: Debian's package {PROGRAM}");
    // A package list that is out of date, or none, is the usual reason for a failure.
    let installed = apt(&["install", "--yes", PROGRAM])
        .or_else(|_| apt(&["update"]).and_then(|()| apt(&["install", "--yes", PROGRAM])));
    installed.map_err(|why| format!("{PROGRAM} could not be installed: {why}"))?;
    match output(PROGRAM, &["--version"]) {
        Some(_) => Ok(()),
        None => Err(format!("{PROGRAM} was installed, but does not run")),
    }
}

fn apt(arguments: &[&str]) -> Result<(), String> {
    run(Command::new("apt-get").env("DEBIAN_FRONTEND", "noninteractive").arg("-q").args(arguments))
}
