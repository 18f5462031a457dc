//! The way through all that a server has.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use wharf::{
    Client,
    model::{PromptInfo, ToolInfo},
};

use crate::plan::Plan;
use crate::values;

pub(crate) async fn make(client: &Client, plan: &Plan) -> wharf::Result<()> {
    let tools = client.tools().all().await?;
    match plan {
        Plan::Make(calls) => {
            for call in calls {
                client.call(&call.name, &call.arguments).await?;
            }
        }
        Plan::UseAll => {
            for tool in &tools {
                let called = client.call(&tool.name, arguments_for(tool, &tools)).await;
                match called.as_ref().err().map(|error| error.kind) {
                    // A server's own failure is an answer: one of our tools is there to fail so.
                    Some(kind) if kind.is_internal_error() => {}
                    // It serves lists, and nothing that is in them.
                    Some(kind) if kind.is_method_not_found() => return Ok(()),
                    _ => drop(called?),
                }
            }
            use_resources(client).await?;
            use_prompts(client).await?;
        }
    }
    Ok(())
}

/// What fits. A tool that wants to see a schema is shown that of another.
fn arguments_for(tool: &ToolInfo, tools: &[Arc<ToolInfo>]) -> Value {
    let wants_schema = tool.input_schema["properties"]["schema"]["type"] == "object";
    match tools.iter().find(|other| other.name != tool.name).filter(|_| wants_schema) {
        Some(other) => json!({ "schema": **other.input_schema }),
        None => values::fitting(&tool.input_schema),
    }
}

async fn use_resources(client: &Client) -> wharf::Result<()> {
    for resource in client.resources().all().await? {
        client.read(&resource.uri).await?;
    }
    client.templates().all().await?;
    Ok(())
}

async fn use_prompts(client: &Client) -> wharf::Result<()> {
    for prompt in client.prompts().all().await? {
        client.prompt(&prompt.name, arguments(&prompt)).await?;
    }
    Ok(())
}

fn arguments(prompt: &PromptInfo) -> Map<String, Value> {
    let required = prompt.arguments.iter().filter(|argument| argument.required);
    required.map(|argument| (argument.name.clone(), json!("text"))).collect()
}
