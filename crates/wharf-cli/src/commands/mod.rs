//! Commands that connect to a server, one file each.

pub(crate) mod bench;
pub(crate) mod call;
mod card;
pub(crate) mod complete;
pub(crate) mod config;
pub(crate) mod inspect;
pub(crate) mod list;
pub(crate) mod listen;
pub(crate) mod prompt;
pub(crate) mod read;
pub(crate) mod rpc;
pub(crate) mod skills;
pub(crate) mod tasks;
pub(crate) mod top;

use crate::{context::Context, error::CliError};

/// Command that connects to a server.
pub(crate) trait Run {
    /// Runs the command and writes the result to stdout.
    async fn run(&self, context: &Context) -> Result<(), CliError>;
}

pub(crate) use crate::commands::config::configured;
