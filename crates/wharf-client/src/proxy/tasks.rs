//! Tasks between a back that has them and a front that may not take them.

use wharf_model::{
    BoxFuture, ClientRequest, Error, Method, Notification, Outbox, Outcome, Request, Service, Task,
    TaskRequest, TaskSupport,
};

use crate::{
    ClientHandle,
    call::attempt::CallEvents,
    proxy::RepeatableRequest,
    server_requests::dispatch::AnswerError,
    task::{CancelOnDrop, FollowError, TaskDialect, TaskPoller, follow, request_mode},
};

/// The back of a proxy. A task of its own goes to a front that takes tasks in the same manner; for
/// every other front it is followed here, and the front gets the result.
pub(crate) struct TaskProxy {
    caller: ClientHandle,
}

impl TaskProxy {
    pub(crate) fn new(caller: ClientHandle) -> Self {
        TaskProxy { caller }
    }

    /// Whether a front that says this takes the tasks of the back as they are.
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
        let transport = self.caller.transport();
        let is_ours = request.method == Method::CallTool
            && self.caller.task_dialect() != TaskDialect::None
            && !self.is_same_dialect(request.tasking);
        if !is_ours {
            return transport.call(request, outbox);
        }
        let caller = self.caller.clone();
        let must =
            caller.server_state().task_support(&request.target()) == Some(TaskSupport::Required);
        request.tasking = caller.task_dialect().tasking(must);
        let (tasking, tool) = (request.tasking, request.target().into_owned());
        let repeatable =
            (tasking == TaskRequest::Declined).then(|| RepeatableRequest::of(&request));
        let first = transport.call(request, outbox.clone());
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

/// Calls a tool as a task that runs only as one. Nothing ran before.
async fn as_task(
    caller: &ClientHandle,
    tool: &str,
    error: Error,
    repeatable: Result<RepeatableRequest, Error>,
    outbox: &Outbox,
) -> Outcome {
    // Whatever the list says, the error stays what it is.
    let support = request_mode::support(caller, tool).await;
    match repeatable {
        Ok(repeatable) if support == Ok(TaskSupport::Required) => {
            let mut request = repeatable.build(repeatable.first.as_ref());
            request.tasking = TaskRequest::Wanted(None);
            caller.transport().call(request, outbox.clone()).await
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

/// The front of a call whose task is followed for it.
struct DownstreamClient(Outbox);

impl CallEvents for DownstreamClient {
    fn ask(&mut self, ask: ClientRequest) -> BoxFuture<Result<String, AnswerError>> {
        let answering = self.0.ask(ask);
        Box::pin(async move { answering.await.map_err(AnswerError::Refused) })
    }

    fn notify(&mut self, notification: Notification) {
        self.0.notify(notification);
    }

    /// A look at the task shows that it is alive.
    fn on_task(&mut self, _: &Task) {
        self.0.touch();
    }
}
