//! Dispatches a request by its method, behind the middleware: to a handler, a list, the tasks or the upstream server.

use std::sync::Arc;

use wharf_model::{BoxFuture, Error, ErrorKind, Method, Outbox, Outcome, Reply, Request};

use crate::tasks;
use crate::{
    handler::extract::{CallInput, Incoming},
    router::{
        call_custom_method, call_tool,
        catalog::{CatalogEntry, ListedItem},
        complete,
        concurrency::with_permit,
        forward::forward_upstream,
        get_prompt,
        listen::listen,
        pagination, read_resource,
    },
};
use crate::{
    handler::now,
    router::{catalog::CatalogSnapshot, state::ServerState},
    tasks::runtime::missing_runtime,
};

/// Dispatches a request behind the middleware.
pub(super) fn dispatch(
    server: &Arc<ServerState>,
    request: Request,
    outbox: Outbox,
) -> BoxFuture<Outcome> {
    if server.tasks.must_start() {
        server.tasks.start(server, outbox.timer());
    }
    if let Some(upstream) = &server.upstream {
        return forward_upstream(server, upstream.clone(), request, outbox);
    }
    match request.method {
        method if method.info().runs_user_code => with_permit(server, request, outbox, handle),
        _ => handle(server, request, outbox),
    }
}

/// Handles a request that has a permit, with the current catalog.
fn handle(server: &Arc<ServerState>, mut request: Request, outbox: Outbox) -> BoxFuture<Outcome> {
    let catalog = server.catalog.load();
    if !catalog.discovery.capabilities.logging {
        request.log_level = None;
    }
    let (method, lists) = (request.method, &catalog.lists);
    if !catalog.discovery.capabilities.offer(method) {
        return now(not_supported(method).into());
    }
    match method {
        Method::CallTool => call_tool::call_tool(server, lists, request, outbox),
        Method::ReadResource => read_resource::read_resource(server, lists, request, outbox),
        Method::GetPrompt => get_prompt::get_prompt(server, lists, request, outbox),
        Method::Complete => complete::complete(server, lists, request, outbox),
        Method::Custom => call_custom_method::call_method(server, request, outbox),
        Method::Discover => now(discover(&catalog, &request)),
        Method::ListTools => now(pagination::list(server, &lists.tools, &request)),
        Method::ListResources => now(pagination::list(server, &lists.resources, &request)),
        Method::ListTemplates => now(pagination::list(server, &lists.templates, &request)),
        Method::ListPrompts => now(pagination::list(server, &lists.prompts, &request)),
        Method::Listen => listen(server, &catalog, request, outbox),
        Method::GetTask
        | Method::UpdateTask
        | Method::CancelTask
        | Method::TaskResult
        | Method::ListTasks => dispatch_task_method(server, &catalog, request, outbox),
        Method::Elicit | Method::Sample | Method::ListRoots => {
            now(Error::method_not_found(method.name()).into())
        }
    }
}

/// Handles a request about tasks, if there are any.
fn dispatch_task_method(
    server: &Arc<ServerState>,
    catalog: &CatalogSnapshot,
    request: Request,
    outbox: Outbox,
) -> BoxFuture<Outcome> {
    match (tasks::methods::check_supported(catalog, &request), server.tasks.task_runtime()) {
        (Ok(()), Some(task_runtime)) => task_runtime.answer(server, request, outbox),
        (Ok(()), None) => missing_runtime(),
        (Err(error), _) => now(error.into()),
    }
}

pub(crate) fn not_supported(method: Method) -> Error {
    let name = method.name();
    Error::new(ErrorKind::CapabilityNotSupported)
        .with_message(format!("Method not found: {name} (this server does not offer it)"))
        .with_data(serde_json::json!({ "method": name }))
}

fn discover(catalog: &CatalogSnapshot, request: &Request) -> Outcome {
    let mut discovery = catalog.discovery.clone();
    // Only a principal has a list of tasks.
    if let Some(tasks) =
        discovery.capabilities.tasks.as_mut().filter(|_| request.principal().is_some())
    {
        tasks.insert("list".into(), serde_json::json!({}));
    }
    Reply::Discover(Box::new(discovery)).into()
}

/// Calls the handler of an item, with the deadlines of the item.
pub(super) fn call<I: ListedItem>(
    server: &Arc<ServerState>,
    entry: &CatalogEntry<I>,
    request: Request,
    outbox: Outbox,
    input: CallInput<'_>,
) -> BoxFuture<Outcome> {
    if let Some(deadlines) = entry.deadlines {
        outbox.set_deadlines(deadlines);
    }
    entry.endpoint.call(Incoming::new(request, outbox, server, input, Some(&entry.validator)))
}
