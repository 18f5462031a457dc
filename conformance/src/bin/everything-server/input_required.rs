//! Tools that take several rounds with modern clients: each round ends with `input_required`, and the client
//! retries the call with the input. Legacy clients receive the requests during the call.

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
struct NameForm {
    name: String,
}

#[derive(Deserialize, JsonSchema)]
struct FavouriteColour {
    color: String,
}

#[derive(Deserialize, JsonSchema)]
struct Confirmation {
    ok: bool,
}

/// Elicits the user's name.
#[tool]
async fn test_input_required_result_elicitation(ctx: Ctx) -> Result<String, ToolError> {
    let NameForm { name } = ctx.ask("user_name", "What is your name?").await?;
    Ok(format!("Hello, {name}!"))
}

/// Samples the client's model.
#[tool]
async fn test_input_required_result_sampling(ctx: Ctx) -> Result<String, ToolError> {
    let question = SamplingRequest::new(100).user("What is the capital of France?");
    Ok(ctx.sample("capital_question", question).await?.text())
}

/// Requests the client's roots.
#[tool]
async fn test_input_required_result_list_roots(ctx: Ctx) -> Result<String, ToolError> {
    let roots = ctx.roots("client_roots").await?;
    Ok(format!("The client works in {} places.", roots.len()))
}

/// Elicits once; the state of the call is in `requestState`.
#[tool]
async fn test_input_required_result_request_state(ctx: Ctx) -> Result<String, ToolError> {
    let Confirmation { ok } = ctx.ask("confirm", "Please confirm.").await?;
    Ok(format!("state-ok: {ok}"))
}

/// Elicits, samples and requests the roots concurrently.
#[tool]
async fn test_input_required_result_multiple_inputs(ctx: Ctx) -> Result<String, ToolError> {
    let greeting = SamplingRequest::new(100).user("Write a greeting.");
    let (user, greeting, roots) = tokio::join!(
        ctx.ask("user_name", "What is your name?"),
        ctx.sample("greeting", greeting),
        ctx.roots("client_roots"),
    );
    let NameForm { name } = user?;
    Ok(format!("{} {name}! I see {} roots.", greeting?.text(), roots?.len()))
}

/// Elicits two inputs in sequence.
#[tool]
async fn test_input_required_result_multi_round(ctx: Ctx) -> Result<String, ToolError> {
    let NameForm { name } = ctx.ask("step1", "Step 1: What is your name?").await?;
    let FavouriteColour { color } =
        ctx.ask("step2", "Step 2: What is your favorite color?").await?;
    Ok(format!("{name} likes {color}."))
}

/// Elicits once; a modified `requestState` is rejected.
#[tool]
async fn test_input_required_result_tampered_state(ctx: Ctx) -> Result<String, ToolError> {
    let Confirmation { ok } = ctx.ask("confirm", "Please confirm.").await?;
    Ok(format!("confirmed: {ok}"))
}

/// Elicits if the client supports it, otherwise samples.
#[tool]
async fn test_input_required_result_capabilities(ctx: Ctx) -> Result<String, ToolError> {
    if ctx.can(ClientCapability::Elicitation) {
        let NameForm { name } = ctx.ask("user_name", "What is your name?").await?;
        return Ok(format!("The user is {name}."));
    }
    let question = SamplingRequest::new(100).user("What is your name?");
    Ok(format!("The model said: {}", ctx.sample("model_name", question).await?.text()))
}
