//! Log lines of Wharf on stderr.

use std::{env, io};

use tracing_subscriber::{EnvFilter, fmt};

use crate::error::CliError;

/// Environment variable with the log filter, such as `info` or `wharf_auth=debug,warn`.
const VARIABLE: &str = "RUST_LOG";

/// Starts logging with the filter of `RUST_LOG`, else of `otherwise`, if any.
pub(crate) fn start(otherwise: Option<&str>) -> Result<(), CliError> {
    let said = env::var(VARIABLE).ok().filter(|it| !it.is_empty());
    let Some(directives) = said.as_deref().or(otherwise) else { return Ok(()) };
    let filter = EnvFilter::try_new(directives).map_err(|error| {
        CliError::usage(format!("{VARIABLE}: {error}"))
            .hint("Write a level (error, warn, info, debug, trace), or MODULE=LEVEL.".to_owned())
    })?;
    let lines = fmt().with_env_filter(filter).with_writer(io::stderr).with_ansi(false);
    lines.try_init().map_err(|error| CliError::from(io::Error::other(error)))
}
