//! Decides whether a call requests a task, and sends task requests.

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
        find_tool::find_tool,
        request::{CallSpec, RetryParams},
        run,
    },
};

/// The task request of a call that does not need a task itself.
pub(crate) fn tasking(caller: &ClientHandle, spec: &CallSpec) -> TaskRequest {
    if spec.method != Method::CallTool {
        return TaskRequest::default();
    }
    let tool = spec.target.as_deref().unwrap_or_default();
    let support = caller.server_state().task_support(tool);
    caller.task_dialect().tasking(support == Some(TaskSupport::Required))
}

/// Returns whether `error` may mean that the tool is task-only and was called without a task.
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

/// Returns whether a failed result may mean that the tool is task-only: not every server reports
/// this as an error. The text only decides whether the tool is listed again.
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
            // Such a message is short, and a long one must not be copied.
            text.len() <= 4096 && names_tasks(text)
        })
}

/// The tool's declared task support; lists the tool if it is not cached. A list that changes
/// meanwhile is not cached, but counts here.
pub(crate) async fn support(caller: &ClientHandle, tool: &str) -> Result<TaskSupport, Error> {
    if let Some(known) = caller.server_state().task_support(tool) {
        return Ok(known);
    }
    let listed = find_tool(caller, tool).await?;
    Ok(listed.map_or(TaskSupport::Forbidden, |info| tool_schemas::task_support(&info)))
}

/// Sends one task request, without callbacks.
pub(crate) async fn send(caller: &ClientHandle, spec: CallSpec, idle: Duration) -> Outcome {
    send_with(caller, spec, None, idle).await
}

/// Sends one task request with the fields of a retry.
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
    run::send_request(caller, &*transport, request, &mut hooks, idle).await.outcome
}
