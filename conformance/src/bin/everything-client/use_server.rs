//! Uses every feature that a server lists.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use wharf::{
    Client,
    model::{PromptInfo, ToolInfo},
};

use crate::call_plan::CallPlan;
use crate::sample_values;
use crate::skills::use_skills;

pub(crate) async fn run(client: &Client, plan: &CallPlan) -> wharf::Result<()> {
    let tools = client.tools().all().await?;
    match plan {
        CallPlan::Calls(calls) => {
            for call in calls {
                client.call(&call.name, &call.arguments).await?;
            }
        }
        CallPlan::Everything => {
            for tool in &tools {
                let called = client.call(&tool.name, arguments_for(tool, &tools)).await;
                match called.as_ref().err().map(|error| error.kind()) {
                    // An internal error is a valid response: one of our tools returns it.
                    Some(kind) if kind.is_internal_error() => {}
                    // The server supports only listing.
                    Some(kind) if kind.is_method_not_found() => return Ok(()),
                    _ => drop(called?),
                }
            }
            use_resources(client).await?;
            use_prompts(client).await?;
            use_skills(client).await?;
        }
    }
    Ok(())
}

/// Arguments that match the input schema. A tool with a `schema` argument gets the schema of another tool.
fn arguments_for(tool: &ToolInfo, tools: &[Arc<ToolInfo>]) -> Value {
    let wants_schema = tool.input_schema["properties"]["schema"]["type"] == "object";
    match tools.iter().find(|other| other.name != tool.name).filter(|_| wants_schema) {
        Some(other) => json!({ "schema": **other.input_schema }),
        None => sample_values::sample_value(&tool.input_schema),
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
