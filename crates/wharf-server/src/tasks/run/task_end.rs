//! End of a task: the result or error that is stored, within the limits.

use wharf_model::{Error, ErrorKind, Outcome, Reply, ToolResult};

use crate::tasks::{
    scheduler::TaskScheduler,
    storage::{nested_json, record::TaskEnd, stored_types::SavedError},
};

/// Reserves room for the end of a task; without room the task fails.
pub(super) fn reserve_result(scheduler: &TaskScheduler, id: &str, end: TaskEnd) -> TaskEnd {
    let size = serde_json::to_vec(&end).map_or(0, |json| json.len());
    match scheduler.memory.resize(id, size) {
        Ok(()) => end,
        Err(_) => {
            let text = format!("cannot store the result of {size} bytes: the task store is full");
            let _ = scheduler.memory.resize(id, 0);
            TaskEnd::Failed((&Error::new(ErrorKind::TaskFailed).with_message(text)).into())
        }
    }
}

/// Converts the outcome of the call to the end of the task. Errors meant for a model are results,
/// in every dialect.
pub(super) fn task_end(outcome: Outcome, most: usize) -> TaskEnd {
    let result = match outcome {
        Outcome::Complete(Reply::Tool(result)) => result,
        Outcome::Failed(error)
            if error.kind.is_tool_result() || error.kind.is_invalid_tool_arguments() =>
        {
            ToolResult::error(&*error.message)
        }
        Outcome::Failed(error) => return TaskEnd::Failed(SavedError::within_limit(&error, most)),
        _ => return TaskEnd::Failed((&Error::new(ErrorKind::InternalError)).into()),
    };
    TaskEnd::Completed(Box::new(match problem(&result, most) {
        Some(text) => ToolResult::error(text),
        None => result,
    }))
}

/// Reason why a result cannot be stored.
fn problem(result: &ToolResult, most: usize) -> Option<String> {
    let json = serde_json::to_vec(result);
    let size = json.as_ref().map_or(usize::MAX, Vec::len);
    if size > most {
        return Some(format!("The result has {size} bytes, and {most} is the limit for a task"));
    }
    let is_deep = json.is_ok_and(|json| nested_json::is_too_deep(&json));
    is_deep.then(|| "The result is nested too deeply to be stored for a task".into())
}
