//! Skills: directories of instructions that a server offers to models (extension `io.modelcontextprotocol/skills`).

pub use wharf_extensions::skills::*;
#[cfg(feature = "server")]
pub use wharf_macros::include_skills;
