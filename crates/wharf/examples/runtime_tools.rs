//! Tools that come and go while the server runs, each described by a JSON Schema.
//!
//! `teach` takes a name and a reply and makes a tool of them; clients hear that the list changed.
use serde_json::json;
use wharf::prelude::*;

/// Teaches the server a new tool.
#[tool]
async fn teach(
    /// What the new tool is called.
    name: String,
    /// What it says, before the name of whoever it greets.
    greeting: String,
    ctx: Ctx,
) -> Result<String, ToolError> {
    let schema = json!({
        "type": "object",
        "properties": { "who": { "type": "string", "minLength": 1 } },
        "required": ["who"],
    });
    let answer = move |RawArgs(arguments): RawArgs| {
        let greeting = greeting.clone();
        async move {
            let arguments: serde_json::Value = serde_json::from_str(arguments.get())?;
            let who = arguments["who"].as_str().unwrap_or("nobody");
            Ok::<_, ToolError>(format!("{greeting} {who}"))
        }
    };
    let tool = Tool::dynamic(&name, schema, answer).description("Taught by a client.");
    // The model chose the name, so it receives the reason for which it is invalid.
    ctx.registry().add(tool).map_err(ToolError::new)?;
    Ok(format!("{name} is ready"))
}

/// Forgets a tool that was taught.
#[tool(destructive)]
async fn forget(name: String, ctx: Ctx) -> String {
    match ctx.registry().remove_tool(&name) {
        true => format!("{name} is gone"),
        false => format!("there is no {name}"),
    }
}

#[tokio::main]
async fn main() -> wharf::Result<()> {
    Server::new("school", "1.0.0").tool::<teach>().tool::<forget>().run().await
}
