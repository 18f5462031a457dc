//! Skills: directories of instructions that a server offers to models (`io.modelcontextprotocol/skills`).

mod format;

pub use self::format::*;
