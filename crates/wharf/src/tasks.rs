//! Tasks: calls that continue after their connection has closed.

#[cfg(feature = "client")]
pub use wharf_client::{TaskChanges, TaskHandle, task_json};
pub use wharf_model::{
    TASKS_EXTENSION, Task, TaskRequest, TaskState, TaskStatus, TaskSupport, Timestamp,
};
#[cfg(feature = "server")]
pub use wharf_server::{SpawnedTask, TaskMode, TaskOptions};
