//! Calls that run users' code: tools, resources, prompts, completions.

use std::{borrow::Cow, sync::Arc};

use serde_json::{Map, Value};
use wharf_model::{
    BoxFuture, Completion, CompletionRef, CompletionRequest, Error, ErrorKind, Method, Outbox,
    Outcome, Principal, Reply, Request, TemplateInfo, ToolInfo,
};

use crate::{
    handler::{
        extract::{Incoming, Input},
        now,
        string_args::Strings,
    },
    lenient_json,
    middleware::printable,
    primitives::completion::Completions,
    router::{
        catalog::{Entry, Listed, Lists},
        state::Core,
    },
    schema::validator::Rules,
    tasks::{create, create::Plan, runtime::impossible},
};

/// Runs the handler that the request names.
pub(crate) fn run(
    core: &Arc<Core>,
    lists: &Lists,
    request: Request,
    outbox: Outbox,
) -> BoxFuture<Outcome> {
    match request.method {
        Method::CallTool => call_tool(core, lists, request, outbox),
        Method::ReadResource => read_resource(core, lists, request, outbox),
        Method::GetPrompt => get_prompt(core, lists, request, outbox),
        _ => complete(core, lists, request, outbox),
    }
}

fn call_tool(
    core: &Arc<Core>,
    lists: &Lists,
    request: Request,
    outbox: Outbox,
) -> BoxFuture<Outcome> {
    let tool = match find_tool(core, lists, &request) {
        Ok(tool) => tool,
        Err(error) => return now((*error).into()),
    };
    // Types read lists as well, by position.
    let arguments = request.arguments();
    if !arguments.starts_with('{') && !arguments.trim_start().starts_with('{') {
        let text = "Invalid arguments: they must be a JSON object";
        return now(Error::new(ErrorKind::InvalidToolArguments).with_message(text).into());
    }
    if let Some(mirrored) = &request.mirrored
        && let Err(error) = tool.extra.mirrors.check(arguments, mirrored)
    {
        return now(error.into());
    }
    match create::plan(core, tool, &request) {
        Ok(Plan::Plain) => begin_tool(core, tool, request, outbox),
        Ok(plan) => call_as_task(core, tool, request, outbox, plan),
        Err(error) => now(error.into()),
    }
}

/// Lets a call be a task, or become one.
fn call_as_task(
    core: &Arc<Core>,
    tool: &Arc<Entry<ToolInfo>>,
    request: Request,
    outbox: Outbox,
    plan: Plan,
) -> BoxFuture<Outcome> {
    match (core.tasks.machinery(), plan) {
        (Some(machinery), Plan::Task(ttl)) => machinery.create(core, tool, request, &outbox, ttl),
        (Some(machinery), Plan::Promotable(after)) => {
            machinery.promotable(core, tool, request, outbox, after)
        }
        _ => impossible(),
    }
}

/// The tool that a request names, if the caller may use it. What is only out of its scopes' reach is not denied:
/// the caller is told what it would need.
#[inline(always)]
pub(crate) fn find_tool<'l>(
    core: &Core,
    lists: &'l Lists,
    request: &Request,
) -> Result<&'l Arc<Entry<ToolInfo>>, Box<Error>> {
    let tool = lists.tools.get(&request.target());
    match tool.filter(|tool| core.allows(request, tool.info.item())) {
        Some(tool) => match core.lacks(request, &tool.scopes) {
            None => Ok(tool),
            Some(error) => Err(Box::new(error)),
        },
        None => Err(Box::new(Error::tool_not_found(&request.target()))),
    }
}

/// Begins a call whose arguments have been looked at from outside.
#[inline(always)]
pub(crate) fn begin_tool(
    core: &Arc<Core>,
    tool: &Arc<Entry<ToolInfo>>,
    request: Request,
    outbox: Outbox,
) -> BoxFuture<Outcome> {
    let call = call(core, tool, request, outbox, Input::Json);
    if tool.extra.results.is_none() { call } else { checked(call, tool.clone()) }
}

