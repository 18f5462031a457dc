//! Tools of the demo server.

use std::time::Duration;

use wharf::{model::ClientCapability, prelude::*};

use super::media;
use super::resources::README;

/// Adds two numbers.
#[tool(read_only)]
pub(crate) async fn add(
    /// The first number.
    a: i64,
    /// The second number.
    b: i64,
) -> Result<i64, ToolError> {
    a.checked_add(b).ok_or_else(|| ToolError::new("the sum is too large"))
}

/// Returns its text.
#[tool(read_only)]
pub(crate) async fn echo(
    /// The text to return.
    text: String,
) -> String {
    text
}

/// Returns the weather of a city; it is always the same.
#[tool(read_only)]
pub(crate) async fn weather(
    /// The city.
    city: String,
) -> Json<WeatherReport> {
    Json(WeatherReport { city, celsius: 21.5, sky: "clear" })
}

/// Weather of a city.
#[derive(Serialize, JsonSchema)]
pub(crate) struct WeatherReport {
    city: String,
    celsius: f64,
    sky: &'static str,
}

/// Returns the weather of the next two days, as a list.
#[tool(read_only)]
pub(crate) async fn forecast(
    /// The city.
    city: String,
) -> Json<Vec<WeatherReport>> {
    let day = |celsius| WeatherReport { city: city.clone(), celsius, sky: "clear" };
    Json(vec![day(22.0), day(22.5)])
}

/// Counts down, with progress and a log message at each step.
#[tool(read_only)]
pub(crate) async fn countdown(
    /// The number to start from.
    #[range(0..=1000)]
    from: u32,
    ctx: Ctx,
) -> &'static str {
    let log = ctx.logger("countdown");
    for step in 1..=from {
        tokio::time::sleep(Duration::from_millis(20)).await;
        ctx.progress_of(step.into(), from.into()).await;
        log.info(CountdownLog { left: from - step }).await;
    }
    "lift-off"
}

/// Data of each log message of [`countdown`].
#[derive(Serialize)]
struct CountdownLog {
    left: u32,
}

/// Deploys a build, after the user agrees.
#[tool(destructive)]
pub(crate) async fn deploy(
    /// The build to deploy.
    build: String,
    ctx: Ctx,
) -> Result<String, ToolError> {
    let answer: DeployConfirmation = ctx.ask("confirm", format!("Deploy {build}?")).await?;
    Ok(if answer.confirmed { format!("deployed {build}") } else { "kept".to_owned() })
}

/// Form of [`deploy`].
#[derive(Deserialize, JsonSchema)]
struct DeployConfirmation {
    /// Confirms the deployment.
    confirmed: bool,
}

/// Requests a line of poetry from the client's model (sampling).
#[tool]
pub(crate) async fn poem(
    /// The topic of the poem.
    topic: String,
    ctx: Ctx,
) -> Result<String, ToolError> {
    let line = SamplingMessage::user(format!("Write one line about {topic}."));
    Ok(ctx.sample("poem", SamplingRequest::new(100).message(line)).await?.text())
}

/// Asks the user to open a web page (URL elicitation).
#[tool]
pub(crate) async fn sign_in(ctx: Ctx) -> Result<&'static str, ToolError> {
    ctx.ask_url("sign_in", "Sign in to continue.", "https://example.com/sign-in").await?;
    Ok("signed in")
}

/// Lists the roots of the client.
#[tool(read_only)]
pub(crate) async fn workspace(ctx: Ctx) -> Result<String, ToolError> {
    let uris: Vec<String> = ctx.roots("roots").await?.into_iter().map(|root| root.uri).collect();
    Ok(uris.join("\n"))
}

/// Returns one content block of each type.
#[tool(read_only)]
pub(crate) async fn gallery() -> [Content; 5] {
    let readme = ResourceContents::text("demo://readme", README);
    [
        Content::text("One of each kind:"),
        Content::image(media::PNG, "image/png"),
        Content::audio(media::WAV, "audio/wav"),
        Content::link("demo://readme", "readme"),
        Content::resource(readme),
    ]
}

/// Fails with the given reason.
#[tool(read_only)]
pub(crate) async fn fail(
    /// The error text.
    reason: String,
) -> Result<(), ToolError> {
    Err(ToolError::new(reason))
}

/// Sleeps; to test cancellation and timeouts.
#[tool(read_only)]
pub(crate) async fn sleep(
    /// The duration.
    #[range(0.0..=3600.0)]
    seconds: f64,
) -> &'static str {
    tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
    "slept"
}

/// Adds or removes the tool `bonus`.
#[tool(idempotent)]
pub(crate) async fn set_bonus(
    /// True to add it.
    on: bool,
    ctx: Ctx,
) -> Result<&'static str, ToolError> {
    let registry = ctx.registry();
    registry.remove_tool("bonus");
    if !on {
        return Ok("off");
    }
    registry.add(
        Tool::new("bonus", async || "a bonus").description("Exists only while `set_bonus` is on."),
    )?;
    Ok("on")
}

/// Notifies subscribers that `demo://clock` was updated.
#[tool]
pub(crate) async fn touch(ctx: Ctx) -> &'static str {
    ctx.registry().resource_updated("demo://clock");
    "touched"
}

/// Simulates a voyage; runs as a task if the client supports tasks.
#[tool(read_only, task)]
pub(crate) async fn voyage(
    /// The duration; a day takes one second.
    #[range(0..=3600)]
    days: u32,
    ctx: Ctx,
) -> Result<String, ToolError> {
    for day in 1..=days {
        let message = format!("day {day} at sea");
        ctx.progress_message(day.into(), f64::from(days), message).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let port = match ctx.can(ClientCapability::Elicitation) {
        true => ctx.ask::<PortChoice>("course", "Land in sight. Which port?").await?.port,
        false => "Lisbon".to_owned(),
    };
    Ok(format!("reached {port}"))
}

/// Form of [`voyage`].
#[derive(Deserialize, JsonSchema)]
struct PortChoice {
    /// The port of destination.
    port: String,
}
