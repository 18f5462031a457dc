//! Cache of what the server sent: results (`results.rs`) and tools (`tool_schemas.rs`), dropped by notifications
//! (`server_notifications.rs`).

mod completed_elicitations;
mod results;
mod server_notifications;
pub(crate) mod server_state;
pub(crate) mod tool_schemas;
