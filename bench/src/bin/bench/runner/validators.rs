//! Validators of JSON Schema: nanoseconds of a validation and of a compilation.

use std::process::{Command, Stdio};
use std::time::Duration;

use bench::load::Sample;
use bench::process::Cores;

use super::contenders::Contender;

/// Schemas of tools in `bench-schema`, each with its origin.
pub(crate) const SCHEMAS: [(&str, &str); 3] =
    [("issue", "by hand"), ("event", "by Zod"), ("order", "by Pydantic")];

/// Operation of a validator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Validate,
    Compile,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Operation::Validate => "validate",
            Operation::Compile => "compile",
        }
    }
}

/// Measures both operations, each for about half of the time.
pub(crate) fn measure(
    cores: &Cores,
    contender: &Contender,
    schema: &str,
    time: Duration,
) -> Result<Sample, String> {
    let each = |operation| {
        let few = run(cores, contender, operation, schema, 100)?;
        let calls = (time.as_nanos() as f64 / 2.0 / few.max(1.0)).clamp(100.0, 1e7);
        run(cores, contender, operation, schema, calls as u64)
    };
    Ok(Sample::from([
        ("validation_ns", each(Operation::Validate)?),
        ("compilation_us", each(Operation::Compile)? / 1000.0),
    ]))
}

/// Runs this number of calls; returns the nanoseconds per call.
pub(crate) fn run(
    cores: &Cores,
    contender: &Contender,
    operation: Operation,
    schema: &str,
    calls: u64,
) -> Result<f64, String> {
    let mut command: Command = contender.validator(operation.name(), schema, calls);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = cores.start(&mut command).map_err(|e| format!("cannot start: {e}"))?;
    let output = child.wait_with_output().map_err(|e| format!("it does not end: {e}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
    }
    let printed = String::from_utf8_lossy(&output.stdout);
    printed.trim().parse().map_err(|_| format!("it printed `{}`", printed.trim()))
}
