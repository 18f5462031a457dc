//! Tools that need several rounds with modern clients: each round ends by requiring input, and the
//! client calls again with it. For legacy clients they ask while they run.

use wharf::{model::ClientCapability, prelude::*};

pub(crate) fn tools(server: Server) -> Server {
    server
        .tool::<test_input_required_result_elicitation>()
        .tool::<test_input_required_result_sampling>()
        .tool::<test_input_required_result_list_roots>()
        .tool::<test_input_required_result_request_state>()
        .tool::<test_input_required_result_multiple_inputs>()
        .tool::<test_input_required_result_multi_round>()
        .tool::<test_input_required_result_tampered_state>()
        .tool::<test_input_required_result_capabilities>()
}

#[derive(Deserialize, JsonSchema)]
struct Name {
    name: String,
}

#[derive(Deserialize, JsonSchema)]
struct Colour {
    color: String,
}

#[derive(Deserialize, JsonSchema)]
struct Confirm {
    ok: bool,
}

/// Asks the user's name.
#[tool]
async fn test_input_required_result_elicitation(ctx: Ctx) -> Result<String, ToolError> {
    let Name { name } = ctx.ask("user_name", "What is your name?").await?;
    Ok(format!("Hello, {name}!"))
}

/// Asks the client's model.
#[tool]
async fn test_input_required_result_sampling(ctx: Ctx) -> Result<String, ToolError> {
    let question = SamplingRequest::new(100).user("What is the capital of France?");
    Ok(ctx.sample("capital_question", question).await?.text())
}

/// Asks where the client works.
#[tool]
async fn test_input_required_result_list_roots(ctx: Ctx) -> Result<String, ToolError> {
    let roots = ctx.roots("client_roots").await?;
    Ok(format!("The client works in {} places.", roots.len()))
}

/// Asks once; what is remembered meanwhile travels with the client.
#[tool]
async fn test_input_required_result_request_state(ctx: Ctx) -> Result<String, ToolError> {
    let Confirm { ok } = ctx.ask("confirm", "Please confirm.").await?;
    Ok(format!("state-ok: {ok}"))
}

/// Asks the user, the client's model and for roots, all at once.
#[tool]
async fn test_input_required_result_multiple_inputs(ctx: Ctx) -> Result<String, ToolError> {
    let greeting = SamplingRequest::new(100).user("Write a greeting.");
    let (user, greeting, roots) = tokio::join!(
        ctx.ask("user_name", "What is your name?"),
        ctx.sample("greeting", greeting),
        ctx.roots("client_roots"),
    );
    let Name { name } = user?;
    Ok(format!("{} {name}! I see {} roots.", greeting?.text(), roots?.len()))
}

/// Asks one thing after the other.
#[tool]
async fn test_input_required_result_multi_round(ctx: Ctx) -> Result<String, ToolError> {
    let Name { name } = ctx.ask("step1", "Step 1: What is your name?").await?;
    let Colour { color } = ctx.ask("step2", "Step 2: What is your favorite color?").await?;
    Ok(format!("{name} likes {color}."))
}

/// Asks once, and takes no state that somebody changed.
#[tool]
async fn test_input_required_result_tampered_state(ctx: Ctx) -> Result<String, ToolError> {
    let Confirm { ok } = ctx.ask("confirm", "Please confirm.").await?;
    Ok(format!("confirmed: {ok}"))
}

/// Asks what the client can answer: its user, or else its model.
#[tool]
async fn test_input_required_result_capabilities(ctx: Ctx) -> Result<String, ToolError> {
    if ctx.can(ClientCapability::Elicitation) {
        let Name { name } = ctx.ask("user_name", "What is your name?").await?;
        return Ok(format!("The user is {name}."));
    }
    let question = SamplingRequest::new(100).user("What is your name?");
    Ok(format!("The model said: {}", ctx.sample("model_name", question).await?.text()))
}
