//! [`TaskChanges`]: a stream of the states of a task.

use std::{
    fmt,
    future::poll_fn,
    pin::Pin,
    task::{Context, Poll, ready},
};

use futures_core::Stream;
use wharf_model::{BoxFuture, CallError, Error, Task};

use crate::task::{TaskHandle, TaskPoller};

/// A stream of the states of a task: the current one, and each change. It ends with the final state
/// or after an error. Created by [`TaskHandle::changes`].
///
/// ```
/// # mod wharf { pub use wharf_client::*; pub use wharf_client::ClientHandle as Client; pub mod client { pub use super::*; } }
/// # async fn example(client: wharf::Client) -> Result<(), wharf_model::Error> {
/// let mut changes = client.task("t-1").changes();
/// while let Some(task) = changes.next().await {
///     println!("{:?}", task?.status());
/// }
/// # Ok(())
/// # }
/// ```
#[must_use = "the stream does nothing unless polled"]
pub struct TaskChanges {
    handle: TaskHandle,
    state: ChangesState,
    last: Option<Task>,
}

enum ChangesState {
    Watching(Box<TaskPoller>),
    /// The task has ended; its result is being fetched.
    Settling(BoxFuture<Result<Task, Error>>),
    Failed(Option<Error>),
    Over,
}

impl TaskChanges {
    pub(super) fn new(handle: TaskHandle) -> Self {
        let state = match handle.poller() {
            Ok(Some(poller)) => ChangesState::Watching(Box::new(poller)),
            Ok(None) => ChangesState::Settling(Box::pin(settled(handle.clone(), None))),
            Err(error) => ChangesState::Failed(Some(error)),
        };
        TaskChanges { handle, state, last: None }
    }

    /// The next state; `None` after the final one.
    pub async fn next(&mut self) -> Option<Result<Task, CallError>> {
        poll_fn(|cx| self.poll_change(cx)).await
    }

    fn poll_change(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Task, CallError>>> {
        self.poll_task(cx).map(|item| item.map(|item| item.map_err(CallError::of_outcome)))
    }

    fn poll_task(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Task, Error>>> {
        loop {
            self.state = match &mut self.state {
                ChangesState::Over => return Poll::Ready(None),
                ChangesState::Failed(error) => match error.take() {
                    Some(error) => return Poll::Ready(Some(Err(error))),
                    None => ChangesState::Over,
                },
                ChangesState::Settling(settling) => {
                    let end = ready!(settling.as_mut().poll(cx));
                    self.state = ChangesState::Over;
                    return Poll::Ready(Some(end));
                }
                ChangesState::Watching(poller) => match ready!(poller.poll_task(&mut |_| (), cx)) {
                    Err(error) => ChangesState::Failed(Some(error)),
                    Ok(task) if task.status().is_terminal() => {
                        ChangesState::Settling(Box::pin(settled(self.handle.clone(), Some(task))))
                    }
                    Ok(task) if self.last.as_ref() == Some(&task) => continue,
                    Ok(task) => {
                        self.last = Some(task.clone());
                        return Poll::Ready(Some(Ok(task)));
                    }
                },
            };
        }
    }
}

async fn settled(handle: TaskHandle, task: Option<Task>) -> Result<Task, Error> {
    match task {
        Some(task) => handle.settle(task).await,
        None => handle.get_task().await,
    }
}

impl Stream for TaskChanges {
    type Item = Result<Task, CallError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_change(cx)
    }
}

impl fmt::Debug for TaskChanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskChanges").field("handle", &self.handle).finish_non_exhaustive()
    }
}
