//! Growth of the peak memory of a test's process.

use std::{
    env, fs,
    process::{Command, Stdio},
    thread,
};

/// Environment variable of a process that runs one test.
const ALONE: &str = "WHARF_HOSTILE_ALONE";

/// Runs the test that calls this in a process of its own, and fails if it fails there. Returns true if the test has to
/// return because of that. Under nextest each test has its own process anyway; `cargo test` runs many in one, whose
/// memory says nothing about one of them.
pub fn ran_alone() -> bool {
    if env::var_os("NEXTEST").is_some() || env::var_os(ALONE).is_some() {
        return false;
    }
    let thread = thread::current();
    // Without test threads the tests run one after the other, and each measures its own growth.
    let Some(test) = thread.name().filter(|name| *name != "main") else { return false };
    let mut command = Command::new(env::current_exe().expect("a path"));
    command.args(["--exact", test, "--nocapture"]).env(ALONE, "1").stdin(Stdio::null());
    let output = command.output().expect("a process");
    let (out, err) = (&output.stdout, &output.stderr);
    let told = [String::from_utf8_lossy(out), String::from_utf8_lossy(err)].concat();
    assert!(output.status.success() && told.contains("1 passed"), "{told}");
    true
}

/// Growth of the peak memory of this process, which includes that of a scripted server.
pub struct MemoryGrowth(usize);

impl MemoryGrowth {
    pub fn start() -> MemoryGrowth {
        // Resets the peak to the current memory. Without permission the peak so far stays, which hides growth below it.
        let _ = fs::write("/proc/self/clear_refs", "5");
        MemoryGrowth(peak())
    }

    /// Asserts that the peak has grown by less than `limit` bytes.
    #[track_caller]
    pub fn assert_below(&self, limit: usize) {
        let grown = peak().saturating_sub(self.0);
        assert!(grown < limit, "grew by {} MiB, at most {} MiB", grown >> 20, limit >> 20);
    }
}

/// Peak memory of this process in bytes; 0 on systems without `/proc`.
fn peak() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<usize>().ok());
    kilobytes.unwrap_or_default() << 10
}
