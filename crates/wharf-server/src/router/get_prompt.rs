//! `prompts/get`: finds the prompt, reads its arguments, and calls its handler.

use std::{borrow::Cow, sync::Arc};

use serde_json::{Map, Value};
use wharf_model::{BoxFuture, Error, ErrorKind, Outbox, Outcome, Request};

use crate::router::dispatch::call;
use crate::{
    handler::{extract::CallInput, now, string_args::StringArg},
    lenient_json,
    router::{catalog::CatalogLists, state::ServerState},
};

/// Named arguments of a prompt, or variables of a template.
pub(super) type NamedArgs<'a> = Vec<(Cow<'a, str>, StringArg)>;

/// Gets a prompt.
pub(crate) fn get_prompt(
    server: &Arc<ServerState>,
    lists: &CatalogLists,
    request: Request,
    outbox: Outbox,
) -> BoxFuture<Outcome> {
    let prompt = lists.prompts.get(&request.target());
    let Some(prompt) = prompt.filter(|prompt| server.allows_entry(&request, prompt)) else {
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
