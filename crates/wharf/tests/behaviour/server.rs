//! The server under test.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use wharf::{
    http::{Http, HttpLimits},
    prelude::*,
    server::{CallLimits, Limits, LineLimits, MessageLimits},
};

use crate::harness::PATIENCE;

/// Maximum length of a message, in bytes.
pub const LONGEST: usize = 1 << 20;

/// Counters of the handlers.
#[derive(Clone, Default)]
struct Counts {
    /// Calls of `forever` that were dropped.
    dropped: Arc<AtomicU64>,
    /// Messages that `chatter` has sent.
    said: Arc<AtomicU64>,
    /// Number of runs of the effect in `effect`.
    effects: Arc<AtomicU64>,
}

pub fn server() -> Server {
    let limits = Limits::default()
        .calls(CallLimits::default().idle(Duration::from_secs(20)))
        .messages(MessageLimits::default().message(LONGEST))
        // Long graceful shutdown timeouts: a call in flight completes.
        .lines(LineLimits::default().grace(PATIENCE))
        .http(HttpLimits::default().grace(PATIENCE).write(PATIENCE));
    let server = Server::new("behaviour", "1.0.0");
    #[cfg(feature = "skills")]
    let server = server.skills(wharf::skills::include_skills!("tests/skills"));
    server
        .title("The server under test")
        .instructions("Try everything.")
        .state(Counts::default())
        .limits(limits)
        .http(Http::new().sse_2024())
        .tool::<add>()
        .tool::<echo>()
        .tool::<weather>()
        .tool::<gallery>()
        .tool::<fail>()
        .tool::<crash>()
        .tool::<hash>()
        .tool::<count>()
        .tool::<confirm>()
        .tool::<both>()
        .tool::<effect>()
        .tool::<poem>()
        .tool::<sign_in>()
        .tool::<workspace>()
        .tool::<nap>()
        .tool::<forever>()
        .tool::<chatter>()
        .tool::<counts>()
        .tool::<shout>()
        .tool::<set_bonus>()
        .tool::<touch>()
        .resource::<readme>()
        .resource::<logo>()
        .resource::<secret>()
        .resource::<note>()
        .resource::<file>()
        .prompt::<greet>()
        .prompt::<review>()
        .prompt::<interview>()
        .method("acme/report", report)
        .method("acme/erase", erase)
        .method("acme/list", async || Json([1, 2]))
}

#[derive(Deserialize, JsonSchema)]
struct Period {
    year: u32,
}

/// Result with a short cache lifetime and with metadata.
async fn report(Args(Period { year }): Args<Period>, ctx: Ctx) -> Json<Value> {
    ctx.progress(1.0).await;
    let total = year * 2;
    Json(
        json!({"total": total, "ttlMs": 5000, "cacheScope": "private", "_meta": {"source": "books"}}),
    )
}

async fn erase(Args(it): Args<Period>, ctx: Ctx) -> Result<Json<Value>, ToolError> {
    let Confirm { confirmed } = ctx.ask("sure", format!("Erase {}?", it.year)).await?;
    Ok(Json(json!({"erased": confirmed.then_some(it.year)})))
}

/// Adds two numbers.
#[tool(read_only)]
async fn add(a: i64, b: i64) -> i64 {
    a + b
}

#[tool]
async fn echo(text: String) -> String {
    text
}

#[derive(Serialize, JsonSchema)]
struct Weather {
    city: String,
    celsius: f64,
}

#[tool]
async fn weather(city: String) -> Json<Weather> {
    Json(Weather { city, celsius: 21.5 })
}

#[tool]
async fn gallery() -> [Content; 5] {
    [
        Content::text("text"),
        Content::image(b"image", "image/png"),
        Content::audio(b"audio", "audio/wav"),
        Content::link("test://readme", "readme"),
        Content::resource(ResourceContents::text("test://readme", "Read me.")),
    ]
}

#[tool]
async fn fail(reason: String) -> Result<(), ToolError> {
    Err(ToolError::new(reason))
}

#[tool]
async fn crash() {
    panic!("a secret of the server's");
}

/// Returns from a plain function, which may block.
#[tool]
fn hash(text: String) -> u64 {
    std::thread::sleep(Duration::from_millis(1));
    text.bytes().fold(7, |hash, byte| hash * 31 % 1_000_003 + u64::from(byte))
}

/// Reports progress and logs at each step.
#[tool]
async fn count(to: u32, ctx: Ctx) -> u32 {
    let log = ctx.logger("count");
    for step in 1..=to {
        ctx.progress_of(step.into(), to.into()).await;
        log.debug("noise").await;
        log.warning(BTreeMap::from([("step", step)])).await;
        tokio::task::yield_now().await;
    }
    to
}

#[derive(Deserialize, JsonSchema)]
struct Confirm {
    confirmed: bool,
}

#[tool]
async fn confirm(what: String, ctx: Ctx) -> Result<String, ToolError> {
    Ok(match ctx.ask::<Confirm>("confirm", format!("Really {what}?")).await {
        Ok(Confirm { confirmed }) => format!("confirmed: {confirmed}"),
        Err(ClientRequestError::Declined) => "declined".to_owned(),
        Err(ClientRequestError::Cancelled) => "cancelled".to_owned(),
        Err(other) => return Err(other.into()),
    })
}

