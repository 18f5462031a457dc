//! Tools of the attacked server.

use std::{sync::Arc, time::Duration};

use tokio::sync::watch;
use wharf::{Tool, prelude::*, tasks::TaskMode};

/// Counter of events that a test can wait for.
#[derive(Clone, Default)]
pub struct EventCounter(Arc<watch::Sender<u64>>);

impl EventCounter {
    pub fn add(&self) {
        self.0.send_modify(|count| *count += 1);
    }

    pub fn get(&self) -> u64 {
        *self.0.borrow()
    }

    /// Waits until the event has happened at least `times` times.
    pub async fn reaches(&self, times: u64) {
        let mut seen = self.0.subscribe();
        let reached = seen.wait_for(|count| *count >= times);
        let reached = tokio::time::timeout(crate::advisories::harness::PATIENCE, reached).await;
        assert!(reached.is_ok(), "{} of {times}", self.get());
    }
}

/// Counters of the handlers.
#[derive(Clone, Default)]
pub struct HandlerCounts {
    /// Started handlers, of those that can be cancelled.
    pub begun: EventCounter,
    /// Handlers among them that completed.
    pub finished: EventCounter,
    /// Handlers among them that ended, completed or not.
    pub ended: EventCounter,
    /// Gate: waiting handlers continue once this is above zero.
    pub gate: EventCounter,
}

impl HandlerCounts {
    fn begin(&self) -> EndGuard {
        self.begun.add();
        EndGuard(self.ended.clone())
    }
}

struct EndGuard(EventCounter);

impl Drop for EndGuard {
    fn drop(&mut self) {
        self.0.add();
    }
}

pub fn server(counts: &HandlerCounts) -> Server {
    Server::new("advisories", "1.0.0")
        .state(counts.clone())
        .tool::<echo>()
        .tool::<nap>()
        .tool::<whoami>()
        .tool::<own>()
        .tool::<wait>()
        .tool::<count>()
        .tool::<chatter>()
        .tool::<flood>()
        .tool::<after>()
        .tool::<repeat>()
        .tool::<crash>()
        .tool::<confirm>()
        .tool::<route>()
        .resource::<broken>()
        .prompt::<confused>()
}

/// Tool with optional tasks that waits at its own gate and returns the text `says`.
pub fn gated(name: &str, gate: &EventCounter, says: &'static str) -> Tool {
    let gate = gate.clone();
    let run = move || {
        let gate = gate.clone();
        async move {
            gate.reaches(1).await;
            says
        }
    };
    Tool::new(name, run).task(TaskMode::optional())
}

#[tool]
async fn echo(text: String) -> String {
    text
}

/// Waits, and sends the caller's nonce in its progress and its result.
#[tool]
async fn nap(milliseconds: u64, nonce: String, ctx: Ctx) -> String {
    ctx.progress_message(0.0, None, nonce.clone()).await;
    tokio::time::sleep(Duration::from_millis(milliseconds)).await;
    nonce
}

#[tool]
async fn whoami(caller: Option<Principal>) -> String {
    caller.map_or_else(|| "nobody".to_owned(), |caller| caller.id().to_owned())
}

/// Returns a text about the authenticated caller.
#[tool]
async fn own(caller: Principal) -> String {
    format!("what belongs to {}", caller.id())
}

/// Waits at the gate.
#[tool]
async fn wait(State(counts): State<HandlerCounts>, ctx: Ctx) -> &'static str {
    let _ended = counts.begin();
    ctx.progress(0.0).await;
    counts.gate.reaches(1).await;
    counts.finished.add();
    "through"
}

/// Reports each step.
#[tool]
async fn count(to: u32, State(counts): State<HandlerCounts>, ctx: Ctx) -> u32 {
    let _ended = counts.begin();
    for step in 1..=to {
        ctx.progress_of(step.into(), to.into()).await;
        tokio::task::yield_now().await;
    }
    counts.finished.add();
    to
}

/// Logs many lines.
#[tool]
async fn chatter(lines: u64, State(counts): State<HandlerCounts>, ctx: Ctx) -> u64 {
    let _ended = counts.begin();
    for line in 0..lines {
        ctx.info(format!("{line} {}", "x".repeat(1000))).await;
    }
    counts.finished.add();
    lines
}

/// Logs `lines` messages of `size` bytes.
#[tool]
async fn flood(lines: u64, size: usize, State(counts): State<HandlerCounts>, ctx: Ctx) -> u64 {
    let _ended = counts.begin();
    for _ in 0..lines {
        ctx.info("x".repeat(size)).await;
    }
    counts.finished.add();
    lines
}

/// Returns once this many handlers have ended.
#[tool]
async fn after(ended: u64, State(counts): State<HandlerCounts>) -> u64 {
    counts.ended.reaches(ended).await;
    counts.finished.get()
}

/// Sends the text as progress, as a log message and as the result.
#[tool]
async fn repeat(text: String, ctx: Ctx) -> String {
    ctx.progress_message(1.0, None, text.clone()).await;
    ctx.logger(text.clone()).warning([text.clone()]).await;
    text
}

#[tool]
async fn crash(late: bool, ctx: Ctx) {
    if late {
        ctx.progress(1.0).await;
        tokio::task::yield_now().await;
    }
    panic!("a secret of the server's");
}

#[derive(Deserialize, JsonSchema)]
struct Confirm {
    confirmed: bool,
}

#[tool]
async fn confirm(ctx: Ctx) -> Result<bool, ToolError> {
    Ok(ctx.ask::<Confirm>("confirm", "Really?").await?.confirmed)
}

/// Returns its parameter, which clients also send in a header.
#[tool]
async fn route(#[header("Region")] region: String) -> String {
    region
}

#[resource("test://broken")]
async fn broken() -> String {
    panic!("a secret of the server's");
}

#[prompt]
async fn confused() -> String {
    panic!("a secret of the server's");
}
