//! Support for tests of servers.

pub use wharf_server::{HandlerTest, HandlerTestReport, HandlerTestRound};
