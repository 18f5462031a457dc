//! Proxies tasks to downstream clients that may not support the server's task dialect.

use wharf_model::{
    BoxFuture, ClientRequest, Error, Method, Notification, Outbox, Outcome, Request, Service, Task,
    TaskRequest, TaskSupport,
};

use crate::{
    ClientHandle,
    call::events::CallEvents,
    proxy::forward::RepeatableRequest,
    server_requests::dispatch::AnswerError,
    task::{CancelOnDrop, FollowError, TaskDialect, TaskPoller, follow, request_mode},
};

/// The upstream server. Its tasks are passed to a downstream client with the same task dialect. For
/// other clients the proxy follows the task and returns its result.
pub(crate) struct TaskProxy {
    caller: ClientHandle,
}

impl TaskProxy {
    pub(crate) fn new(caller: ClientHandle) -> Self {
        TaskProxy { caller }
    }

    /// Returns whether a client with this task request handles the server's tasks itself.
    fn is_same_dialect(&self, tasking: TaskRequest) -> bool {
        match tasking {
            TaskRequest::Welcome => self.caller.task_dialect() == TaskDialect::Extension,
            TaskRequest::Wanted(_) => self.caller.task_dialect() == TaskDialect::Legacy,
            _ => false,
        }
    }
}

impl Service for TaskProxy {
    fn call(&self, mut request: Request, outbox: Outbox) -> BoxFuture<Outcome> {
        let is_ours = request.method == Method::CallTool
            && self.caller.task_dialect() != TaskDialect::None
            && !self.is_same_dialect(request.tasking);
        if !is_ours {
            return self.caller.forward(request, outbox);
        }
        let caller = self.caller.clone();
        let must =
            caller.server_state().task_support(&request.target()) == Some(TaskSupport::Required);
        request.tasking = caller.task_dialect().tasking(must);
        let (tasking, tool) = (request.tasking, request.target().into_owned());
        let repeatable =
            (tasking == TaskRequest::Declined).then(|| RepeatableRequest::of(&request));
        let first = caller.forward(request, outbox.clone());
        Box::pin(async move {
            let outcome = match (first.await, repeatable) {
                (Outcome::Failed(error), Some(repeatable))
                    if request_mode::may_require_task(
                        &caller,
                        Method::CallTool,
                        tasking,
                        &error,
                    ) =>
                {
                    as_task(&caller, &tool, *error, repeatable, &outbox).await
                }
                (outcome, _) => outcome,
            };
            match outcome {
                Outcome::Task(task) => follow_task(&caller, *task, outbox).await,
                other => other,
            }
        })
    }
}

/// Calls a task-only tool again, as a task. The failed call ran nothing.
async fn as_task(
    caller: &ClientHandle,
    tool: &str,
    error: Error,
    repeatable: Result<RepeatableRequest, Error>,
    outbox: &Outbox,
) -> Outcome {
    // If listing the tool fails, the caller still gets the original error.
    let support = request_mode::support(caller, tool).await;
    match repeatable {
        Ok(repeatable) if support == Ok(TaskSupport::Required) => {
            let mut request = repeatable.build(repeatable.first.as_ref());
            request.tasking = TaskRequest::Wanted(None);
            caller.forward(request, outbox.clone()).await
        }
        _ => error.into(),
    }
}

async fn follow_task(caller: &ClientHandle, task: Task, outbox: Outbox) -> Outcome {
    let idle = caller.options().idle;
    let poller = match TaskPoller::new(caller, &task.id, Some(task.clone()), idle) {
        Ok(poller) => poller,
        Err(error) => return error.into(),
    };
    let cancel_on_drop = CancelOnDrop::new(caller, &task.id);
    let (end, _) = follow(poller, Some(task), &mut DownstreamClient(outbox)).await;
    match end {
        Err(FollowError::Abandoned(error)) => error.into(),
        end => {
            cancel_on_drop.disarm();
            end.map_or_else(|ending| Error::from(ending).into(), Outcome::from)
        }
    }
}

/// Sends events of the followed task to the downstream client.
struct DownstreamClient(Outbox);

impl CallEvents for DownstreamClient {
    fn ask(&mut self, ask: ClientRequest) -> BoxFuture<Result<String, AnswerError>> {
        let answering = self.0.ask(ask);
        Box::pin(async move { answering.await.map_err(AnswerError::Refused) })
    }

    fn notify(&mut self, notification: Notification) {
        self.0.notify(notification);
    }

    /// Resets the idle timeout: the task is alive.
    fn on_task(&mut self, _: &Task) {
        self.0.touch();
    }
}
