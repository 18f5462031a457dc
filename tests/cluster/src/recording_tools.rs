//! Tools of the tests, which record their effects.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use wharf::prelude::*;
use wharf_server::{Args, ClientRequestError, TaskMode, Tool};

use crate::{
    random::SeededRandom,
    task_history::{TaskEvent, WorkResult},
};

/// Journal that tools write before an effect counts as done.
pub trait EffectJournal: Send + Sync + 'static {
    /// Records an event of a task.
    fn write(&self, task: &str, event: TaskEvent);
}

/// Shared state of the tools: the journal, and the name of the process.
#[derive(Clone)]
pub struct ToolState {
    journal: Arc<dyn EffectJournal>,
    by: Arc<str>,
    made: Arc<AtomicU64>,
}

impl ToolState {
    /// State of the process called `by`, a name that is never reused.
    #[must_use]
    pub fn new(journal: Arc<dyn EffectJournal>, by: &str) -> Self {
        ToolState { journal, by: by.into(), made: Arc::default() }
    }

    /// Makes a unique value.
    fn make(&self) -> String {
        format!("{}.{}", self.by, self.made.fetch_add(1, Ordering::Relaxed))
    }

    fn write(&self, task: &str, event: TaskEvent) {
        self.journal.write(task, event);
    }
}

/// Response of the owner of a task to its client request.
#[derive(Debug, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct GoOnReply {
    /// Any word.
    pub word: String,
}

/// Message of the client request.
pub const GO_ON: &str = "Go on?";

/// Arguments of the tool `work`.
#[derive(Debug, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct WorkArgs {
    /// Names the task.
    pub key: String,
    /// Number of steps.
    pub steps: u32,
    /// Duration of each step, in milliseconds.
    pub pause: u64,
    /// True to send a client request.
    pub ask: bool,
}

/// The tool that works in steps, with optional tasks.
pub fn worker() -> Tool {
    Tool::new("work", work).task(TaskMode::optional())
}

/// Works in steps, and sends a client request in the middle if requested.
async fn work(
    Args(WorkArgs { key, steps, pause, ask }): Args<WorkArgs>,
    State(tool_state): State<ToolState>,
    ctx: Ctx,
) -> Result<Json<WorkResult>, ClientRequestError> {
    let by = tool_state.by.to_string();
    let owner = ctx.principal().map(|it| it.id().to_owned());
    let mut done = WorkResult { owner, steps: vec![], answer: None };
    for number in 0..steps {
        let step = format!("step-{number}");
        let value = ctx.step(step.clone(), effect(&tool_state, &key, &step, pause)).await;
        tool_state.write(&key, TaskEvent::Kept { step, value: value.clone(), by: by.clone() });
        done.steps.push(value);
        if ask && number == steps / 2 {
            let go: GoOnReply = ctx.ask("go", GO_ON).await?;
            tool_state.write(&key, TaskEvent::Heard { answer: go.word.clone(), by: by.clone() });
            done.answer = Some(go.word);
        }
    }
    Ok(Json(done))
}

/// An effect that must not run again once it is stored. Some runs take much longer than others: a
/// late effect of a slow run must not follow that of a fast one.
async fn effect(tool_state: &ToolState, key: &str, step: &str, pause: u64) -> String {
    let mut random = SeededRandom::of(0, &format!("{}{key}{step}", tool_state.by));
    let times = if random.percent(35) { 5 + random.below(20) } else { 1 };
    let half = Duration::from_millis(pause / 2 * times as u64);
    tokio::time::sleep(half).await;
    let value = tool_state.make();
    let (by, step) = (tool_state.by.to_string(), step.to_owned());
    tool_state.write(key, TaskEvent::Ran { step, value: value.clone(), by });
    tokio::time::sleep(half).await;
    value
}

/// Counts to `to`, one log message per number.
#[tool]
pub async fn count(
    /// The last number.
    to: u32,
    /// Duration of each number, in milliseconds.
    pause: u64,
    ctx: Ctx,
) -> String {
    let me = ctx.principal().map(|it| it.id().to_owned()).unwrap_or_default();
    for number in 1..=to {
        tokio::time::sleep(Duration::from_millis(pause)).await;
        ctx.info(format!("{me} {number}")).await;
    }
    format!("{me} {to}")
}

/// Returns the name of the caller.
#[tool(read_only)]
pub async fn whoami(caller: Principal) -> String {
    caller.id().to_owned()
}

/// The request of this number, in a call of this key.
#[must_use]
pub fn question(key: &str, number: u32) -> String {
    format!("{key} {number}?")
}

/// Response of `who` to a request.
#[must_use]
pub fn reply_to(who: &str, question: &str) -> String {
    format!("{who} to {question}")
}

/// Result of an interview.
#[must_use]
pub fn minutes(who: &str, key: &str, questions: u32) -> String {
    let said = (0..questions).map(|number| reply_to(who, &question(key, number)));
    format!("{who}: {}", said.collect::<Vec<_>>().join(", "))
}

/// Sends client requests one after the other.
#[tool]
pub async fn interview(
    /// Names the call.
    key: String,
    /// Number of requests.
    questions: u32,
    ctx: Ctx,
) -> Result<String, ClientRequestError> {
    let me = ctx.principal().map(|it| it.id().to_owned()).unwrap_or_default();
    let mut said = vec![];
    for number in 0..questions {
        let go: GoOnReply = ctx.ask(format!("q{number}"), question(&key, number)).await?;
        said.push(go.word);
    }
    Ok(format!("{me}: {}", said.join(", ")))
}

/// Repeats an effect until it is cancelled.
#[tool]
pub async fn linger(
    /// Names the call.
    key: String,
    State(tool_state): State<ToolState>,
    ctx: Ctx,
) -> String {
    for number in 0..LINGER {
        let (step, value, by) =
            (format!("turn-{number}"), tool_state.make(), tool_state.by.to_string());
        tool_state.write(&key, TaskEvent::Ran { step, value, by });
        ctx.info(number).await;
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    "nobody stopped it".into()
}

/// Name of the list of tools among the changeable items.
pub const TOOLS: &str = "tools";
/// Number of effects of `linger`.
const LINGER: u32 = 80;

/// Makes a change, and returns the name of the process.
#[tool]
pub async fn touch(
    /// A resource, or the list of tools.
    what: String,
    State(tool_state): State<ToolState>,
    ctx: Ctx,
) -> String {
    match &*what {
        TOOLS => ctx.registry().tools_changed(),
        uri => ctx.registry().resource_updated(uri),
    }
    tool_state.by.to_string()
}

/// Subscribers to changes, with two notes each.
pub const LISTENERS: [&str; 4] = ["judy", "kate", "liam", "peggy"];

/// A private resource of one caller.
#[must_use]
pub fn note(who: &str, number: usize) -> String {
    format!("note://{who}/{number}")
}

/// Returns whether `who` may access an item.
#[must_use]
pub fn may_see(who: &str, what: &str) -> bool {
    let owner = what.strip_prefix("note://").and_then(|rest| rest.split('/').next());
    what == TOOLS || owner == Some(who)
}
