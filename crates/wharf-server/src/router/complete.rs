//! `completion/complete`: finds the completion function of an argument, calls it, and cuts the list of values.

use std::sync::Arc;

use wharf_model::{
    BoxFuture, Completion, CompletionRef, CompletionRequest, Error, ErrorKind, Outbox, Outcome,
    Reply, Request, TemplateInfo,
};

use crate::router::match_template::find_template;
use crate::{
    handler::{
        extract::{CallInput, Incoming},
        now,
    },
    lenient_json,
    primitives::completion::CompleterTable,
    router::{
        catalog::{CatalogEntry, CatalogLists, ListedItem},
        state::ServerState,
    },
    schema::validator::SchemaValidator,
};

/// Arguments of a prompt or variables of a template, and their completers.
type CompletionTarget<'a> = (Vec<&'a str>, Option<&'a CompleterTable>);

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

/// Returns the maximum number of values in a result of this server.
pub(crate) fn max_values(server: &ServerState) -> usize {
    server.limits.completion_values.min(Completion::MAX_VALUES)
}

/// Cuts the values that a completer returned to `max_values`.
pub(crate) fn cut_values(completion: &mut Completion, max_values: usize) {
    if completion.values.len() > max_values {
        completion.total.get_or_insert(completion.values.len() as u64);
        completion.values.truncate(max_values);
        completion.has_more = Some(true);
    }
}

pub(super) fn prompt_completers<'a>(
    server: &ServerState,
    lists: &'a CatalogLists,
    request: &Request,
    name: &str,
) -> Result<CompletionTarget<'a>, Error> {
    let prompt = lists.prompts.get(name);
    let prompt = prompt.filter(|prompt| server.allows_entry(request, prompt));
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