fn call<I: Listed>(
    core: &Arc<Core>,
    entry: &Entry<I>,
    request: Request,
    outbox: Outbox,
    input: Input<'_>,
) -> BoxFuture<Outcome> {
    if let Some(deadlines) = entry.deadlines {
        outbox.set_deadlines(deadlines);
    }
    entry.endpoint.call(Incoming::new(request, outbox, core, input, Some(&entry.rules)))
}

/// Holds results against a schema that no type stands for.
fn checked(call: BoxFuture<Outcome>, tool: Arc<Entry<ToolInfo>>) -> BoxFuture<Outcome> {
    Box::pin(async move {
        let outcome = call.await;
        let (Outcome::Complete(Reply::Tool(result)), Some(rules)) = (&outcome, &tool.extra.results)
        else {
            return outcome;
        };
        if result.is_error {
            return outcome;
        }
        let problem = match &result.structured {
            None => Some("there is no structured content".into()),
            Some(json) => rules.check_json(json.get(), usize::MAX).err(),
        };
        let Some(problem) = problem else { return outcome };
        let (tool, problem) = (&tool.info.name, printable(&problem));
        tracing::error!(tool, problem, "a result does not match its schema");
        Error::new(ErrorKind::OutputSchemaMismatch).into()
    })
}

fn read_resource(
    core: &Arc<Core>,
    lists: &Lists,
    request: Request,
    outbox: Outbox,
) -> BoxFuture<Outcome> {
    let uri = request.target().into_owned();
    if uri.len() > core.limits.uri {
        let text = format!("The URI has {} bytes; {} is the limit", uri.len(), core.limits.uri);
        return now(Error::new(ErrorKind::UriTooLong).with_message(text).into());
    }
    if let Some(resource) = lists.resources.get(&uri) {
        // What is hidden here no template gives away.
        if !core.allows(&request, resource.info.item()) {
            return now(Error::resource_not_found(&uri).into());
        }
        if let Some(error) = core.lacks(&request, &resource.scopes) {
            return now(error.into());
        }
        return call(core, resource, request, outbox, Input::Resource(&[], &resource.extra));
    }
    match find_template(core, lists, request.principal(), &uri) {
        Some((template, pairs)) => {
            if let Some(error) = core.lacks(&request, &template.scopes) {
                return now(error.into());
            }
            let input = Input::Resource(&pairs, &template.extra.reading);
            call(core, template, request, outbox, input)
        }
        None => now(Error::resource_not_found(&uri).into()),
    }
}

type Pairs<'a> = Vec<(Cow<'a, str>, Strings)>;

/// The first template that matches and that the caller may use.
fn find_template<'a>(
    core: &Core,
    lists: &'a Lists,
    principal: Option<&Principal>,
    uri: &str,
) -> Option<(&'a Arc<Entry<TemplateInfo>>, Pairs<'a>)> {
    let visible = |entry: &&Arc<Entry<TemplateInfo>>| match &core.access {
        None => true,
        Some(access) => access.allows(principal, entry.info.item()),
    };
    let matching =
        |entry: &'a Arc<Entry<TemplateInfo>>| Some((entry, entry.extra.template.matches(uri)?));
    lists.templates.entries().iter().filter(visible).find_map(matching)
}

/// Whether the caller may hear of updates: not of what exists, but not for it.
pub(crate) fn may_follow(core: &Core, principal: Option<&Principal>, uri: &str) -> bool {
    let snapshot = core.snapshot.load();
    let lists = &snapshot.lists;
    if core.access.is_none() && !lists.resources.is_scoped() && !lists.templates.is_scoped() {
        return true;
    }
    // Whom nobody authenticated speaks to the process itself, or wherever scopes keep nobody out of anything but
    // the contents: that something changed whose URI it knows already is all that it hears.
    let has = |scopes: &[String]| {
        principal.is_none_or(|caller| scopes.iter().all(|scope| caller.has_scope(scope)))
    };
    if let Some(resource) = lists.resources.get(uri) {
        let access = core.access.as_ref();
        return access.is_none_or(|access| access.allows(principal, resource.info.item()))
            && has(&resource.scopes);
    }
    match find_template(core, lists, principal, uri) {
        Some((template, _)) => has(&template.scopes),
        None => {
            let mut templates = lists.templates.entries().iter();
            !templates.any(|entry| entry.extra.template.matches(uri).is_some())
        }
    }
}

