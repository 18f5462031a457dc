//! Tasks: calls that outlive their connection, and also the process if their store is durable.
//!
//! `call_plan.rs` decides which calls become tasks, `create.rs` creates a task, `promotion.rs` turns a running call into
//! one, and `methods.rs` answers the task methods. `storage/` defines the record of a task, its changes
//! without I/O, and its storage. `scheduler/` claims due tasks in this process, and `run/` executes
//! one. All of it is reached through `runtime.rs`, and only if the server enables tasks.

pub(crate) mod call_plan;
mod cancel_undelivered;
pub(crate) mod create;
mod handle;
pub(crate) mod memory_budget;
pub(crate) mod methods;
pub(crate) mod notify;
mod options;
pub(crate) mod promotion;
pub(crate) mod promotion_state;
mod run;
pub(crate) mod runtime;
pub(crate) mod scheduler;
pub(crate) mod storage;
pub(crate) mod subscription;
pub(crate) mod task_view;
mod ttl;
mod wakeup;

pub use self::{
    handle::SpawnedTask,
    options::{TaskMode, TaskOptions},
};
