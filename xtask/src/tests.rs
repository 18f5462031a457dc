//! Builds and runs the tests, and the official conformance suite beside them.

use std::env;
use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::conformance;
use crate::files::{create, read};
use crate::workspace::Workspace;

const SELECTION: &str = "--workspace --all-features";
/// Targets that `cargo test` runs without documentation tests.
const TARGETS: &str = "--lib --bins --tests --examples";

/// Builds the tests and the programs of the conformance suite.
pub(crate) fn build(workspace: &Workspace) -> Result<(), String> {
    workspace.cargo(&match workspace.has_cargo("nextest") {
        true => format!("nextest run {SELECTION} --no-run"),
        false => format!("test {SELECTION} {TARGETS} --no-run"),
    })?;
    conformance::build(workspace)
}

/// Runs the tests and, meanwhile, the conformance suite, whose output follows theirs.
pub(crate) fn run(workspace: &Workspace) -> Result<(), String> {
    let suite = SuiteProcess::start(workspace)?;
    let tests = run_tests(workspace);
    let suite = suite.finish();
    tests.and(suite)
}

fn run_tests(workspace: &Workspace) -> Result<(), String> {
    if workspace.has_cargo("nextest") {
        return workspace.cargo(&format!("nextest run {SELECTION}"));
    }
    println!("cargo-nextest is missing: running the tests with `cargo test`, which is slower");
    println!("(to install it: `cargo install cargo-nextest --locked`)");
    workspace.cargo(&format!("test {SELECTION} {TARGETS}"))
}

/// `cargo xtask conformance`, running with its output in a file.
struct SuiteProcess {
    child: Child,
    log: PathBuf,
}

impl SuiteProcess {
    fn start(workspace: &Workspace) -> Result<Self, String> {
        let home = workspace.target.join("conformance");
        create(&home)?;
        let log = home.join("run.log");
        let cannot = |e| format!("cannot run the conformance suite: {e}");
        let file = File::create(&log).map_err(cannot)?;
        let child = Command::new(env::current_exe().map_err(cannot)?)
            .arg("conformance")
            .stdin(Stdio::null())
            .stderr(file.try_clone().map_err(cannot)?)
            .stdout(file)
            .spawn()
            .map_err(cannot)?;
        Ok(Self { child, log })
    }

    /// Waits for its end and prints its output.
    fn finish(mut self) -> Result<(), String> {
        let status = self.child.wait().map_err(|e| format!("cannot wait for the suite: {e}"))?;
        print!("{}", read(&self.log)?);
        if status.success() { Ok(()) } else { Err("the conformance suite failed".to_owned()) }
    }
}
