//! Calls that became tasks: followed to their end, or controlled by a handle.

mod cancel_on_drop;
mod dialect;
mod follow;
mod handle;
mod json;
pub(crate) mod list;
mod poll;
pub(crate) mod request_mode;
mod status_stream;

pub use crate::task::status_stream::TaskChanges;
pub use handle::TaskHandle;
pub use json::task_json;

pub(crate) use crate::task::cancel_on_drop::{CancelOnDrop, PendingCancels};
pub(crate) use crate::task::dialect::TaskDialect;
pub(crate) use crate::task::poll::TaskPoller;
pub(crate) use follow::{FollowError, follow};
pub(crate) use json::asks_json;