fn get_prompt(
    core: &Arc<Core>,
    lists: &Lists,
    request: Request,
    outbox: Outbox,
) -> BoxFuture<Outcome> {
    let prompt = lists.prompts.get(&request.target());
    let Some(prompt) = prompt.filter(|prompt| core.allows(&request, prompt.info.item())) else {
        return now(Error::prompt_not_found(&request.target()).into());
    };
    if let Some(error) = core.lacks(&request, &prompt.scopes) {
        return now(error.into());
    }
    let pairs = match prompt_arguments(request.arguments(), core.limits.argument_values) {
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
    call(core, prompt, request, outbox, Input::Prompt(&pairs))
}

/// Arguments of prompts are strings; other values are taken as their JSON text.
fn prompt_arguments(json: &str, most: usize) -> Result<Pairs<'static>, Error> {
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
        Some((Cow::Owned(name), Strings::One(text)))
    };
    Ok(map.into_iter().filter_map(pair).collect())
}

fn complete(
    core: &Arc<Core>,
    lists: &Lists,
    request: Request,
    outbox: Outbox,
) -> BoxFuture<Outcome> {
    let most = core.limits.argument_values;
    if !lenient_json::is_within(request.params(), most) {
        let text = format!("Invalid params: they have {}", lenient_json::too_many(most));
        return now(Error::new(ErrorKind::InvalidParams).with_message(text).into());
    }
    let asked: CompletionRequest = match serde_json::from_str(request.params()) {
        Ok(asked) => asked,
        Err(error) => return now(Error::from(error).into()),
    };
    let found = match &asked.reference {
        CompletionRef::Prompt(name) => of_prompt(core, lists, &request, name),
        CompletionRef::Resource(uri) => of_resource(core, lists, &request, uri),
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
            let input = Input::Completion(&asked);
            completer.call(Incoming::new(request, outbox, core, input, None::<&Rules>))
        }
        None => now(Reply::Completion(Completion::new(Vec::<String>::new())).into()),
    }
}

/// What can be completed: the names of the arguments, and the functions that complete them.
type Completable<'a> = (Vec<&'a str>, Option<&'a Completions>);

fn of_prompt<'a>(
    core: &Core,
    lists: &'a Lists,
    request: &Request,
    name: &str,
) -> Result<Completable<'a>, Error> {
    let prompt = lists.prompts.get(name);
    let prompt = prompt.filter(|prompt| core.allows(request, prompt.info.item()));
    let prompt = prompt.ok_or_else(|| Error::prompt_not_found(name))?;
    if let Some(error) = core.lacks(request, &prompt.scopes) {
        return Err(error);
    }
    let arguments = prompt.info.arguments.iter().map(|it| it.name.as_str()).collect();
    Ok((arguments, Some(&prompt.extra)))
}

/// By the template's own text, or by a URI that matches it.
fn of_resource<'a>(
    core: &Core,
    lists: &'a Lists,
    request: &Request,
    uri: &str,
) -> Result<Completable<'a>, Error> {
    let visible = |entry: &&Arc<Entry<TemplateInfo>>| core.allows(request, entry.info.item());
    let by_text = lists.templates.get(uri).filter(visible);
    let by_match = || match uri.len() <= core.limits.uri {
        true => find_template(core, lists, request.principal(), uri).map(|(entry, _)| entry),
        false => None,
    };
    match by_text.or_else(by_match) {
        Some(entry) => {
            if let Some(error) = core.lacks(request, &entry.scopes) {
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
