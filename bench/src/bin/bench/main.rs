//! Measures and compares the benchmark servers. `cargo xtask bench` builds them first.
#![forbid(unsafe_code)]

use std::process::ExitCode;

#[cfg(target_os = "linux")]
mod runner;

#[cfg(not(target_os = "linux"))]
mod runner {
    pub(crate) fn run() -> Result<(), String> {
        Err("only Linux is supported: the runner reads /proc and pins processes to cores"
            .to_owned())
    }
}

fn main() -> ExitCode {
    match runner::run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("bench: {message}");
            ExitCode::FAILURE
        }
    }
}
