//! Cache of what the server sent: results (`results.rs`) and tools (`tool_schemas.rs`), dropped by notifications
//! (`invalidation.rs`).

mod completed_elicitations;
mod invalidation;
mod results;
pub(crate) mod server_state;
pub(crate) mod tool_schemas;
