//! `tools/call`: finds the tool, checks scopes and headers, and calls its handler. The arguments are checked in
//! `wharf-server/src/handler/validate_arguments.rs`.
//!
//! Which errors become tool results with `isError` depends on the revision: `wharf-wire/src/server/tool_result_or_error.rs`.

use std::sync::Arc;

use wharf_model::{BoxFuture, Error, ErrorKind, Outbox, Outcome, Request, ToolInfo};

use crate::router::dispatch::call;
use crate::{
    handler::{extract::CallInput, now},
    router::{
        catalog::{CatalogEntry, CatalogLists, ListedItem},
        check_output::check_output,
        state::ServerState,
    },
    tasks::{call_plan, call_plan::CallPlan, runtime::missing_runtime},
};

/// Calls a tool.
pub(crate) fn call_tool(
    server: &Arc<ServerState>,
    lists: &CatalogLists,
    request: Request,
    outbox: Outbox,
) -> BoxFuture<Outcome> {
    let tool = match find_tool(server, lists, &request) {
        Ok(tool) => tool,
        Err(error) => return now((*error).into()),
    };
    // Serde deserializes structs from lists as well, by position.
    let arguments = request.arguments();
    if !arguments.starts_with('{') && !arguments.trim_start().starts_with('{') {
        let text = "Invalid arguments: they must be a JSON object";
        return now(Error::new(ErrorKind::InvalidToolArguments).with_message(text).into());
    }
    if let Some(mirrored) = &request.mirrored
        && let Err(error) = tool.extra.param_headers.check(arguments, mirrored)
    {
        return now(error.into());
    }
    match call_plan::plan(server, tool, &request) {
        Ok(CallPlan::Plain) => begin_tool(server, tool, request, outbox),
        Ok(plan) => call_as_task(server, tool, request, outbox, plan),
        Err(error) => now(error.into()),
    }
}

/// Runs a call as a task, or as one that may become a task.
fn call_as_task(
    server: &Arc<ServerState>,
    tool: &Arc<CatalogEntry<ToolInfo>>,
    request: Request,
    outbox: Outbox,
    plan: CallPlan,
) -> BoxFuture<Outcome> {
    match (server.tasks.task_runtime(), plan) {
        (Some(task_runtime), CallPlan::Task(ttl)) => {
            task_runtime.create(server, tool, request, &outbox, ttl)
        }
        (Some(task_runtime), CallPlan::Promotable(after)) => {
            task_runtime.promotable(server, tool, request, outbox, after)
        }
        _ => missing_runtime(),
    }
}

/// Finds the tool of a request, if the caller may use it. If only scopes are missing, the error
/// names them.
#[inline(always)]
pub(crate) fn find_tool<'l>(
    server: &ServerState,
    lists: &'l CatalogLists,
    request: &Request,
) -> Result<&'l Arc<CatalogEntry<ToolInfo>>, Box<Error>> {
    let tool = lists.tools.get(&request.target());
    match tool.filter(|tool| server.allows(request, tool.info.item())) {
        Some(tool) => match server.missing_scopes(request, &tool.scopes) {
            None => Ok(tool),
            Some(error) => Err(Box::new(error)),
        },
        None => Err(Box::new(Error::tool_not_found(&request.target()))),
    }
}

/// Starts a tool call whose arguments and headers are checked.
#[inline(always)]
pub(crate) fn begin_tool(
    server: &Arc<ServerState>,
    tool: &Arc<CatalogEntry<ToolInfo>>,
    request: Request,
    outbox: Outbox,
) -> BoxFuture<Outcome> {
    let call = call(server, tool, request, outbox, CallInput::Json);
    if tool.extra.results.is_none() { call } else { check_output(call, tool.clone()) }
}
