//! Options of tasks: limits, lifetimes and the task mode of a tool.

use std::time::Duration;

use wharf_model::{TaskSupport, setters};

/// Lifetime, limits and execution of tasks.
///
/// ```
/// # mod wharf { pub use {wharf_model::*, wharf_server::*}; pub mod server { pub use super::*; } pub mod tasks { pub use super::*; } }
/// use std::time::Duration;
/// use wharf::{Tool, server::Router, tasks::TaskOptions};
///
/// // Any call that takes longer than ten seconds goes on as a task, for clients that follow one.
/// let options = TaskOptions::default().threshold(Duration::from_secs(10));
/// let router = Router::builder().tasks(options).add(Tool::new("work", async || "done")).build()?;
/// # let _ = router;
/// # Ok::<(), wharf::server::BuildError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TaskOptions {
    /// Lifetime of a task after its creation, if the caller requests none.
    pub ttl: Duration,
    /// Maximum lifetime of a task. It may be shorter if the caller's tasks take much room: see
    /// [`bytes`](TaskOptions::bytes).
    pub longest_ttl: Duration,
    /// Suggested interval between two polls of a task.
    pub poll_interval: Duration,
    /// Time after which any call continues as a task, if its caller supports tasks and the tool
    /// does not [forbid](TaskMode::forbidden) them; `None` for never.
    pub threshold: Option<Duration>,
    /// Maximum number of stored tasks of one owner; further ones are rejected. Unauthenticated
    /// callers are counted by address, in 4096 groups of addresses.
    pub per_owner: usize,
    /// Bytes of all stored tasks that this process created: of their calls while they run, of their
    /// results afterwards. One caller may use as much as is still free, and alone half of it; calls
    /// beyond that are rejected as overloaded. A caller that has used most of its share gets no
    /// longer `ttl` than the default.
    pub bytes: usize,
    /// Maximum bytes of a call that becomes a task: its message, with arguments and metadata. A
    /// longer call is rejected if it must be a task, and otherwise runs as a plain call. The stored
    /// call is deleted when its task has ended.
    pub arguments: usize,
    /// Tasks that this process runs at the same time; the others are queued. One owner gets at most
    /// three quarters of these places, so that the tasks of others start at once.
    pub running: usize,
    /// Calls that wait for the end of a task at the same time; at most three quarters of them for
    /// one caller.
    pub waiting: usize,
    /// Maximum bytes of a result. A larger result is an error of the tool.
    pub result: usize,
    /// Maximum number of client requests of one task.
    pub client_requests: usize,
    /// Maximum bytes of one client request, of one response, and of the result of one step.
    pub item: usize,
    /// Maximum number of stored steps of one task.
    pub steps: usize,
    /// Lease: time after which the tasks of a process without heartbeats can be claimed by another.
    /// The heartbeat interval is a third of it.
    pub lease: Duration,
    /// Maximum number of attempts to run a task before it fails.
    pub attempts: u32,
    /// Backoff after the second attempt; it doubles with each further attempt.
    pub backoff: Duration,
    /// Maximum backoff.
    pub longest_backoff: Duration,
    /// Minimum interval between two stored progress updates.
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
            client_requests: 256,
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

setters!(TaskOptions {
    ttl: Duration,
    longest_ttl: Duration,
    poll_interval: Duration,
    threshold: impl Into<Option<Duration>>,
    per_owner: usize,
    bytes: usize,
    arguments: usize,
    running: usize,
    waiting: usize,
    result: usize,
    client_requests: usize,
    item: usize,
    steps: usize,
    lease: Duration,
    attempts: u32,
    backoff: Duration,
    longest_backoff: Duration,
    progress_interval: Duration,
});

impl TaskOptions {
    /// Backoff before the next attempt. The second attempt has none, because the task has already waited for its lease
    /// to expire.
    pub(crate) fn retry_delay(&self, attempts: u32, jitter: f64) -> Duration {
        let Some(doublings) = attempts.checked_sub(2) else { return Duration::ZERO };
        let full = self.backoff.saturating_mul(2_u32.saturating_pow(doublings));
        full.min(self.longest_backoff).mul_f64(0.5 + jitter / 2.0)
    }
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Conditions under which calls of a tool become tasks.
///
/// ```
/// # mod wharf { pub use {wharf_model::*, wharf_server::*}; pub mod tasks { pub use super::*; } }
/// use std::time::Duration;
/// use wharf::{Tool, tasks::TaskMode};
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

/// Moment at which a call becomes a task, if the server decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskStart {
    AtOnce,
    After(Duration),
    OnDetach,
}

impl TaskMode {
    /// A task for callers that support tasks, and a plain call for all others.
    #[must_use]
    pub fn optional() -> Self {
        TaskMode { support: TaskSupport::Optional, start: TaskStart::AtOnce }
    }

    /// Always a task. Callers that could use tasks and do not are rejected; those whose protocol
    /// has no tasks wait for the result.
    #[must_use]
    pub fn required() -> Self {
        TaskMode { support: TaskSupport::Required, ..TaskMode::optional() }
    }

    /// Never a task.
    #[must_use]
    pub fn forbidden() -> Self {
        TaskMode { support: TaskSupport::Forbidden, ..TaskMode::optional() }
    }

    /// A task only after this time: a shorter call ends as a plain call. If the caller requests a
    /// task, it is one at once.
    #[must_use]
    pub fn after(mut self, delay: Duration) -> Self {
        self.start = TaskStart::After(delay);
        self
    }

    /// A task only from the call of [`Ctx::detach`](crate::Ctx::detach) on. If the caller requests
    /// a task, it is one at once.
    #[must_use]
    pub fn on_detach(mut self) -> Self {
        self.start = TaskStart::OnDetach;
        self
    }
}
