//! The way through all that a server has.

use serde_json::{Map, Value, json};
use wharf::{Client, PromptInfo};

use crate::plan::Plan;
use crate::values;

pub(crate) async fn make(client: &Client, plan: &Plan) -> wharf::Result<()> {
    let tools = client.tools().all().await?;
    match plan {
        Plan::ListOnly => {}
        Plan::Make(calls) => {
            for call in calls {
                client.call(&call.name, &call.arguments).await?;
            }
        }
        Plan::EchoSchema { of, to } => {
            let tool = tools.iter().find(|tool| tool.name == *of);
            let tool = tool.ok_or_else(|| missing(of))?;
            client.call(*to, json!({ "schema": *tool.input_schema })).await?;
        }
        Plan::UseAll => {
            for tool in tools {
                let called = client.call(&tool.name, values::fitting(&tool.input_schema)).await;
                // A server's own failure is an answer: one of our tools is there to fail so.
                if !called.as_ref().is_err_and(|error| error.kind.is_internal_error()) {
                    called?;
                }
            }
            use_resources(client).await?;
            use_prompts(client).await?;
        }
    }
    Ok(())
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

fn missing(tool: &str) -> wharf::Failure {
    wharf::Error::new(wharf::ErrorKind::ToolNotFound)
        .with_message(format!("the server lists no tool {tool}"))
        .into()
}
