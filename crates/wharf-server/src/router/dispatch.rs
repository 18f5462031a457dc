//! Dispatches calls to handlers: tools, resources, prompts, completions.

use std::{borrow::Cow, sync::Arc};

use serde_json::{Map, Value};
use wharf_model::{
    BoxFuture, Completion, CompletionRef, CompletionRequest, Error, ErrorKind, Outbox, Outcome,
    Principal, Reply, Request, TemplateInfo, ToolInfo, excerpt,
};

use crate::{
    handler::{
        extract::{CallInput, Incoming},
        now,
        string_args::StringArg,
    },
    lenient_json,
    primitives::completion::CompleterTable,
    router::{
        access::Item,
        catalog::{CatalogEntry, CatalogLists, ListedItem},
        check_output::check_output,
        state::ServerState,
    },
    schema::validator::SchemaValidator,
    tasks::{create, create::CallPlan, runtime::missing_runtime},
};

/// Calls a method that the protocol does not define.
pub(crate) fn call_method(
    server: &Arc<ServerState>,
    request: Request,
    outbox: Outbox,
) -> BoxFuture<Outcome> {
    let name = request.method_name();
    let method = server.methods.get(&*name);
    let method = method.filter(|method| method.is_notification == request.notification);
    let Some(method) = method.filter(|_| server.allows(&request, Item::Method(&name))) else {
        return now(Error::method_not_found(&excerpt(&name)).into());
    };
    if let Some(error) = server.missing_scopes(&request, &method.scopes) {
        return now(error.into());
    }
    if let Some(deadlines) = method.deadlines {
        outbox.set_deadlines(deadlines);
    }
    let params = request.custom_params().into_owned();
    let (input, validator) = (CallInput::Params(&params), Some(&method.validator));
    drop(name);
    method.endpoint.call(Incoming::new(request, outbox, server, input, validator))
}

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
    match create::plan(server, tool, &request) {
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

fn call<I: ListedItem>(
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

/// Reads a resource, or one that a template matches.
pub(crate) fn read_resource(
    server: &Arc<ServerState>,
    lists: &CatalogLists,
    request: Request,
    outbox: Outbox,
) -> BoxFuture<Outcome> {
    let uri = request.target().into_owned();
    if uri.len() > server.limits.uri {
        let text = format!("The URI has {} bytes; {} is the limit", uri.len(), server.limits.uri);
        return now(Error::new(ErrorKind::UriTooLong).with_message(text).into());
    }
    if let Some(resource) = lists.resources.get(&uri) {
        // A hidden resource must not become readable through a template.
        if !server.allows(&request, resource.info.item()) {
            return now(Error::resource_not_found(&uri).into());
        }
        if let Some(error) = server.missing_scopes(&request, &resource.scopes) {
            return now(error.into());
        }
        return call(server, resource, request, outbox, CallInput::Resource(&[], &resource.extra));
    }
    match find_template(server, lists, request.principal(), &uri) {
        Some((template, pairs)) => {
            if let Some(error) = server.missing_scopes(&request, &template.scopes) {
                return now(error.into());
            }
            let input = CallInput::Resource(&pairs, &template.extra.metadata);
            call(server, template, request, outbox, input)
        }
        None => now(Error::resource_not_found(&uri).into()),
    }
}

type NamedArgs<'a> = Vec<(Cow<'a, str>, StringArg)>;

/// Finds the first template that matches and that the caller may use.
fn find_template<'a>(
    server: &ServerState,
    lists: &'a CatalogLists,
    principal: Option<&Principal>,
    uri: &str,
) -> Option<(&'a Arc<CatalogEntry<TemplateInfo>>, NamedArgs<'a>)> {
    let visible = |entry: &&Arc<CatalogEntry<TemplateInfo>>| match &server.access {
        None => true,
        Some(access) => access.allows(principal, entry.info.item()),
    };
    let matching = |entry: &'a Arc<CatalogEntry<TemplateInfo>>| {
        Some((entry, entry.extra.template.matches(uri)?))
    };
    lists.templates.entries().iter().filter(visible).find_map(matching)
}

/// Returns whether the caller may receive updates of a resource. False for resources that exist but
/// are hidden from the caller.
pub(crate) fn may_subscribe(
    server: &ServerState,
    principal: Option<&Principal>,
    uri: &str,
) -> bool {
    let catalog = server.catalog.load();
    let lists = &catalog.lists;
    if server.access.is_none() && !lists.resources.is_scoped() && !lists.templates.is_scoped() {
        return true;
    }
    // An unauthenticated caller is local, or scopes protect only contents: a notification reveals
    // no more than a change of a URI that the caller has already.
    let has = |scopes: &[String]| {
        principal.is_none_or(|caller| scopes.iter().all(|scope| caller.has_scope(scope)))
    };
    if let Some(resource) = lists.resources.get(uri) {
        let access = server.access.as_ref();
        return access.is_none_or(|access| access.allows(principal, resource.info.item()))
            && has(&resource.scopes);
    }
    match find_template(server, lists, principal, uri) {
        Some((template, _)) => has(&template.scopes),
        None => {
            let mut templates = lists.templates.entries().iter();
            !templates.any(|entry| entry.extra.template.matches(uri).is_some())
        }
    }
}

