//! Calls that became tasks: followed for the caller, or held by a handle.

mod changes;
mod follow;
mod handle;
mod json;
mod leash;
mod manner;
pub(crate) mod wants;
mod watch;

pub use changes::TaskChanges;
pub use handle::TaskHandle;
pub use json::task_json;

pub(crate) use follow::{Ending, follow};
pub(crate) use json::asks_json;
pub(crate) use leash::{Farewells, Leash};
pub(crate) use manner::Manner;
pub(crate) use watch::Watch;
