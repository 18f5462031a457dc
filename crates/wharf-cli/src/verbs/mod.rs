//! The verbs that speak with a server, one file each.

mod bench;
mod call;
mod complete;
mod config;
mod inspect;
mod list;
mod listen;
mod prompt;
mod read;
mod rpc;
mod tasks;

use crate::{context::Context, fail::Fail};

/// What every verb that speaks with a server does.
pub(crate) trait Run {
    /// Does it, and writes the result to stdout.
    async fn run(&self, context: &Context) -> Result<(), Fail>;
}

pub(crate) use config::configured;
