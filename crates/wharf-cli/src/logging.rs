//! Log lines of the client commands.

use wharf::observe::Logs;

use crate::error::CliError;

/// Advice for an invalid variable.
const HINT: &str = "Write a level (error, warn, info, debug, trace, off), or MODULE=LEVEL.";

/// Starts the log of a client command, which has lines only if a variable asks for them.
pub(crate) fn start() -> Result<(), CliError> {
    Logs::default()
        .otherwise("off")
        .start()
        .map_err(|error| CliError::usage(error.to_string()).hint(HINT.to_owned()))
}
