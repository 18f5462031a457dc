//! Support for tests of servers.

pub use wharf_server::{Trial, TrialReport, TrialRound};
