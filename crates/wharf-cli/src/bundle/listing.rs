//! Tools and prompts of a program, for the manifest of its bundle.

use std::env::consts::OS;
use std::fs;

use serde_json::{Map, Value, json};
use wharf::{Client, client::ChildCommand, model::PromptInfo};

use crate::{
    bundle::{Pack, platform::BinaryFile},
    context::Context,
    error::CliError,
};

/// Starts the program of this system, and lists its tools and prompts.
pub(super) async fn list(
    pack: &Pack,
    binaries: &[BinaryFile],
    context: &Context,
) -> Result<Map<String, Value>, CliError> {
    let own = match OS {
        "macos" => "darwin",
        "windows" => "win32",
        other => other,
    };
    let Some(binary) = binaries.iter().find(|it| it.platforms.contains(&own)) else {
        return Err(CliError::usage(format!("--tools: no --binary runs on this system ({own})")));
    };
    let values = pack.arg.iter().chain(pack.variables.iter().map(|it| &it.1));
    if let Some(value) = values.into_iter().find(|it| it.contains("${")) {
        return Err(CliError::usage(format!(
            "--tools starts the program here, where {value:?} has no value"
        ))
        .hint("Leave --tools out, or list the tools in the file of --manifest.".to_owned()));
    }
    let program = fs::canonicalize(&binary.file)?.to_string_lossy().into_owned();
    let client = context.connect(ChildCommand::new(program).args(&pack.arg).into()).await?;
    let can = client.capabilities();
    let mut listing = Map::new();
    if can.tools.is_some() {
        let tools = client.tools().all().await?;
        let tools = tools.iter().map(|it| entry(&it.name, it.description.as_deref()));
        listing.insert("tools".into(), tools.collect::<Vec<Value>>().into());
    }
    if can.prompts.is_some() {
        let mut prompts = Vec::new();
        for prompt in client.prompts().all().await? {
            match prompt_entry(client, &prompt).await {
                Some(prompt) => prompts.push(prompt),
                // A host asks the server for the prompts that the manifest does not have.
                None => _ = listing.insert("prompts_generated".into(), true.into()),
            }
        }
        listing.insert("prompts".into(), prompts.into());
    }
    Ok(listing)
}

fn entry(name: &str, description: Option<&str>) -> Value {
    match description {
        Some(description) => json!({"name": name, "description": description}),
        None => json!({"name": name}),
    }
}

/// Entry of a prompt: its text with `${arguments.NAME}` for each argument. None if the text needs real arguments, or is
/// more than one message.
async fn prompt_entry(client: &Client, prompt: &PromptInfo) -> Option<Value> {
    let names: Vec<&str> = prompt.arguments.iter().map(|it| it.name.as_str()).collect();
    let placeholder = |name: &&str| ((*name).to_owned(), format!("${{arguments.{name}}}").into());
    let arguments: Map<String, Value> = names.iter().map(placeholder).collect();
    let result = client.prompt(&prompt.name, arguments).await.ok()?;
    let [message] = result.messages.as_slice() else { return None };
    let text = message.content.as_text()?;
    let is_template = names.iter().all(|it| text.contains(&format!("${{arguments.{it}}}")));
    is_template.then(|| {
        let mut entry = entry(&prompt.name, prompt.description.as_deref());
        if !names.is_empty() {
            entry["arguments"] = json!(names);
        }
        entry["text"] = text.into();
        entry
    })
}
