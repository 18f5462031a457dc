//! Decides which tool calls become tasks, at once or later.

use std::time::Duration;

use wharf_model::{
    ClientCapability, Error, ErrorKind, Request, TASKS_EXTENSION, TaskRequest, TaskSupport,
    ToolInfo,
};

use crate::{
    router::{catalog::CatalogEntry, state::ServerState},
    tasks::options::TaskStart,
};

/// Execution mode of a tool call.
#[derive(Debug, PartialEq)]
pub(crate) enum CallPlan {
    Plain,
    /// As a task with this `ttl` in milliseconds.
    Task(Option<u64>),
    /// As a call that becomes a task after this time, or when its handler detaches.
    Promotable(Option<Duration>),
}

/// Chooses the execution mode from the request of the caller and the mode of the tool.
pub(crate) fn plan(
    server: &ServerState,
    tool: &CatalogEntry<ToolInfo>,
    request: &Request,
) -> Result<CallPlan, Error> {
    match request.tasking {
        TaskRequest::Unknown => return Ok(CallPlan::Plain),
        TaskRequest::Declined if tool.extra.task.is_none() => return Ok(CallPlan::Plain),
        _ => {}
    }
    let (mode, threshold) = (tool.extra.task.as_ref(), server.tasks.options.threshold);
    let support = mode.map(|mode| &mode.support);
    let is_allowed = matches!(support, Some(TaskSupport::Optional | TaskSupport::Required));
    match request.tasking {
        TaskRequest::Wanted(_) if !server.catalog.load().makes_tasks() => Ok(CallPlan::Plain),
        TaskRequest::Wanted(ttl) if is_allowed => Ok(CallPlan::Task(ttl)),
        TaskRequest::Wanted(_) => Err(Error::new(ErrorKind::TaskForbidden)),
        TaskRequest::Welcome if !server.catalog.load().has_tasks() => Ok(CallPlan::Plain),
        TaskRequest::Welcome => Ok(match mode.map(|mode| mode.start) {
            None => threshold.map_or(CallPlan::Plain, |after| CallPlan::Promotable(Some(after))),
            Some(_) if !is_allowed => CallPlan::Plain,
            Some(TaskStart::AtOnce) => CallPlan::Task(None),
            Some(TaskStart::After(after)) => CallPlan::Promotable(Some(
                threshold.map_or(after, |threshold| after.min(threshold)),
            )),
            Some(TaskStart::OnDetach) => CallPlan::Promotable(threshold),
        }),
        TaskRequest::Declined if support == Some(&TaskSupport::Required) => {
            let needed = ClientCapability::Extension(TASKS_EXTENSION.into()).required();
            let data = serde_json::json!({ "requiredCapabilities": needed });
            Err(Error::new(ErrorKind::TaskRequired).with_data(data))
        }
        TaskRequest::Declined | TaskRequest::Unknown => Ok(CallPlan::Plain),
    }
}
