//! `wharf completions`: the completion script of a shell.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::cli::Cli;

/// Returns the script for this shell.
pub(crate) fn script(shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    // Generated in memory: writing directly to a closed stdout would panic.
    clap_complete::generate(shell, &mut Cli::command(), "wharf", &mut script);
    script
}
