//! Checks that the SQLite store builds together with the SQLite crates of applications: a build links one `libsqlite3-sys`.

use std::env;
use std::fs;
use std::process::Command;

use crate::workspace::{Workspace, run};

/// Command that resolves the versions of an application's dependencies, and fails if there is no `libsqlite3-sys` that fits
/// all of them.
const RESOLVE: &str = "generate-lockfile";

/// Dependencies of applications, each with the cargo command that checks it. For `sqlx`, resolving the versions is enough:
/// the `rusqlite` versions that it allows are compiled separately.
const APPLICATION_DEPENDENCIES: [(&str, &str, &str); 4] = [
    (
        "sqlx",
        r#"{ version = "0.9", default-features = false, features = ["sqlite", "runtime-tokio"] }"#,
        RESOLVE,
    ),
    ("rusqlite", r#""0.39""#, "check"),
    ("rusqlite", r#""0.40""#, "check"),
    ("rusqlite", r#""0.41""#, "check"),
];

/// Compiles the store with each dependency.
pub(crate) fn check(workspace: &Workspace) -> Result<(), String> {
    for (number, (name, requirement, task)) in APPLICATION_DEPENDENCIES.into_iter().enumerate() {
        Application { number, dependency: Some((name, requirement)) }.run(workspace, task)?;
    }
    Ok(())
}

/// Resolves the versions with each dependency, which takes seconds. Does nothing if crates.io cannot be reached.
pub(crate) fn resolve(workspace: &Workspace) -> Result<(), String> {
    let number = APPLICATION_DEPENDENCIES.len();
    if (Application { number, dependency: None }).run(workspace, RESOLVE).is_err() {
        println!("sqlite: not checked, because the store alone has no versions either");
        return Ok(());
    }
    for (number, (name, requirement, _)) in APPLICATION_DEPENDENCIES.into_iter().enumerate() {
        Application { number, dependency: Some((name, requirement)) }.run(workspace, RESOLVE)?;
    }
    Ok(())
}

/// Package that depends on the store and on a SQLite crate of its own.
struct Application {
    number: usize,
    /// Name and requirement of the SQLite crate.
    dependency: Option<(&'static str, &'static str)>,
}

impl Application {
    /// Writes the package and runs a cargo command in it.
    fn run(&self, workspace: &Workspace, task: &str) -> Result<(), String> {
        let Application { number, dependency } = self;
        let dependency = dependency.map_or(String::new(), |(name, requirement)| {
            println!("sqlite: checking with {name} = {requirement}");
            format!("{name} = {requirement}\n")
        });
        let home = workspace.target.join("sqlite");
        let store = workspace.root.join("crates/wharf-store");
        let package = home.join(number.to_string());
        let manifest = package.join("Cargo.toml");
        let text = format!(
            "[package]\nname = \"application-{number}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n\n\
             [dependencies]\nwharf-store = {{ path = {store:?}, features = [\"sqlite\"] }}\n{dependency}"
        );
        fs::create_dir_all(package.join("src"))
            .and_then(|()| fs::write(package.join("src/lib.rs"), ""))
            .and_then(|()| fs::write(&manifest, text))
            .map_err(|e| format!("cannot write {}: {e}", manifest.display()))?;
        // An old lock file would keep old versions.
        let _ = fs::remove_file(package.join("Cargo.lock"));
        let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command.args([task, "--quiet", "--manifest-path"]).arg(&manifest);
        run(command.env("CARGO_TARGET_DIR", home.join("target")))
    }
}
