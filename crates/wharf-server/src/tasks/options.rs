//! What tasks a server makes, and what it spends on them.

use std::time::Duration;

use wharf_model::TaskSupport;

/// How long tasks are kept, how many there may be, and how they are run.
///
/// ```
/// # mod wharf { pub use {wharf_model::*, wharf_server::*}; }
/// use std::time::Duration;
/// use wharf::{Router, TaskOptions, Tool};
///
/// // Any call that takes longer than ten seconds goes on as a task, for clients that follow one.
/// let options = TaskOptions { threshold: Some(Duration::from_secs(10)), ..TaskOptions::default() };
/// let router = Router::builder().tasks(options).add(Tool::new("work", async || "done")).build()?;
/// # let _ = router;
/// # Ok::<(), wharf::BuildError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct TaskOptions {
    /// For how long after its creation a task is kept, if its caller does not say.
    pub ttl: Duration,
    /// For how long a task is kept at most, whatever its caller says. It may be less where the caller's
    /// tasks take much room: see [`bytes`](TaskOptions::bytes).
    pub longest_ttl: Duration,
    /// How long owners should wait between two looks at a task.
    pub poll_interval: Duration,
    /// After how long any call goes on as a task, if its caller follows tasks and the tool is not
    /// [forbidden](TaskMode::forbidden) to; `None` for never.
    pub threshold: Option<Duration>,
    /// Tasks of one owner that are kept; the next one is refused. Unauthenticated callers are counted
    /// by address, in 4096 groups of addresses.
    pub per_owner: usize,
    /// Bytes of all tasks that this process made and that are kept: their calls while they go on, their
    /// results from then on. One caller may have as much as is still free, and alone half of it;
    /// what goes beyond is refused as overloaded. A caller that has used most of its share up gets
    /// no longer `ttl` than the default.
    pub bytes: usize,
    /// Bytes of a call that becomes a task: its message, with arguments and metadata. A longer one is
    /// refused where it must be a task, and goes on as a plain call where it need not. What a call
    /// said is forgotten when its task has ended.
    pub arguments: usize,
    /// Tasks that this process works on at the same time; the others wait. One owner gets three
    /// quarters of these places at most, so that the tasks of others begin at once.
    pub running: usize,
    /// Calls that wait for the end of a task at the same time; three quarters of them for one caller at
    /// most.
    pub waiting: usize,
    /// Bytes of a result. A tool that returns more has failed.
    pub result: usize,
    /// Questions that one task may ask in its life.
    pub questions: usize,
    /// Bytes of one question, of one answer, and of the result of one step.
    pub item: usize,
    /// Steps that are kept of one task.
    pub steps: usize,
    /// How long a process that shows no life keeps its tasks to itself. It shows life three times
    /// as often.
    pub lease: Duration,
    /// How often somebody begins to work on a task before it has failed.
    pub attempts: u32,
    /// How long a task rests after its second attempt; twice as long after each one more.
    pub backoff: Duration,
    /// How long it rests at most.
    pub longest_backoff: Duration,
    /// How often progress is written down.
    pub progress_interval: Duration,
}

impl Default for TaskOptions {
    fn default() -> Self {
        TaskOptions {
            ttl: Duration::from_secs(3600),
            longest_ttl: Duration::from_secs(24 * 3600),
            poll_interval: Duration::from_secs(1),
            threshold: None,
            per_owner: 1000,
            bytes: 256 * 1024 * 1024,
            arguments: 256 * 1024,
            running: 256,
            waiting: 1024,
            result: 4 * 1024 * 1024,
            questions: 256,
            item: 256 * 1024,
            steps: 1000,
            lease: Duration::from_secs(30),
            attempts: 5,
            backoff: Duration::from_secs(1),
            longest_backoff: Duration::from_secs(60),
            progress_interval: Duration::from_secs(1),
        }
    }
}

impl TaskOptions {
    /// How long a task is kept whose caller wants `wanted` milliseconds.
    pub(crate) fn ttl(&self, wanted: Option<u64>) -> u64 {
        wanted.unwrap_or(millis(self.ttl)).clamp(1, millis(self.longest_ttl).max(1))
    }

    /// How long a task rests that has been begun so often. The first lapse took a lease already.
    pub(crate) fn retry_delay(&self, attempts: u32, jitter: f64) -> Duration {
        let Some(doublings) = attempts.checked_sub(2) else { return Duration::ZERO };
        let full = self.backoff.saturating_mul(2_u32.saturating_pow(doublings));
        full.min(self.longest_backoff).mul_f64(0.5 + jitter / 2.0)
    }
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Whether and when calls of a tool become tasks.
///
/// ```
/// # mod wharf { pub use {wharf_model::*, wharf_server::*}; }
/// use std::time::Duration;
/// use wharf::{TaskMode, Tool};
///
/// let render = Tool::new("render", async || "rendered").task(TaskMode::optional());
/// let report = Tool::new("report", async || "report")
///     .task(TaskMode::required().after(Duration::from_secs(5)));
/// # let _ = (render, report);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct TaskMode {
    pub(crate) support: TaskSupport,
    pub(crate) start: TaskStart,
}

/// When a call becomes a task, if the server decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskStart {
    AtOnce,
    After(Duration),
    OnDetach,
}

impl TaskMode {
    /// A task for callers that follow tasks, and a plain call for all others.
    #[must_use]
    pub fn optional() -> Self {
        TaskMode { support: TaskSupport::Optional, start: TaskStart::AtOnce }
    }

    /// Only ever a task. Callers that could follow tasks and do not are refused; those whose
    /// protocol has none wait for the result.
    #[must_use]
    pub fn required() -> Self {
        TaskMode { support: TaskSupport::Required, ..TaskMode::optional() }
    }

    /// Never a task, however long it takes.
    #[must_use]
    pub fn forbidden() -> Self {
        TaskMode { support: TaskSupport::Forbidden, ..TaskMode::optional() }
    }

    /// A task only once the call has lasted so long: a shorter one ends as any other call. Where
    /// the caller says that it wants a task, it is one at once.
    #[must_use]
    pub fn after(mut self, delay: Duration) -> Self {
        self.start = TaskStart::After(delay);
        self
    }

    /// A task only from where the handler calls [`Ctx::detach`](crate::Ctx::detach). Where the
    /// caller says that it wants a task, it is one at once.
    #[must_use]
    pub fn on_detach(mut self) -> Self {
        self.start = TaskStart::OnDetach;
        self
    }
}
