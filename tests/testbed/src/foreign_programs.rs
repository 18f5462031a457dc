//! Locations of the installed foreign programs. Tests of several packages include this file.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// Files whose joined text is the stamp of an installation. `xtask/src/foreign.rs` writes it.
const PINS: [&str; 5] =
    [".node-version", "package.json", "package-lock.json", "requirements.txt", "schema-suite.txt"];

/// Installation of `cargo xtask foreign`.
pub struct Installed {
    /// Directory of the scripts.
    pub scripts: PathBuf,
    /// Directory of the packages.
    pub home: PathBuf,
    node: PathBuf,
    python: PathBuf,
}

impl Installed {
    /// Finds the installation; an error if it does not match the pinned versions.
    pub fn find() -> Result<Self, String> {
        let home = home();
        Self::at(&home).ok_or_else(|| {
            format!(
                "what other people wrote is not installed in {}: run `cargo xtask foreign` first",
                home.display()
            )
        })
    }

    fn at(home: &Path) -> Option<Self> {
        let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
        let scripts = scripts
            .map(|above| above.join("tests/foreign"))
            .find(|it| it.join(PINS[0]).exists())?;
        let read = |name: &&str| fs::read_to_string(scripts.join(name)).ok();
        let pins: String = PINS.iter().map_while(read).collect();
        let paths = fs::read_to_string(home.join("paths")).ok()?;
        let mut paths = paths.lines().map(PathBuf::from);
        let (node, python) = (paths.next()?, paths.next()?);
        let stamp = fs::read_to_string(home.join("stamp")).ok()?;
        let is_current = stamp == pins && node.exists() && python.exists();
        is_current.then(|| Self { scripts, home: home.to_owned(), node, python })
    }

    /// Interpreter of a script.
    pub fn runtime(&self, script: &str) -> &Path {
        if script.ends_with(".py") { &self.python } else { &self.node }
    }
}

/// Returns `foreign` in the target directory, in which the running test is.
fn home() -> PathBuf {
    if let Some(home) = env::var_os("WHARF_FOREIGN") {
        return home.into();
    }
    let test = env::current_exe().unwrap_or_default();
    let target = test.ancestors().find(|directory| directory.join("foreign/stamp").exists());
    target.unwrap_or(Path::new("target")).join("foreign")
}
