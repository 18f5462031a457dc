//! `wharf prompt`.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use wharf::{Client, ErrorKind, model::PromptInfo};

use crate::commands::Run;
use crate::{
    arguments::{arguments, parse_arguments},
    cli::Prompt,
    context::Context,
    error::CliError,
    show::prompt_lines,
    suggest, target_argument,
    terminal::{clean_line, cut},
};

impl Run for Prompt {
    async fn run(&self, context: &Context) -> Result<(), CliError> {
        let words = self.words.words.clone();
        let (target, words) = target_argument::split(words, &context.shared.command)?;
        let Some((name, words)) = words.split_first() else {
            return Err(CliError::usage("No prompt is given")
                .hint("`wharf list TARGET prompts` shows them.".to_owned()));
        };
        let words = parse_arguments(words)?;
        let client = context.connect(target).await?;
        let of = format!("The prompt `{name}`");
        let (schema, unlisted) = match look_up(client, name).await? {
            Ok(prompt) => (schema(&prompt), None),
            // Servers hide prompts that the caller is not authorized for. The request itself
            // returns the required scopes.
            Err(unlisted) if context.sends_credentials().await => {
                (json!({"additionalProperties": {"type": "string"}}), Some(unlisted))
            }
            Err(unlisted) => return Err(unlisted),
        };
        let arguments = texts(arguments(&of, &schema, words)?)?;
        let result = context.watch(client.prompt(name, arguments)).await;
        let result = result.map_err(|fail| match unlisted {
            Some(unlisted) if fail.is_unknown_name() => unlisted,
            _ => fail,
        })?;
        let out = context.out;
        if out.is_json() {
            out.json(&result)
        } else {
            out.lines(&prompt_lines(&result, out.paint()))
        }
    }
}

/// Arguments of a prompt as a schema of strings.
fn schema(prompt: &PromptInfo) -> Value {
    let each = prompt.arguments.iter().map(|it| {
        let about = it.description.as_deref().unwrap_or_default();
        (it.name.clone(), json!({"type": "string", "description": about}))
    });
    let properties: Map<String, Value> = each.collect();
    let required = prompt.arguments.iter().filter(|it| it.required);
    let required: Vec<&str> = required.map(|it| it.name.as_str()).collect();
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

/// Converts the arguments to strings, the only type that prompts take.
fn texts(arguments: Map<String, Value>) -> Result<Map<String, Value>, CliError> {
    match arguments.iter().find(|(_, value)| !value.is_string()) {
        Some((name, _)) => Err(CliError::usage(format!("{name}: a prompt accepts only strings"))
            .hint(format!("Write {name}=TEXT."))),
        None => Ok(arguments),
    }
}

/// Looks up a prompt by name; the inner error means that it is not listed.
async fn look_up(
    client: &Client,
    name: &str,
) -> Result<Result<Arc<PromptInfo>, CliError>, CliError> {
    let prompts = client.prompts().all().await?;
    if let Some(prompt) = prompts.iter().find(|prompt| prompt.name == name) {
        return Ok(Ok(prompt.clone()));
    }
    let names: Vec<&str> = prompts.iter().map(|prompt| prompt.name.as_str()).collect();
    let hint = suggest::did_you_mean(name, names.iter().copied()).unwrap_or_else(|| {
        match names.as_slice() {
            [] => "It has no prompts.".to_owned(),
            names => format!("It has: {}.", cut(&clean_line(&names.join(", ")), 400)),
        }
    });
    let message = format!("The server has no prompt `{name}`");
    Ok(Err(CliError::unknown(ErrorKind::PromptNotFound, message).hint(hint)))
}
