//! [`TaskHandle`]: a task that the caller controls.

use std::{fmt, future::poll_fn, sync::Arc};

use serde::Serialize;
use wharf_model::{Error, ErrorKind, FailureOrigin, Lock, Task, TaskState, ToolResult};

use super::{TaskChanges, TaskDialect, TaskPoller, follow, follow::start_fetch};
use crate::call::{
    builder::{CallHooks, CallKind},
    events::CallerEvents,
    request::object,
    result,
};
use crate::task::{cancel_on_drop, poll};
use crate::{CallBuilder, CallError, ClientHandle, client_handle::unsupported};

/// A task that the caller controls. Dropping the handle does not cancel the task:
/// the client's `task` with its [id](TaskHandle::id) returns to it, in another process as well.
///
/// ```
/// # mod wharf { pub use wharf_client::*; pub use wharf_client::ClientHandle as Client; pub mod client { pub use super::*; } }
/// use wharf::{Client, args};
///
/// # async fn example(client: Client) -> Result<(), wharf_model::Error> {
/// let task = client.call_task("render", args! { film: "waves" }).await?;
/// println!("come back for {:?}", task.id());
/// let result = task.wait().await?;
/// # drop(result);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct TaskHandle(Arc<TaskHandleState>);

struct TaskHandleState {
    caller: ClientHandle,
    /// `None` if the server returned the result without creating a task.
    id: Option<String>,
    /// The tool's name, if this client called it.
    tool: Option<String>,
    state: Lock<KnownTask>,
}

/// The last known state of a task.
enum KnownTask {
    Unknown,
    /// The state at creation.
    First(Task),
    /// The final state.
    End(Task),
    /// There is no task, only a result.
    Result(ToolResult),
}

impl TaskHandle {
    pub(crate) fn new(caller: &ClientHandle, id: String) -> Self {
        Self::with(caller, Some(id), None, KnownTask::Unknown)
    }

    pub(crate) fn created(caller: &ClientHandle, tool: Option<String>, task: Task) -> Self {
        Self::with(caller, Some(task.id.clone()), tool, KnownTask::First(task))
    }

    pub(crate) fn done(caller: &ClientHandle, tool: Option<String>, result: ToolResult) -> Self {
        Self::with(caller, None, tool, KnownTask::Result(result))
    }

    fn with(
        caller: &ClientHandle,
        id: Option<String>,
        tool: Option<String>,
        state: KnownTask,
    ) -> Self {
        let (caller, state) = (caller.clone(), Lock::new(state));
        TaskHandle(Arc::new(TaskHandleState { caller, id, tool, state }))
    }

    /// The task's id, to return to the task later. `None` if the server returned the result without
    /// creating a task: then [`wait`](TaskHandle::wait) returns it.
    #[must_use]
    pub fn id(&self) -> Option<&str> {
        self.0.id.as_deref()
    }

    /// Gets the state of the task. The final state is cached.
    ///
    /// # Errors
    /// If there is no task, the server does not have it, or cannot be reached.
    pub async fn get(&self) -> Result<Task, CallError> {
        self.get_task().await.map_err(CallError::of_outcome)
    }

    pub(super) async fn get_task(&self) -> Result<Task, Error> {
        if let KnownTask::End(task) = &*self.known() {
            return Ok(task.clone());
        }
        let (caller, id) = (&self.0.caller, self.known_id()?);
        let outcome = poll::get(caller, id, caller.options().idle).await;
        self.settle(poll::read(outcome, id)?).await
    }

    /// Waits for the end of the task and returns its result, like a call of the tool. Input
    /// requests are answered meanwhile. Dropping the future does not cancel the task.
    pub fn wait(&self) -> CallBuilder<ToolResult> {
        CallBuilder::new(&self.0.caller, Ok(CallKind::Wait(self.clone())), result::tool)
    }

    /// Requests cancellation. The task may still end in another state.
    ///
    /// # Errors
    /// If there is no task, the server does not have it, the task has ended, or the server cannot
    /// be reached.
    pub async fn cancel(&self) -> Result<(), CallError> {
        let cancelled = async { cancel_on_drop::cancel(&self.0.caller, self.known_id()?).await };
        cancelled.await.map_err(CallError::of_outcome)
    }

