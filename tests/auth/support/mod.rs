//! Support code of the tests.

pub(crate) mod authorization;
pub(crate) mod program;
pub(crate) mod protected;
pub(crate) mod user;

use std::time::Duration;

/// Timeout of a test.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);
