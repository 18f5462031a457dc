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

    /// Waits until it has happened `times` times, or more.
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
    /// Handlers that began, of those that can be cut off.
    pub begun: EventCounter,
    /// Those of them that ran to their end.
    pub finished: EventCounter,
    /// Those of them that ended, however.
    pub ended: EventCounter,
    /// Once this is above zero, the handlers that wait go on.
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

/// A tool that may be a task, waits at a gate of its own, and says this in the end.
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

/// Waits, and says on the way and at the end what only this caller sent.
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

/// For callers that are known.
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

/// Says a great deal.
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

/// Says the same in every way there is.
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

/// One of its parameters is mirrored in a header.
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
