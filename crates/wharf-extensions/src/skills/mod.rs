//! Skills: directories of instructions that a server offers to models (`io.modelcontextprotocol/skills`).

#[cfg(feature = "client")]
mod client;
mod format;
#[cfg(feature = "server")]
mod server;

#[cfg(feature = "client")]
pub use self::client::*;
pub use self::format::*;
#[cfg(feature = "server")]
pub use self::server::*;
