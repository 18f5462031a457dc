//! Measures the servers beside each other. `cargo xtask bench` builds them first.
#![forbid(unsafe_code)]

use std::process::ExitCode;

#[cfg(target_os = "linux")]
mod runner;

#[cfg(not(target_os = "linux"))]
mod runner {
    pub(crate) fn run() -> Result<(), String> {
        Err("it reads /proc and pins processes to cores, so it runs on Linux only".to_owned())
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
