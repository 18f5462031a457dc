//! The tasks dialect of a server.

use wharf_model::{ServerCapabilities, TASKS_EXTENSION, TaskRequest};

/// The tasks dialect of a server, derived from its capabilities and not from its era.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskDialect {
    /// The server has no tasks.
    None,
    /// `io.modelcontextprotocol/tasks`: the server decides which calls become tasks; `tasks/get`
    /// returns input requests and the result; input is sent with `tasks/update`.
    Extension,
    /// Tasks of the legacy era: the client requests a task; `tasks/result` returns the result, and input
    /// requests arrive during that request.
    Legacy,
}

impl TaskDialect {
    pub(crate) fn of(can: &ServerCapabilities) -> Self {
        if can.extensions.contains_key(TASKS_EXTENSION) {
            return TaskDialect::Extension;
        }
        let tasks = can.tasks.as_deref();
        let calls = tasks.and_then(|it| it.get("requests")?.get("tools")?.get("call"));
        if calls.is_some() { TaskDialect::Legacy } else { TaskDialect::None }
    }

    /// The task request of a tool call that does not need a task itself.
    pub(crate) fn tasking(self, must_be_task: bool) -> TaskRequest {
        match self {
            TaskDialect::None => TaskRequest::Unknown,
            TaskDialect::Extension => TaskRequest::Welcome,
            TaskDialect::Legacy if must_be_task => TaskRequest::Wanted(None),
            TaskDialect::Legacy => TaskRequest::Declined,
        }
    }
}
