//! How a server has tasks.

use wharf_model::{ServerCapabilities, TASKS_EXTENSION, TaskRequest};

/// How a server has tasks. It is read off what the server offers: nothing here knows eras.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskDialect {
    /// Not at all.
    None,
    /// The server makes them as it likes. A look at a task shows all of it, questions and result
    /// too, and answers are brought.
    Extension,
    /// The caller asks for them. The result is fetched, and whoever fetches it is asked.
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

    /// What the caller of a tool says about tasks who follows them, and needs none.
    pub(crate) fn tasking(self, must_be_task: bool) -> TaskRequest {
        match self {
            TaskDialect::None => TaskRequest::Unknown,
            TaskDialect::Extension => TaskRequest::Welcome,
            TaskDialect::Legacy if must_be_task => TaskRequest::Wanted(None),
            TaskDialect::Legacy => TaskRequest::Declined,
        }
    }
}
