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

/// Says what it is told.
#[tool(read_only)]
pub(crate) async fn echo(
    /// What to say.
    text: String,
) -> String {
    text
}

/// Tells the weather, which is always fine here.
#[tool(read_only)]
pub(crate) async fn weather(
    /// Where.
    city: String,
) -> Json<Weather> {
    Json(Weather { city, celsius: 21.5, sky: "clear" })
}

/// How the weather is somewhere.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Weather {
    city: String,
    celsius: f64,
    sky: &'static str,
}

/// Tells the weather of the next two days: a list, not an object.
#[tool(read_only)]
pub(crate) async fn forecast(
    /// Where.
    city: String,
) -> Json<Vec<Weather>> {
    let day = |celsius| Weather { city: city.clone(), celsius, sky: "clear" };
    Json(vec![day(22.0), day(22.5)])
}

/// Counts down, with progress and a log message at each step.
#[tool(read_only)]
pub(crate) async fn countdown(
    /// Where to start.
    #[range(0..=1000)]
    from: u32,
    ctx: Ctx,
) -> &'static str {
    let log = ctx.logger("countdown");
    for step in 1..=from {
        tokio::time::sleep(Duration::from_millis(20)).await;
        ctx.progress_of(step.into(), from.into()).await;
        log.info(Left { left: from - step }).await;
    }
    "lift-off"
}

/// Data of each log message of [`countdown`].
#[derive(Serialize)]
struct Left {
    left: u32,
}

/// Deploys a build, after the user agrees.
#[tool(destructive)]
pub(crate) async fn deploy(
    /// Which build.
    build: String,
    ctx: Ctx,
) -> Result<String, ToolError> {
    let answer: Confirm = ctx.ask("confirm", format!("Deploy {build}?")).await?;
    Ok(if answer.confirmed { format!("deployed {build}") } else { "kept".to_owned() })
}

/// What [`deploy`] asks.
#[derive(Deserialize, JsonSchema)]
struct Confirm {
    /// Whether to go ahead.
    confirmed: bool,
}

/// Lets the client's model write a line of poetry.
#[tool]
pub(crate) async fn poem(
    /// What about.
    topic: String,
    ctx: Ctx,
) -> Result<String, ToolError> {
    let line = SamplingMessage::user(format!("Write one line about {topic}."));
    Ok(ctx.sample("poem", SamplingRequest::new(100).message(line)).await?.text())
}

/// Sends the user to a web page.
#[tool]
pub(crate) async fn sign_in(ctx: Ctx) -> Result<&'static str, ToolError> {
    ctx.ask_url("sign_in", "Sign in to continue.", "https://example.com/sign-in").await?;
    Ok("signed in")
}

/// Lists the directories the client works in.
#[tool(read_only)]
pub(crate) async fn workspace(ctx: Ctx) -> Result<String, ToolError> {
    let uris: Vec<String> = ctx.roots("roots").await?.into_iter().map(|root| root.uri).collect();
    Ok(uris.join("\n"))
}

/// Shows one content of each kind.
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

/// Fails, and says why.
#[tool(read_only)]
pub(crate) async fn fail(
    /// Why.
    reason: String,
) -> Result<(), ToolError> {
    Err(ToolError::new(reason))
}

/// Takes its time; cancel it.
#[tool(read_only)]
pub(crate) async fn sleep(
    /// How long.
    #[range(0.0..=3600.0)]
    seconds: f64,
) -> &'static str {
    tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
    "slept"
}

/// Adds the tool `bonus`, or takes it away.
#[tool(idempotent)]
pub(crate) async fn set_bonus(
    /// Whether there should be one.
    on: bool,
    ctx: Ctx,
) -> Result<&'static str, ToolError> {
    let registry = ctx.registry();
    registry.remove_tool("bonus");
    if !on {
        return Ok("off");
    }
    registry
        .add(Tool::new("bonus", async || "a bonus").description("Here only while it is on."))?;
    Ok("on")
}

/// Says that `demo://clock` is another now.
#[tool]
pub(crate) async fn touch(ctx: Ctx) -> &'static str {
    ctx.registry().resource_updated("demo://clock");
    "touched"
}

/// Sails for some days, as a task where clients follow tasks.
#[tool(read_only, task)]
pub(crate) async fn voyage(
    /// How long it takes; a day is a second here.
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
        true => ctx.ask::<Course>("course", "Land in sight. Which port?").await?.port,
        false => "Lisbon".to_owned(),
    };
    Ok(format!("reached {port}"))
}

/// What [`voyage`] asks at sea.
#[derive(Deserialize, JsonSchema)]
struct Course {
    /// Where to go.
    port: String,
}
