//! What all the tests need.

pub(crate) mod authorization;
#[path = "../../foreign/install.rs"]
mod install;
pub(crate) mod program;
pub(crate) mod protected;
pub(crate) mod user;

use std::time::Duration;

/// No test waits longer, whatever goes wrong.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);
