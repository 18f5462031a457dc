//! What a caller says about tasks, and asks about them.

use std::time::Duration;

use wharf_model::{
    Content, Error, ErrorKind, Method, Outcome, TaskRequest, TaskSupport, ToolResult,
};

use crate::task::TaskDialect;
use crate::{
    ClientHandle,
    cache::tool_schemas,
    call::{
        builder::CallHooks,
        request::{CallSpec, RetryParams},
        run,
    },
};

/// What a caller says about tasks who needs none.
pub(crate) fn tasking(caller: &ClientHandle, spec: &CallSpec) -> TaskRequest {
    if spec.method != Method::CallTool {
        return TaskRequest::default();
    }
    let tool = spec.target.as_deref().unwrap_or_default();
    let support = caller.server_state().task_support(tool);
    caller.task_dialect().tasking(support == Some(TaskSupport::Required))
}

/// Whether `error` may mean that the tool runs only as a task, and was called without one.
pub(crate) fn may_require_task(
    caller: &ClientHandle,
    method: Method,
    tasking: TaskRequest,
    error: &Error,
) -> bool {
    use ErrorKind::{CapabilityNotSupported, InvalidRequest, MethodNotFound, TaskRequired};
    method == Method::CallTool
        && tasking == TaskRequest::Declined
        && caller.task_dialect() == TaskDialect::Legacy
        && matches!(
            error.kind,
            MethodNotFound | CapabilityNotSupported | InvalidRequest | TaskRequired
        )
}

/// Whether a failure of the tool may mean that it runs only as a task: not every server says so with
/// an error. What it says decides only whether the list is looked at once more.
pub(crate) fn may_be_task_required(
    caller: &ClientHandle,
    tasking: TaskRequest,
    result: &ToolResult,
) -> bool {
    let names_tasks = |text: &str| text.to_ascii_lowercase().contains("task");
    tasking == TaskRequest::Declined
        && result.is_error
        && caller.task_dialect() == TaskDialect::Legacy
        && result.content.iter().take(8).filter_map(Content::as_text).any(|text| {
            // Such a text is short, and a long one must not be copied.
            text.len() <= 4096 && names_tasks(text)
        })
}

/// Whether the tool runs as a task, by its own account, for which it is asked if nobody has it. A
/// list that changes while it is asked for is not remembered, and counts here nevertheless.
pub(crate) async fn support(caller: &ClientHandle, tool: &str) -> Result<TaskSupport, Error> {
    if let Some(known) = caller.server_state().task_support(tool) {
        return Ok(known);
    }
    let listed = run::find_tool(caller, tool).await?;
    Ok(listed.map_or(TaskSupport::Forbidden, |info| tool_schemas::task_support(&info)))
}

/// Sends one request about tasks that asks nothing and says nothing on the way.
pub(crate) async fn send(caller: &ClientHandle, spec: CallSpec, idle: Duration) -> Outcome {
    send_with(caller, spec, None, idle).await
}

/// The same, with answers.
pub(crate) async fn send_with(
    caller: &ClientHandle,
    spec: CallSpec,
    retry: Option<&RetryParams>,
    idle: Duration,
) -> Outcome {
    let mut request = spec.build(retry).from_peer(caller.peer().clone());
    request.tasking = TaskRequest::Welcome;
    let (transport, mut hooks) = (caller.transport(), CallHooks::default());
    request.scope = transport.scope();
    run::send_request(caller, &*transport, request, &mut hooks, idle).await.0
}