/// Gets a prompt.
pub(crate) fn get_prompt(
    server: &Arc<ServerState>,
    lists: &CatalogLists,
    request: Request,
    outbox: Outbox,
) -> BoxFuture<Outcome> {
    let prompt = lists.prompts.get(&request.target());
    let Some(prompt) = prompt.filter(|prompt| server.allows(&request, prompt.info.item())) else {
        return now(Error::prompt_not_found(&request.target()).into());
    };
    if let Some(error) = server.missing_scopes(&request, &prompt.scopes) {
        return now(error.into());
    }
    let pairs = match prompt_arguments(request.arguments(), server.limits.argument_values) {
        Ok(pairs) => pairs,
        Err(error) => return now(error.into()),
    };
    let given = |name: &str| pairs.iter().any(|(it, _)| it == name);
    let required = prompt.info.arguments.iter().filter(|it| it.required);
    let missing: Vec<&str> =
        required.map(|it| it.name.as_str()).filter(|name| !given(name)).collect();
    if !missing.is_empty() {
        return now(Error::prompt_argument_missing(missing).into());
    }
    call(server, prompt, request, outbox, CallInput::Prompt(&pairs))
}

/// Parses the arguments of a prompt. They are strings; other values are converted to their JSON
/// text.
fn prompt_arguments(json: &str, most: usize) -> Result<NamedArgs<'static>, Error> {
    let invalid = |text| Error::new(ErrorKind::InvalidPromptArguments).with_message(text);
    if !lenient_json::is_within(json, most) {
        return Err(invalid(format!(
            "Invalid arguments: they have {}",
            lenient_json::too_many(most)
        )));
    }
    let map: Map<String, Value> =
        serde_json::from_str(json).map_err(|error| invalid(error.to_string()))?;
    let pair = |(name, value): (String, Value)| {
        let text = match value {
            Value::Null => return None,
            Value::String(text) => text,
            other => other.to_string(),
        };
        Some((Cow::Owned(name), StringArg::Single(text)))
    };
    Ok(map.into_iter().filter_map(pair).collect())
}

/// Completes an argument.
pub(crate) fn complete(
    server: &Arc<ServerState>,
    lists: &CatalogLists,
    request: Request,
    outbox: Outbox,
) -> BoxFuture<Outcome> {
    let most = server.limits.argument_values;
    if !lenient_json::is_within(request.params(), most) {
        let text = format!("Invalid params: they have {}", lenient_json::too_many(most));
        return now(Error::new(ErrorKind::InvalidParams).with_message(text).into());
    }
    let asked: CompletionRequest = match serde_json::from_str(request.params()) {
        Ok(asked) => asked,
        Err(error) => return now(Error::invalid_params(error).into()),
    };
    let found = match &asked.reference {
        CompletionRef::Prompt(name) => prompt_completers(server, lists, &request, name),
        CompletionRef::Resource(uri) => template_completers(server, lists, &request, uri),
        _ => Err(Error::new(ErrorKind::InvalidParams)
            .with_message("Only prompts and resource templates can be completed")),
    };
    let (arguments, completions) = match found {
        Ok(found) => found,
        Err(error) => return now(error.into()),
    };
    if !arguments.contains(&asked.argument.as_str()) {
        let text = format!("There is no argument `{}` to complete", asked.argument);
        let data = serde_json::json!({ "field": "argument.name" });
        return now(Error::new(ErrorKind::InvalidParams).with_message(text).with_data(data).into());
    }
    match completions.and_then(|completions| completions.get(&asked.argument)) {
        Some(completer) => {
            let input = CallInput::Completion(&asked);
            completer.call(Incoming::new(request, outbox, server, input, None::<&SchemaValidator>))
        }
        None => now(Reply::Completion(Completion::new(Vec::<String>::new())).into()),
    }
}

/// Names of the arguments that can be completed, and their completers.
type CompletionTarget<'a> = (Vec<&'a str>, Option<&'a CompleterTable>);

fn prompt_completers<'a>(
    server: &ServerState,
    lists: &'a CatalogLists,
    request: &Request,
    name: &str,
) -> Result<CompletionTarget<'a>, Error> {
    let prompt = lists.prompts.get(name);
    let prompt = prompt.filter(|prompt| server.allows(request, prompt.info.item()));
    let prompt = prompt.ok_or_else(|| Error::prompt_not_found(name))?;
    if let Some(error) = server.missing_scopes(request, &prompt.scopes) {
        return Err(error);
    }
    let arguments = prompt.info.arguments.iter().map(|it| it.name.as_str()).collect();
    Ok((arguments, Some(&prompt.extra)))
}

/// Finds the template by its own text, or by a URI that matches it.
fn template_completers<'a>(
    server: &ServerState,
    lists: &'a CatalogLists,
    request: &Request,
    uri: &str,
) -> Result<CompletionTarget<'a>, Error> {
    let visible =
        |entry: &&Arc<CatalogEntry<TemplateInfo>>| server.allows(request, entry.info.item());
    let by_text = lists.templates.get(uri).filter(visible);
    let by_match = || match uri.len() <= server.limits.uri {
        true => find_template(server, lists, request.principal(), uri).map(|(entry, _)| entry),
        false => None,
    };
    match by_text.or_else(by_match) {
        Some(entry) => {
            if let Some(error) = server.missing_scopes(request, &entry.scopes) {
                return Err(error);
            }
            let extra = &entry.extra;
            Ok((extra.template.variables().collect(), Some(&extra.completions)))
        }
        None => Err(Error::new(ErrorKind::InvalidParams)
            .with_message(format!("There is no resource template `{uri}`"))
            .with_data(serde_json::json!({ "field": "ref.uri" }))),
    }
}
