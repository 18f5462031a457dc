//! Clients that other people wrote drive `wharf serve`, in both eras.
//!
//! Their scripts are in `tests/foreign`; `cargo xtask foreign` installs what they need.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

const TIMEOUT: Duration = Duration::from_secs(120);

/// The files whose text, joined, is the stamp of an install. `xtask/src/foreign.rs` writes it.
const PINS: [&str; 4] = [".node-version", "package.json", "package-lock.json", "requirements.txt"];

#[test]
fn javascript_legacy() {
    pass(&drive("javascript_legacy", Runtime::Node, &["legacy.mjs"]));
}

#[test]
fn javascript_modern() {
    pass(&drive("javascript_modern", Runtime::Node, &["modern.mjs"]));
}

#[test]
fn python_legacy() {
    pass(&drive("python_legacy", Runtime::Python, &["client.py", "--legacy"]));
}

#[test]
fn python_modern() {
    pass(&drive("python_modern", Runtime::Python, &["client.py", "--modern"]));
}

/// Also their line in the install's `paths`.
#[derive(Clone, Copy)]
enum Runtime {
    Node,
    Python,
}

fn pass(result: &Result<(), String>) {
    if let Err(why) = result {
        panic!("{why}");
    }
}

fn drive(test: &str, runtime: Runtime, script: &[&str]) -> Result<(), String> {
    let drivers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/foreign");
    let home = home();
    let runtime = installed(&home, &drivers, runtime).ok_or_else(|| {
        format!(
            "the foreign clients are not installed in {}: run `cargo xtask foreign` first",
            home.display()
        )
    })?;
    // A file, not a pipe: nobody has to read it while the driver runs.
    let log = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}.log"));
    let file = File::create(&log).map_err(|e| format!("cannot create {}: {e}", log.display()))?;
    let errors = file.try_clone().map_err(|e| format!("cannot share {}: {e}", log.display()))?;
    let mut child = Command::new(&runtime)
        .args(script)
        .args([env!("CARGO_BIN_EXE_wharf"), "serve"])
        .current_dir(&drivers)
        .env("WHARF_FOREIGN", &home)
        .stdout(file)
        .stderr(errors)
        .spawn()
        .map_err(|e| {
            format!("cannot run {}: {e}; run `cargo xtask foreign` again", runtime.display())
        })?;
    let ended =
        wait(&mut child).map_err(|e| format!("cannot wait for {}: {e}", runtime.display()))?;
    let said = fs::read_to_string(&log).unwrap_or_default();
    match ended {
        Some(status) if status.success() => Ok(()),
        Some(status) => Err(format!("{} ended with {status} and said:\n{said}", script.join(" "))),
        None => Err(format!(
            "{} had not ended after {TIMEOUT:?} and had said:\n{said}",
            script.join(" ")
        )),
    }
}

/// The runtime's program, if what is installed is what the pins say.
fn installed(home: &Path, drivers: &Path, runtime: Runtime) -> Option<PathBuf> {
    let pins: String =
        PINS.iter().map_while(|name| fs::read_to_string(drivers.join(name)).ok()).collect();
    let stamp = fs::read_to_string(home.join("stamp")).ok()?;
    let paths = fs::read_to_string(home.join("paths")).ok()?;
    let path = PathBuf::from(paths.lines().nth(runtime as usize)?);
    (stamp == pins && path.exists()).then_some(path)
}

fn home() -> PathBuf {
    match env::var_os("WHARF_FOREIGN") {
        Some(home) => home.into(),
        // Cargo's directory for tests is in the target directory, wherever that is.
        None => Path::new(env!("CARGO_TARGET_TMPDIR")).join("../foreign"),
    }
}

/// `None` if the child had to be killed.
fn wait(child: &mut Child) -> std::io::Result<Option<ExitStatus>> {
    let deadline = Instant::now() + TIMEOUT;
    while Instant::now() < deadline {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        thread::sleep(Duration::from_millis(20));
    }
    child.kill()?;
    child.wait()?;
    Ok(None)
}
