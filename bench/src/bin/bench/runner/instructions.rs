//! Instructions and allocations of one call, counted by callgrind.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use bench::command_line::Mode;
use bench::load::{HttpLoad, Lines, Operation, Protocol, Sample, Script, Span};
use bench::process::Cores;

use super::contenders::Contender;
use super::validators;
use super::workloads::SHORT;

/// Call whose instructions are counted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CountedCall {
    Stdio(Operation, Protocol),
    Http(Operation, Mode),
    /// Short call with these observers, over HTTP in this mode, or else over stdio.
    Observed(&'static str, Option<Mode>),
    /// Validation of arguments against a schema.
    Schema(&'static str),
}

impl CountedCall {
    /// Number of calls; fewer for long texts, which are slow and vary less.
    fn calls(self, usual: u64) -> u64 {
        match self {
            CountedCall::Stdio(Operation::Echo(LONG_TEXT_BYTES..), _)
            | CountedCall::Http(Operation::Echo(LONG_TEXT_BYTES..), _) => usual / 5,
            _ => usual,
        }
    }
}

const LONG_TEXT_BYTES: usize = 16 * 1024;

/// Returns an error if valgrind is not installed.
pub(crate) fn require_valgrind() -> Result<(), String> {
    let mut valgrind = Command::new("valgrind");
    let version = valgrind.arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    match version {
        Ok(status) if status.success() => Ok(()),
        _ => Err("valgrind is missing: install the package `valgrind`".to_owned()),
    }
}

/// Counts the cost of one call: the difference of runs with N and 2N calls excludes startup and exit.
pub(crate) fn count(
    cores: &Cores,
    contender: &Contender,
    counted: CountedCall,
    name: &str,
    calls: u64,
) -> Result<Sample, String> {
    if !contender.is_rust() {
        return Err("callgrind counts only the Rust servers".to_owned());
    }
    let observed = match counted {
        CountedCall::Observed(observers, _) => {
            Some(contender.with_observers(observers).ok_or("only Wharf has its observers")?)
        }
        _ => None,
    };
    let contender = observed.as_ref().unwrap_or(contender);
    let calls = counted.calls(calls);
    let directory = contender.program().with_file_name("callgrind");
    fs::create_dir_all(&directory).map_err(|e| format!("cannot create a directory: {e}"))?;
    let file = |calls: u64| directory.join(format!("{}-{name}-{calls}.out", contender.name));
    let few = once(cores, contender, counted, calls, &file(calls))?;
    let many = once(cores, contender, counted, 2 * calls, &file(2 * calls))?;
    let each = |few: u64, many: u64| many.saturating_sub(few) as f64 / calls as f64;
    Ok(Sample::from([
        ("instructions", each(few.instructions, many.instructions).round()),
        ("allocations", (each(few.allocations, many.allocations) * 10.0).round() / 10.0),
    ]))
}

fn once(
    cores: &Cores,
    contender: &Contender,
    counted: CountedCall,
    calls: u64,
    file: &PathBuf,
) -> Result<CallgrindCounts, String> {
    let mut output = OsString::from("--callgrind-out-file=");
    output.push(file);
    let words = ["valgrind", "--quiet", "--tool=callgrind"].map(OsString::from);
    let contender = contender.behind(&[&words[..], &[output]].concat());
    let span = Span::Calls(calls);
    match counted {
        CountedCall::Stdio(operation, protocol) => {
            let mut lines = Lines::open(cores, &mut contender.stdio(), protocol)?;
            lines.one_by_one(operation, protocol, span)?;
            lines.close().map_err(|e| format!("the server does not exit: {e}"))?;
        }
        CountedCall::Observed(_, None) => {
            let (operation, protocol) = (Operation::Echo(SHORT), Protocol::Legacy);
            // Its log has a line for each call.
            let mut command = contender.stdio();
            command.stderr(Stdio::null());
            let mut lines = Lines::open(cores, &mut command, protocol)?;
            lines.one_by_one(operation, protocol, span)?;
            lines.close().map_err(|e| format!("the server does not exit: {e}"))?;
        }
        CountedCall::Schema(schema) => {
            validators::run(cores, &contender, validators::Operation::Validate, schema, calls)?;
        }
        CountedCall::Http(operation, mode) => http(cores, &contender, operation, mode, span)?,
        CountedCall::Observed(_, Some(mode)) => {
            http(cores, &contender, Operation::Echo(SHORT), mode, span)?;
        }
    }
    CallgrindCounts::read(file)
}

/// Makes calls over HTTP.
fn http(
    cores: &Cores,
    contender: &Contender,
    operation: Operation,
    mode: Mode,
    span: Span,
) -> Result<(), String> {
    let mut listening = contender.listen(cores, mode, 0)?;
    let (address, script) = (listening.address, Script::Same(operation));
    HttpLoad { address, mode, script, connections: 1, span }.run(&listening.server)?;
    listening.server.stop().map_err(|e| format!("the server does not exit: {e}"))?;
    Ok(())
}

#[derive(Debug, PartialEq, Eq)]
struct CallgrindCounts {
    instructions: u64,
    allocations: u64,
}

/// Allocation functions of the C library.
const ALLOCATORS: [&str; 5] = ["malloc", "calloc", "realloc", "posix_memalign", "aligned_alloc"];

impl CallgrindCounts {
    fn read(file: &Path) -> Result<Self, String> {
        let text = fs::read(file).map_err(|e| format!("callgrind wrote nothing: {e}"))?;
        Self::parse(&String::from_utf8_lossy(&text))
            .ok_or_else(|| "callgrind wrote no total".to_owned())
    }

    /// Parses the total and the calls of allocation functions. Callgrind writes a name at its first occurrence and
    /// a number in parentheses afterwards.
    fn parse(text: &str) -> Option<Self> {
        let (mut instructions, mut allocations) = (None, 0);
        let mut is_allocator = HashMap::new();
        let mut callee = "";
        for line in text.lines() {
            let (key, value) = line.split_once(['=', ':']).unwrap_or((line, ""));
            match key {
                "fn" | "cfn" => {
                    let (number, name) = value.split_once(' ').unwrap_or((value, ""));
                    if !name.is_empty() {
                        is_allocator.insert(number, ALLOCATORS.contains(&name));
                    }
                    if key == "cfn" {
                        callee = number;
                    }
                }
                "calls" if is_allocator.get(callee) == Some(&true) => {
                    allocations += value.split(' ').next()?.parse::<u64>().ok()?;
                }
                "totals" | "summary" => {
                    instructions = value.split_whitespace().next()?.parse().ok();
                }
                _ => {}
            }
        }
        Some(CallgrindCounts { instructions: instructions?, allocations })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_allocators_are_counted_wherever_they_are_named() {
        let text = "fn=(1) main\n16 400\ncfn=(2) malloc\ncalls=3 0\n16 90\ncfn=(3) free\ncalls=7 0\n\
                    fn=(2)\n16 90\nfn=(4) other\ncfn=(2)\ncalls=2 0\n16 60\nsummary: 640\n";
        let counts = CallgrindCounts { instructions: 640, allocations: 5 };
        assert_eq!(CallgrindCounts::parse(text), Some(counts));
    }
}
