//! What a caller says about tasks, and asks about them.

use std::time::Duration;

use wharf_model::{Error, ErrorKind, Method, Outcome, TaskSupport, Tasking};

use super::Manner;
use crate::{
    Caller,
    calling::Hooks,
    engine,
    spec::{Retry, Spec},
};

/// What a caller says about tasks who needs none.
pub(crate) fn tasking(caller: &Caller, spec: &Spec) -> Tasking {
    if spec.method != Method::CallTool {
        return Tasking::default();
    }
    let tool = spec.target.as_deref().unwrap_or_default();
    let support = caller.memory().task_support(tool);
    caller.manner().tasking(support == Some(TaskSupport::Required))
}

/// Whether `error` may mean that the tool runs only as a task, and was called without one.
pub(crate) fn may_want_task(
    caller: &Caller,
    method: Method,
    tasking: Tasking,
    error: &Error,
) -> bool {
    use ErrorKind::{CapabilityNotSupported, InvalidRequest, MethodNotFound, TaskRequired};
    method == Method::CallTool
        && tasking == Tasking::Declined
        && caller.manner() == Manner::Fetched
        && matches!(
            error.kind,
            MethodNotFound | CapabilityNotSupported | InvalidRequest | TaskRequired
        )
}

/// Whether the tool runs as a task if it is asked to.
pub(crate) fn may_be_task(caller: &Caller, tool: &str) -> bool {
    let support = caller.memory().task_support(tool);
    matches!(support, Some(TaskSupport::Optional | TaskSupport::Required))
}

/// Sends one request about tasks that asks nothing and says nothing on the way.
pub(crate) async fn plain(caller: &Caller, spec: Spec, idle: Duration) -> Outcome {
    plain_with(caller, spec, None, idle).await
}

/// The same, with answers.
pub(crate) async fn plain_with(
    caller: &Caller,
    spec: Spec,
    retry: Option<&Retry>,
    idle: Duration,
) -> Outcome {
    let mut request = spec.build(retry).from_peer(caller.peer().clone());
    request.tasking = Tasking::Welcome;
    let (link, mut hooks) = (caller.link(), Hooks::default());
    engine::exchange(caller, &*link, request, &mut hooks, idle).await.0
}
