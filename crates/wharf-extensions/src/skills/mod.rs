//! Skills: directories of instructions that a server offers to models (`io.modelcontextprotocol/skills`).

mod format;
#[cfg(feature = "server")]
mod server;

pub use self::format::*;
#[cfg(feature = "server")]
pub use self::server::*;
