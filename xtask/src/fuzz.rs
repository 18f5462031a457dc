//! `cargo xtask fuzz [TARGET] [--seconds N]`: builds the fuzz targets and runs all of them, or one.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::workspace::{Workspace, run as run_program};

/// Builds the targets, on the stable toolchain.
const VERSION: &str = "0.13.2";
/// Time for each target if none is given.
const SECONDS: u32 = 60;

/// The release profile of the workspace is for small programs, and takes long to build.
const PROFILE: [(&str, &str); 4] = [
    ("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1"),
    ("CARGO_PROFILE_RELEASE_LTO", "false"),
    ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16"),
    ("CARGO_PROFILE_RELEASE_STRIP", "none"),
];
/// The code of the workspace has no unsafe part, so no address sanitizer, which needs a nightly toolchain.
const BUILD: [&str; 4] = ["--sanitizer", "none", "--release", "--debug-assertions"];

pub(crate) fn run(workspace: &Workspace) -> Result<(), String> {
    let all = targets(workspace)?;
    let (wanted, seconds) = options(env::args().skip(2), &all)?;
    let cargo_fuzz = install(workspace)?;
    let corpora = workspace.root.join("fuzz/corpus");
    workspace.cargo("run --quiet --package wharf-fuzz --example seeds -- fuzz/corpus")?;
    let mut failed = Vec::new();
    for target in &wanted {
        println!("-- {target}");
        let mut command = Command::new(&cargo_fuzz);
        command.current_dir(&workspace.root).env("CARGO_TARGET_DIR", &workspace.target);
        command.envs(PROFILE).arg("run").args(BUILD).arg(target).arg("--");
        command
            .arg(format!("-max_total_time={seconds}"))
            .args(["-timeout=10", "-print_final_stats=1"]);
        command.arg(format!("-dict={}", corpora.join(format!("{target}.dict")).display()));
        // The other targets run as well, so that one run finds all that there is to fix.
        if run_program(&mut command).is_err() {
            failed.push(target.as_str());
        }
    }
    match failed.is_empty() {
        true => Ok(()),
        false => Err(format!("a property does not hold in {}", failed.join(", "))),
    }
}

fn targets(workspace: &Workspace) -> Result<Vec<String>, String> {
    let directory = workspace.root.join("fuzz/fuzz_targets");
    let cannot = |error: std::io::Error| format!("cannot read {}: {error}", directory.display());
    let mut names = Vec::new();
    for entry in fs::read_dir(&directory).map_err(cannot)? {
        let path = entry.map_err(cannot)?.path();
        names.extend(path.file_stem().map(|name| name.to_string_lossy().into_owned()));
    }
    names.sort();
    Ok(names)
}

/// Returns the targets to run, and the seconds for each.
fn options(
    mut args: impl Iterator<Item = String>,
    all: &[String],
) -> Result<(Vec<String>, u32), String> {
    let (mut wanted, mut seconds) = (Vec::new(), SECONDS);
    while let Some(arg) = args.next() {
        if arg == "--seconds" {
            let value = args.next().and_then(|value| value.parse().ok());
            seconds = value.ok_or("`--seconds` needs a whole number")?;
        } else if all.contains(&arg) {
            wanted.push(arg);
        } else {
            return Err(format!("there is no target `{arg}`; the targets are {}", all.join(", ")));
        }
    }
    Ok((if wanted.is_empty() { all.to_vec() } else { wanted }, seconds))
}

/// Installs `cargo-fuzz` below the target directory, if it is missing there.
fn install(workspace: &Workspace) -> Result<PathBuf, String> {
    let home = workspace.target.join("tools");
    let program = home.join("bin/cargo-fuzz");
    if !program.is_file() {
        workspace.cargo(&format!(
            "install cargo-fuzz --version {VERSION} --locked --root {}",
            home.display()
        ))?;
    }
    Ok(program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_select_targets_and_time() {
        let all = ["lines".to_owned(), "events".to_owned()];
        let options = |text: &str| options(text.split_whitespace().map(str::to_owned), &all);
        assert_eq!(options("").unwrap(), (all.to_vec(), SECONDS));
        assert_eq!(options("events --seconds 5").unwrap(), (vec!["events".to_owned()], 5));
        assert!(options("words").unwrap_err().contains("lines, events"));
        assert!(options("--seconds").is_err() && options("--seconds x").is_err());
    }
}