/// Sends two client requests concurrently.
#[tool]
async fn both(ctx: Ctx) -> Result<String, ToolError> {
    let (yes, roots) =
        tokio::try_join!(ctx.ask::<Confirm>("confirm", "Both?"), ctx.roots("roots"))?;
    Ok(format!("{} {}", yes.confirmed, roots.len()))
}

/// Runs an effect once, then sends two client requests.
#[tool]
async fn effect(State(counts): State<Counts>, ctx: Ctx) -> Result<u64, ToolError> {
    let effects = counts.effects.clone();
    let count = ctx.step("effect", async { effects.fetch_add(1, Ordering::SeqCst) + 1 }).await;
    ctx.ask::<Confirm>("first", "First?").await?;
    ctx.ask::<Confirm>("second", "Second?").await?;
    Ok(count)
}

#[tool]
async fn poem(topic: String, ctx: Ctx) -> Result<String, ToolError> {
    let line = SamplingMessage::user(format!("Write one line about {topic}."));
    Ok(ctx.sample("poem", SamplingRequest::new(100).message(line)).await?.text())
}

#[tool]
async fn sign_in(ctx: Ctx) -> Result<&'static str, ToolError> {
    ctx.ask_url("sign_in", "Sign in.", "https://example.com/sign-in").await?;
    Ok("signed in")
}

#[tool]
async fn workspace(ctx: Ctx) -> Result<String, ToolError> {
    let roots = ctx.roots("roots").await?;
    Ok(roots.into_iter().map(|root| root.uri).collect::<Vec<_>>().join(" "))
}

/// Waits, then returns the caller's nonce.
#[tool]
async fn nap(milliseconds: u64, nonce: String, ctx: Ctx) -> String {
    ctx.progress(0.0).await;
    tokio::time::sleep(Duration::from_millis(milliseconds)).await;
    nonce
}

/// Never returns; counts when it is dropped.
#[tool]
async fn forever(State(counts): State<Counts>, ctx: Ctx) {
    struct Dropped(Arc<AtomicU64>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let _dropped = Dropped(counts.dropped);
    ctx.progress(1.0).await;
    std::future::pending().await
}

/// Logs many lines.
#[tool]
async fn chatter(lines: u64, State(counts): State<Counts>, ctx: Ctx) -> u64 {
    for line in 0..lines {
        ctx.info(format!("{line} {}", "x".repeat(1000))).await;
        counts.said.fetch_add(1, Ordering::SeqCst);
    }
    lines
}

/// Returns the counters.
#[tool]
async fn counts(State(counts): State<Counts>) -> Json<BTreeMap<&'static str, u64>> {
    let read = |count: &AtomicU64| count.load(Ordering::SeqCst);
    Json(BTreeMap::from([
        ("dropped", read(&counts.dropped)),
        ("said", read(&counts.said)),
        ("effects", read(&counts.effects)),
    ]))
}

/// Prints to stdout, which only messages may use.
#[tool]
#[expect(clippy::print_stdout, reason = "the test is that it does no harm")]
async fn shout() -> &'static str {
    println!("this is not a message");
    print!("nor is {{this");
    "shouted"
}

#[tool]
async fn set_bonus(on: bool, ctx: Ctx) -> Result<bool, ToolError> {
    if on {
        ctx.registry().add(Tool::new("bonus", async || "bonus"))?;
    } else {
        ctx.registry().remove_tool("bonus");
    }
    Ok(on)
}

#[tool]
async fn touch(uri: String, ctx: Ctx) -> &'static str {
    ctx.registry().resource_updated(uri);
    "touched"
}

#[resource("test://readme", mime = "text/markdown")]
async fn readme() -> &'static str {
    "Read me."
}

#[resource("test://logo", mime = "image/png")]
async fn logo() -> Vec<u8> {
    b"logo".to_vec()
}

/// A resource that elicits a confirmation before it is read.
#[resource("test://secret")]
async fn secret(ctx: Ctx) -> Result<String, ClientRequestError> {
    let Confirm { confirmed } = ctx.ask("confirm", "Read the secret?").await?;
    Ok(format!("secret: {confirmed}"))
}

#[resource("test://notes/{name}")]
async fn note(#[complete("shopping", "standup", "story")] name: String) -> String {
    format!("Note {name}")
}

#[resource("test://files/{+path}")]
async fn file(path: String) -> String {
    format!("File {path}")
}

#[prompt]
async fn greet(name: String) -> String {
    format!("Say hello to {name}.")
}

#[prompt]
async fn review(
    code: String,
    #[complete("python", "pascal", "perl", "rust")] language: Option<String>,
) -> PromptMessage {
    PromptMessage::user(format!("Review {code} in {}.", language.as_deref().unwrap_or("?")))
}

/// A prompt that elicits its context.
#[prompt]
async fn interview(ctx: Ctx) -> Result<String, ClientRequestError> {
    let Confirm { confirmed } = ctx.ask("confirm", "Ready?").await?;
    Ok(format!("ready: {confirmed}"))
}
