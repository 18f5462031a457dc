//! Checks that the SQLite store builds together with the SQLite crates of applications: a build links one `libsqlite3-sys`.

use std::env;
use std::fs;
use std::process::Command;

use crate::workspace::{Workspace, run};

/// Dependencies of applications, each with the cargo command that checks it. For `sqlx`, resolving the versions is enough:
/// the `rusqlite` versions that it allows are compiled separately.
const APPLICATION_DEPENDENCIES: [(&str, &str, &str); 4] = [
    (
        "sqlx",
        r#"{ version = "0.9", default-features = false, features = ["sqlite", "runtime-tokio"] }"#,
        "generate-lockfile",
    ),
    ("rusqlite", r#""0.39""#, "check"),
    ("rusqlite", r#""0.40""#, "check"),
    ("rusqlite", r#""0.41""#, "check"),
];

pub(crate) fn check(workspace: &Workspace) -> Result<(), String> {
    let home = workspace.target.join("sqlite");
    let store = workspace.root.join("crates/wharf-store");
    for (number, (name, dependency, task)) in APPLICATION_DEPENDENCIES.iter().enumerate() {
        println!("sqlite: checking with {name} = {dependency}");
        let package = home.join(number.to_string());
        let manifest = package.join("Cargo.toml");
        let text = format!(
            "[package]\nname = \"application-{number}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n\n\
             [dependencies]\nwharf-store = {{ path = {store:?}, features = [\"sqlite\"] }}\n\
             {name} = {dependency}\n"
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
        run(command.env("CARGO_TARGET_DIR", home.join("target")))?;
    }
    Ok(())
}
