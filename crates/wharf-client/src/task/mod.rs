//! Calls that became tasks: followed for the caller, or held by a handle.

mod changes;
mod follow;
mod handle;
mod leash;
mod manner;
mod watch;

pub use changes::TaskChanges;
pub use handle::TaskHandle;

pub(crate) use follow::{Ending, follow};
pub(crate) use leash::{Farewells, Leash};
pub(crate) use manner::Manner;
pub(crate) use watch::Watch;
