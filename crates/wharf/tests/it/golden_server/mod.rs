//! Server of the golden transcripts: every kind of feature, with deterministic output.

use std::time::Duration;

use wharf::prelude::*;

/// The weather somewhere.
#[derive(Serialize, JsonSchema)]
struct Weather {
    /// Where.
    city: String,
    celsius: f64,
}

/// Adds two numbers.
#[tool(read_only, idempotent, title = "Adder", icon = "https://example.com/add.png")]
async fn add(
    /// The first number.
    a: i64,
    /// The second number.
    b: i64,
) -> i64 {
    a + b
}

/// Tells the weather.
#[tool(open_world)]
async fn weather(#[header("City")] city: String) -> Json<Weather> {
    Json(Weather { city, celsius: 21.5 })
}

/// Lists some primes: structured content that is no object.
#[tool(cheap)]
fn primes() -> Json<Vec<u32>> {
    Json(vec![2, 3, 5])
}

/// Shows every type of content.
#[tool]
async fn gallery() -> Vec<Content> {
    vec![
        Content::text("a picture:").audience(Role::User).priority(0.5),
        Content::image(b"png", "image/png"),
        Content::audio(b"wav", "audio/wav"),
        Content::link("test://readme", "readme"),
        Content::resource(ResourceContents::text("test://note", "a note")),
    ]
}

/// Counts, telling how far it is.
#[tool]
async fn count(to: u32, ctx: Ctx) -> String {
    for step in 1..=to {
        ctx.info(serde_json::json!({ "step": step })).await;
        ctx.progress_of(f64::from(step), f64::from(to)).await;
    }
    "counted".into()
}

/// Fails.
#[tool]
async fn fail(reason: String) -> Result<(), ToolError> {
    Err(ToolError::new(reason))
}

/// Panics.
#[tool]
async fn crash() -> String {
    panic!("nobody hears this")
}

/// Never ends by itself.
#[tool(timeout = "1h")]
async fn hang() {
    std::future::pending::<()>().await;
}

/// Waits a little; the virtual clock makes it instant.
#[tool]
async fn nap() -> String {
    tokio::time::sleep(Duration::from_micros(100)).await;
    "rested".into()
}

/// A size, with titles.
#[derive(Serialize, Deserialize, JsonSchema)]
enum Size {
    /// Small
    S,
    /// Large
    L,
}

/// What the order form asks.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Order {
    /// Your name.
    name: String,
    size: Size,
    #[serde(default = "one")]
    count: u32,
}

fn one() -> u32 {
    1
}

/// Takes an order by a form, with an effect that must not be repeated.
#[tool]
async fn order(ctx: Ctx) -> Result<String, ToolError> {
    let number: u32 = ctx.step("number", async { 7 }).await;
    let order: Order = ctx.ask("order", "What will it be?").await?;
    let size = match order.size {
        Size::S => "small",
        Size::L => "large",
    };
    Ok(format!("#{number}: {} {size} for {}", order.count, order.name))
}

/// Asks the client's model.
#[tool]
async fn poem(topic: String, ctx: Ctx) -> Result<String, ToolError> {
    let request = SamplingRequest::new(100).user(format!("A line about {topic}."));
    Ok(ctx.sample("poem", request).await?.text())
}

/// Sends the user to a page.
#[tool]
async fn visit(ctx: Ctx) -> Result<&'static str, ToolError> {
    ctx.ask_url("visit", "Please sign in.", "https://example.com/in").await?;
    Ok("welcome")
}

/// Asks two things at once.
#[tool]
async fn both(ctx: Ctx) -> Result<String, ToolError> {
    let first = ctx.roots("roots");
    let second = ctx.ask::<Order>("order", "And?");
    let (roots, order) = tokio::join!(first, second);
    Ok(format!("{} roots, {}", roots?.len(), order?.name))
}

/// Says that the readme changed.
#[tool]
async fn touch(ctx: Ctx) {
    ctx.registry().resource_updated("test://readme");
}

/// Adds a tool at run time.
#[tool]
async fn grow(ctx: Ctx) -> Result<(), ToolError> {
    let extra = Tool::inline("extra", || "extra").description("One more.");
    ctx.registry().add(extra).map_err(|error| ToolError::new(error.to_string()))
}

/// What to read first.
#[resource("test://readme", mime = "text/markdown", title = "Read me", size = 8)]
async fn readme() -> String {
    "# Hello\n".into()
}

/// Three bytes.
#[resource("test://bytes", cheap)]
fn bytes() -> Vec<u8> {
    vec![1, 2, 3]
}

/// A user's file.
#[resource("test://users/{user}/{+path}")]
async fn file(#[complete("ann", "ben")] user: String, path: String) -> String {
    format!("{user}: {path}")
}

/// Greets.
#[prompt(title = "Greeting")]
async fn greet(
    /// Whom to greet.
    #[complete("ann", "anton", "ben")]
    name: String,
    mood: Option<String>,
) -> String {
    format!("Greet {name}, {}.", mood.as_deref().unwrap_or("gladly"))
}

/// Every role.
#[prompt(cheap)]
fn talk() -> Vec<PromptMessage> {
    vec![
        PromptMessage::user("Hi."),
        PromptMessage::assistant(Content::audio(b"wav", "audio/wav")),
        PromptMessage::user(Content::link("test://readme", "readme")),
    ]
}

/// Builds the server.
pub(crate) fn server() -> Server {
    Server::new("golden", "1.0.0")
        .title("Golden")
        .description("For transcripts.")
        .instructions("Ask away.")
        .tool::<add>()
        .tool::<weather>()
        .tool::<primes>()
        .tool::<gallery>()
        .tool::<count>()
        .tool::<fail>()
        .tool::<crash>()
        .tool::<hang>()
        .tool::<nap>()
        .tool::<order>()
        .tool::<poem>()
        .tool::<visit>()
        .tool::<both>()
        .tool::<touch>()
        .tool::<grow>()
        .resource::<readme>()
        .resource::<bytes>()
        .resource::<file>()
        .prompt::<greet>()
        .prompt::<talk>()
}
