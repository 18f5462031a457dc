//! What the tests of several crates need: tokio's clock for calls, and the lines of the log.

mod log;
mod timer;

pub use log::LogCatcher;
pub use timer::TokioTimer;
