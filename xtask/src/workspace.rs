//! Paths of the workspace, and running programs in it.

use std::env;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::files::read;

pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    pub(crate) target: PathBuf,
    /// Installation directory of the foreign programs.
    pub(crate) foreign: PathBuf,
}

impl Workspace {
    pub(crate) fn find() -> Result<Self, String> {
        let here =
            env::current_dir().map_err(|e| format!("cannot read the current directory: {e}"))?;
        let root = Path::new(env!("CARGO_MANIFEST_DIR"))
            .parent()
            .ok_or("xtask must be a directory of the workspace")?
            .to_owned();
        let directory = |name| env::var_os(name).map(|value| here.join(value));
        let target = directory("CARGO_TARGET_DIR").unwrap_or_else(|| root.join("target"));
        let foreign = directory("WHARF_FOREIGN").unwrap_or_else(|| target.join("foreign"));
        Ok(Self { root, target, foreign })
    }

    /// Runs cargo with arguments that have no spaces in them.
    pub(crate) fn cargo(&self, arguments: &str) -> Result<(), String> {
        run(self.command().args(arguments.split(' ')))
    }

    /// Runs cargo with arguments that have no spaces in them, and returns its output.
    pub(crate) fn cargo_output(&self, arguments: &str) -> Result<String, String> {
        let mut command = self.command();
        let output = command.args(arguments.split(' ')).stderr(Stdio::inherit()).output();
        let output = output.map_err(|e| cannot_run(&command, &e))?;
        if !output.status.success() {
            return Err(format!("`{}` ended with {}", line(&command), output.status));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Names of the packages in `crates`.
    pub(crate) fn published_crates(&self) -> Result<Vec<String>, String> {
        let home = self.root.join("crates");
        let entries =
            fs::read_dir(&home).map_err(|e| format!("cannot read {}: {e}", home.display()))?;
        let manifests = entries.flatten().map(|entry| entry.path().join("Cargo.toml"));
        manifests.filter(|path| path.exists()).map(|path| package_name(&path)).collect()
    }

    /// Path of a program in the debug profile.
    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.target.join("debug").join(name).with_extension(env::consts::EXE_EXTENSION)
    }

    /// Path of a program in the release profile.
    pub(crate) fn release_program(&self, name: &str) -> PathBuf {
        self.target.join("release").join(name).with_extension(env::consts::EXE_EXTENSION)
    }

    pub(crate) fn has_cargo(&self, subcommand: &str) -> bool {
        let mut command = self.command();
        command.args([subcommand, "--version"]).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    }

    fn command(&self) -> Command {
        let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command
            .current_dir(&self.root)
            .env("CARGO_TARGET_DIR", &self.target)
            .env("WHARF_FOREIGN", &self.foreign)
            .env("RUSTDOCFLAGS", "-D warnings");
        command
    }
}

fn package_name(manifest: &Path) -> Result<String, String> {
    let text = read(manifest)?;
    let name = text.lines().find_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'));
    name.map(str::to_owned).ok_or_else(|| format!("{} has no name", manifest.display()))
}

/// Runs a program with inherited stdout and stderr.
pub(crate) fn run(command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|e| cannot_run(command, &e))?;
    if status.success() {
        return Ok(());
    }
    Err(format!("`{}` ended with {status}", line(command)))
}

/// Runs a program and returns what it printed, trimmed; `None` if there is no such program or it failed.
pub(crate) fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).stderr(Stdio::null()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

fn cannot_run(command: &Command, error: &std::io::Error) -> String {
    let program = command.get_program().to_string_lossy().into_owned();
    match error.kind() {
        ErrorKind::NotFound => format!("`{program}` is missing from this machine"),
        _ => format!("cannot run `{program}`: {error}"),
    }
}

fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}
