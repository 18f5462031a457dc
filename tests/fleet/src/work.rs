//! The tools of the tests: they write down what they do.

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
    history::{TaskEvent, WorkResult},
    random::SeededRandom,
};

/// Where tools write down what they do, before it counts as done.
pub trait EffectJournal: Send + Sync + 'static {
    /// Something happened to a task.
    fn write(&self, task: &str, event: TaskEvent);
}

/// What tools share: where they write, and who they are.
#[derive(Clone)]
pub struct ToolState {
    journal: Arc<dyn EffectJournal>,
    by: Arc<str>,
    made: Arc<AtomicU64>,
}

impl ToolState {
    /// A desk of the process called `by`, whose name no other process has or had.
    #[must_use]
    pub fn new(journal: Arc<dyn EffectJournal>, by: &str) -> Self {
        ToolState { journal, by: by.into(), made: Arc::default() }
    }

    /// A value that nobody else makes.
    fn make(&self) -> String {
        format!("{}.{}", self.by, self.made.fetch_add(1, Ordering::Relaxed))
    }

    fn write(&self, task: &str, event: TaskEvent) {
        self.journal.write(task, event);
    }
}

/// What the owner of a task says when it is asked.
#[derive(Debug, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct GoOnReply {
    /// Anything.
    pub word: String,
}

/// What a task asks.
pub const GO_ON: &str = "Go on?";

/// What there is to do.
#[derive(Debug, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct WorkArgs {
    /// Names the task.
    pub key: String,
    /// How many steps.
    pub steps: u32,
    /// How long each takes, in milliseconds.
    pub pause: u64,
    /// Whether to ask.
    pub ask: bool,
}

/// The tool that works in steps: a task for all who follow one.
pub fn worker() -> Tool {
    Tool::new("work", work).task(TaskMode::optional())
}

/// Works in steps, and asks in the middle if told to.
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

/// Something that must not happen again once it is known to have happened. Some runs take much
/// longer than others: what a slow one does late must not follow what a fast one did.
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

/// Counts to `to`, one log message a number.
#[tool]
pub async fn count(
    /// The last number.
    to: u32,
    /// How long each takes, in milliseconds.
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

/// Says who is calling.
#[tool(read_only)]
pub async fn whoami(caller: Principal) -> String {
    caller.id().to_owned()
}

/// The question of this number, in a call of this key.
#[must_use]
pub fn question(key: &str, number: u32) -> String {
    format!("{key} {number}?")
}

/// What `who` says to a question.
#[must_use]
pub fn reply_to(who: &str, question: &str) -> String {
    format!("{who} to {question}")
}

/// What comes of an interview.
#[must_use]
pub fn minutes(who: &str, key: &str, questions: u32) -> String {
    let said = (0..questions).map(|number| reply_to(who, &question(key, number)));
    format!("{who}: {}", said.collect::<Vec<_>>().join(", "))
}

/// Asks one question after the other.
#[tool]
pub async fn interview(
    /// Names the call.
    key: String,
    /// How many.
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

/// Does something again and again, until it is told to stop.
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

/// The name of the list of tools, among things that change.
pub const TOOLS: &str = "tools";
/// How often `linger` does something.
const LINGER: u32 = 80;

/// Changes something, and says which process did.
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

/// Who listens for changes, of two notes each.
pub const LISTENERS: [&str; 4] = ["judy", "kate", "liam", "peggy"];

/// A resource of somebody's, which nobody else may see.
#[must_use]
pub fn note(who: &str, number: usize) -> String {
    format!("note://{who}/{number}")
}

/// Whether `who` may know of something.
#[must_use]
pub fn may_see(who: &str, what: &str) -> bool {
    let owner = what.strip_prefix("note://").and_then(|rest| rest.split('/').next());
    what == TOOLS || owner == Some(who)
}
