//! Where the programs of other people are installed. Tests of several packages include this file.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// The files whose text, joined, is the stamp of an install. `xtask/src/foreign.rs` writes it.
const PINS: [&str; 4] = [".node-version", "package.json", "package-lock.json", "requirements.txt"];

/// What `cargo xtask foreign` has installed.
pub(crate) struct Installed {
    /// Where the scripts are.
    pub(crate) scripts: PathBuf,
    /// Where the packages are.
    pub(crate) home: PathBuf,
    node: PathBuf,
    python: PathBuf,
}

impl Installed {
    /// What is installed, if that is what the pins say.
    pub(crate) fn find() -> Result<Self, String> {
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

    /// The program that runs the script.
    pub(crate) fn runtime(&self, script: &str) -> &Path {
        if script.ends_with(".py") { &self.python } else { &self.node }
    }
}

fn home() -> PathBuf {
    match env::var_os("WHARF_FOREIGN") {
        Some(home) => home.into(),
        // Cargo's directory for tests is in the target directory, wherever that is.
        None => Path::new(env!("CARGO_TARGET_TMPDIR")).join("../foreign"),
    }
}