    /// Answers input requests of the task: an object with one answer for each key of
    /// [`TaskState::InputRequired`]. [`wait`](TaskHandle::wait) does this itself.
    ///
    /// # Errors
    /// If the answers are not an object, the server accepts answers only during
    /// [`wait`](TaskHandle::wait), does not have the task, or cannot be reached.
    pub async fn update(&self, answers: impl Serialize) -> Result<(), CallError> {
        let answers = object("Answers", &answers);
        self.send_answers(answers).await.map_err(CallError::of_outcome)
    }

    async fn send_answers(&self, answers: Result<Option<String>, Error>) -> Result<(), Error> {
        let (caller, id) = (&self.0.caller, self.known_id()?);
        if caller.task_dialect() == TaskDialect::Legacy {
            let problem = "This server sends the input requests of a task only while the client waits for it: use `wait`";
            return Err(unsupported(problem));
        }
        let answers = answers?.unwrap_or_else(|| "{}".into());
        follow::update(caller, id, answers, caller.options().idle).await
    }

    /// A stream of the task's states, from the current one to the final one.
    pub fn changes(&self) -> TaskChanges {
        TaskChanges::new(self.clone())
    }

    pub(crate) fn tool(&self) -> Option<&str> {
        self.0.tool.as_deref()
    }

    /// Follows the task to its end.
    pub(crate) async fn follow(
        &self,
        hooks: &mut CallHooks,
        idle: std::time::Duration,
    ) -> Result<ToolResult, Error> {
        let caller = &self.0.caller;
        let first = match &*self.known() {
            KnownTask::Unknown => None,
            KnownTask::First(task) => Some(task.clone()),
            KnownTask::Result(result) => return Ok(result.clone()),
            KnownTask::End(task) => return ended(task),
        };
        let poller = TaskPoller::new(caller, self.known_id()?, first.clone(), idle)?;
        let (result, _) = follow::follow(poller, first, &mut CallerEvents { caller, hooks }).await;
        result.map_err(Error::from)
    }

    /// A poller of the task; `None` if it has ended.
    pub(super) fn poller(&self) -> Result<Option<TaskPoller>, Error> {
        if matches!(*self.known(), KnownTask::End(_)) {
            return Ok(None);
        }
        let idle = self.0.caller.options().idle;
        TaskPoller::new(&self.0.caller, self.known_id()?, None, idle).map(Some)
    }

    /// Completes a final state with its result, if that needs a request of its own, and caches it.
    pub(super) async fn settle(&self, mut task: Task) -> Result<Task, Error> {
        if !task.status().is_terminal() {
            return Ok(task);
        }
        if self.0.caller.task_dialect() == TaskDialect::Legacy && task.state != TaskState::Cancelled
        {
            task.state = self.fetch_result(&task.id).await?;
        }
        *self.known() = KnownTask::End(task.clone());
        Ok(task)
    }

    async fn fetch_result(&self, id: &str) -> Result<TaskState, Error> {
        let (caller, mut hooks) = (&self.0.caller, CallHooks::default());
        let mut attempt = start_fetch(caller, id, Some(caller.options().idle));
        let mut events = CallerEvents { caller, hooks: &mut hooks };
        let (outcome, _) = poll_fn(|cx| attempt.poll_end(&mut events, cx)).await;
        match follow::result(outcome) {
            Ok(result) => Ok(TaskState::Completed(Box::new(result))),
            Err(error) if error.kind.is_retryable() => Err(error),
            Err(error) => Ok(TaskState::Failed(Box::new(error))),
        }
    }

    fn known_id(&self) -> Result<&str, Error> {
        self.id().ok_or_else(|| {
            let problem =
                "The server returned the result without creating a task: `wait` returns it";
            let error = Error::new(ErrorKind::TaskNotFound).with_message(problem);
            error.from_client(FailureOrigin::Usage)
        })
    }

    fn known(&self) -> std::sync::MutexGuard<'_, KnownTask> {
        self.0.state.lock()
    }
}

/// Converts a final state to the result of the tool call.
fn ended(task: &Task) -> Result<ToolResult, Error> {
    match &task.state {
        TaskState::Completed(result) => Ok((**result).clone()),
        TaskState::Failed(error) => Err((**error).clone()),
        _ => Err(follow::cancelled(task.message.clone())),
    }
}

impl fmt::Debug for TaskHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskHandle").field("id", &self.0.id).finish_non_exhaustive()
    }
}
