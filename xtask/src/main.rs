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

use stage::TASKS;
use workspace::Workspace;

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
