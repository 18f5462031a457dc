//! Tasks: calls that outlive their connection, and the process if their store does.
//!
//! `record.rs` says what is kept of a task and how that may change, without I/O. `task_store.rs` keeps
//! it in a store. `start.rs` decides which calls become tasks, `worker.rs` runs one, `scheduler.rs` is
//! one process's share in all of them, and `calls.rs` answers their owners. All of it is reached
//! through `task_runtime.rs`, and only where somebody wished for tasks.

mod cancel_unclaimed;
pub(crate) mod create;
mod handle;
pub(crate) mod memory_budget;
pub(crate) mod methods;
pub(crate) mod notify;
mod options;
pub(crate) mod promotion;
mod run;
pub(crate) mod runtime;
pub(crate) mod scheduler;
pub(crate) mod storage;
pub(crate) mod subscription;
mod wakeup;

pub use self::{
    handle::SpawnedTask,
    options::{TaskMode, TaskOptions},
};
