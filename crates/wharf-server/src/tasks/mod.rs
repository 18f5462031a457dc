//! Tasks: calls that outlive their connection, and the process if their store does.
//!
//! `record.rs` says what is kept of a task and how that may change, without I/O. `ledger.rs` keeps
//! it in a store. `start.rs` decides which calls become tasks, `worker.rs` runs one, `engine.rs` is
//! one process's share in all of them, and `calls.rs` answers their owners. All of it is reached
//! through `machinery.rs`, and only where somebody wished for tasks.

mod apart;
mod bell;
pub(crate) mod bond;
pub(crate) mod calls;
pub(crate) mod engine;
pub(crate) mod follower;
mod handle;
mod lease;
pub(crate) mod ledger;
pub(crate) mod link;
pub(crate) mod machinery;
mod options;
mod orphan;
pub(crate) mod record;
pub(crate) mod room;
mod saved;
pub(crate) mod start;
pub(crate) mod tell;
mod worker;

pub use self::{
    handle::SpawnedTask,
    options::{TaskMode, TaskOptions},
};
