//! Runs one call to its end, over all its requests: input rounds (`input_required.rs`), retries (`retry.rs`) and tasks.

use std::{
    future::poll_fn,
    time::{Duration, Instant},
};

use wharf_model::{
    Deadlines, Error, ErrorKind, InputMode, Method, Outcome, Reply, Request, Service, Task,
    TaskRequest, TaskSupport, ToolResult,
};

use crate::{
    ClientHandle, TaskHandle,
    call::{
        any_method,
        builder::{CallHooks, CallKind, CallResult},
        check_output::check_output,
        events::{CallerEvents, RequestAttempt},
        request::{CallSpec, RetryParams},
        total_timeout::{self, IdleTimeout},
        url_elicitation,
    },
    client_handle::not_offered,
    task::{CancelOnDrop, FollowError, TaskDialect, TaskPoller, follow, request_mode},
};

/// Timeouts and cache use of one call.
#[derive(Clone, Copy)]
pub(crate) struct CallLimits {
    pub(crate) idle: Duration,
    pub(crate) total: Duration,
    pub(crate) cached: bool,
}

impl CallLimits {
    pub(crate) fn of(caller: &ClientHandle) -> Self {
        let options = caller.options();
        CallLimits { idle: options.idle, total: options.total, cached: true }
    }
}

pub(crate) async fn run(
    caller: &ClientHandle,
    what: CallKind,
    mut hooks: CallHooks,
    limits: CallLimits,
) -> Result<CallResult, Error> {
    let CallLimits { idle, total, .. } = limits;
    let timer = caller.timer();
    match what {
        CallKind::Call(spec) => call(caller, spec, hooks, limits).await.map(CallResult::Reply),
        CallKind::Start(spec, ttl) => {
            let tool = spec.target.clone();
            let mut run = CallRun::new(caller, spec, hooks, idle);
            let start = run.start(ttl);
            let end = total_timeout::within(timer, total, total_timeout::TOTAL, start).await;
            let handle = match end.map_err(|error| run.error(error))? {
                TaskStart::Task(task) => TaskHandle::created(caller, tool, *task),
                TaskStart::Result(result) => TaskHandle::done(caller, tool, result),
            };
            Ok(CallResult::Task(handle))
        }
        CallKind::Wait(handle) => {
            let end = handle.follow(&mut hooks, idle);
            let checked = async {
                let result = end.await?;
                let idle = IdleTimeout { limit: idle, end: None };
                check_output(caller, handle.tool(), &result, idle).await?;
                Ok(result)
            };
            let result = total_timeout::within(timer, total, total_timeout::TOTAL, checked).await?;
            Ok(CallResult::Reply(Reply::Tool(result)))
        }
        CallKind::Raw { method, params } => {
            let raw = any_method::ask(caller, method, params, hooks, idle);
            total_timeout::within(timer, total, total_timeout::TOTAL, raw)
                .await
                .map(CallResult::Raw)
        }
    }
}

async fn call(
    caller: &ClientHandle,
    spec: CallSpec,
    hooks: CallHooks,
    limits: CallLimits,
) -> Result<Reply, Error> {
    let CallLimits { idle, total, cached } = limits;
    if !caller.about().discovery.capabilities.offer(spec.method) {
        return Err(not_offered(spec.method.name()));
    }
    // The caller's `_meta` may change the result.
    let key = (spec.method.info().cacheable && spec.meta.is_none()).then(|| spec.key());
    let server_state = caller.server_state();
    if let (Some(key), true) = (&key, cached)
        && let Some(reply) = server_state.get(spec.method, key, caller.timer().now())
    {
        return Ok(reply);
    }
    let (method, generation) = (spec.method, server_state.generation(spec.method));
    let mut run = CallRun::new(caller, spec, hooks, idle);
    let call = run.finish();
    let end = total_timeout::within(caller.timer(), total, total_timeout::TOTAL, call).await;
    let (reply, input_requested) = end.map_err(|error| run.error(error))?;
    // A result that depends on input responses is not cached.
    if let (Some(key), false) = (key, input_requested) {
        server_state.insert(method, key, &reply, generation, caller.timer().now());
    }
    Ok(reply)
}

/// The end of a request.
enum RequestEnd {
    Reply(Reply),
    Task(Box<Task>),
}

/// The result of a tool call that requested a task.
enum TaskStart {
    Task(Box<Task>),
    Result(ToolResult),
}

pub(super) struct CallRun<'a> {
    pub(super) caller: &'a ClientHandle,
    pub(super) spec: CallSpec,
    hooks: CallHooks,
    pub(super) idle: Duration,
    /// End of the idle timeout of the last request; none for the result of a task, whose polling had its own timeouts.
    idle_end: Option<Instant>,
    pub(super) retry: Option<RetryParams>,
    pub(super) rounds: usize,
    pub(super) overloads: usize,
    pub(super) retries: usize,
    input_requested: bool,
    pub(super) listed_again: bool,
    /// The server has received a request of the call, or may have: an error of a later one must not say
    /// otherwise.
    has_arrived: bool,
    pub(super) tasking: TaskRequest,
    pub(super) url_elicitations: url_elicitation::UrlElicitations,
}

impl<'a> CallRun<'a> {
    fn new(caller: &'a ClientHandle, spec: CallSpec, hooks: CallHooks, idle: Duration) -> Self {
        let (retry, rounds, overloads, retries) = (None, 0, 0, 0);
        let (input_requested, listed_again, has_arrived) = (false, false, false);
        let tasking = request_mode::tasking(caller, &spec);
        let url_elicitations = url_elicitation::UrlElicitations::default();
        CallRun {
            caller,
            spec,
            hooks,
            idle,
            idle_end: None,
            retry,
            rounds,
            overloads,
            retries,
            input_requested,
            listed_again,
            has_arrived,
            tasking,
            url_elicitations,
        }
    }

    /// The error of the whole call for that of its last request.
    fn error(&self, last: Error) -> Error {
        if self.has_arrived { last.after_arrival() } else { last }
    }

    /// Runs the call: the result, and whether the server requested input.
    async fn finish(&mut self) -> Result<(Reply, bool), Error> {
        loop {
            let reply = match self.run_request().await? {
                RequestEnd::Reply(reply) => reply,
                RequestEnd::Task(task) => match self.follow(*task).await {
                    Ok(result) => Reply::Tool(result),
                    Err(error) if error.kind.is_url_elicitation_required() => {
                        self.recover(error).await?;
                        continue;
                    }
                    Err(error) => return Err(error),
                },
            };
            if let Reply::Tool(result) = &reply {
                self.check_output(result).await?;
            }
            return Ok((reply, self.input_requested || self.retry.is_some()));
        }
    }

    /// Starts the call as a task: the task, or the result if the server created none.
    async fn start(&mut self, ttl: Option<u64>) -> Result<TaskStart, Error> {
        if !self.caller.about().discovery.capabilities.offer(Method::CallTool) {
            return Err(not_offered(Method::CallTool.name()));
        }
        if self.caller.task_dialect() == TaskDialect::Legacy {
            let tool = self.spec.target.as_deref().unwrap_or_default();
            let support = request_mode::support(self.caller, tool).await?;
            if matches!(support, TaskSupport::Optional | TaskSupport::Required) {
                self.tasking = TaskRequest::Wanted(ttl);
            }
        }
        match self.run_request().await? {
            RequestEnd::Task(task) => Ok(TaskStart::Task(task)),
            RequestEnd::Reply(Reply::Tool(result)) => {
                self.check_output(&result).await?;
                Ok(TaskStart::Result(result))
            }
            RequestEnd::Reply(_) => Err(crate::call::result::unexpected()),
        }
    }

    /// Sends the request until it ends, with all input rounds and retries.
    async fn run_request(&mut self) -> Result<RequestEnd, Error> {
        loop {
            match self.send_once().await? {
                Outcome::Complete(Reply::Tool(result))
                    if request_mode::may_be_task_required(self.caller, self.tasking, &result)
                        && self.runs_only_as_task().await =>
                {
                    self.tasking = TaskRequest::Wanted(None);
                }
                Outcome::Complete(reply) => return Ok(RequestEnd::Reply(reply)),
                Outcome::Task(task) if self.spec.method == Method::CallTool => {
                    return Ok(RequestEnd::Task(task));
                }
                Outcome::InputRequired(required) => self.answer_requests(*required).await?,
                Outcome::Failed(error) => self.recover(*error).await?,
                _ => return Err(crate::call::result::unexpected()),
            }
        }
    }

    async fn check_output(&mut self, result: &ToolResult) -> Result<(), Error> {
        let idle = IdleTimeout { limit: self.idle, end: self.idle_end };
        check_output(self.caller, self.spec.target.as_deref(), result, idle).await
    }

    /// Follows the task that the call became. Dropping the future cancels the task.
    async fn follow(&mut self, task: Task) -> Result<ToolResult, Error> {
        self.idle_end = None;
        let poller = TaskPoller::new(self.caller, &task.id, Some(task.clone()), self.idle)?;
        let cancel_on_drop = CancelOnDrop::new(self.caller, &task.id);
        let mut events = CallerEvents { caller: self.caller, hooks: &mut self.hooks };
        let (end, input_requested) = follow(poller, Some(task), &mut events).await;
        self.input_requested |= input_requested;
        if let Err(FollowError::Abandoned(error)) = end {
            return Err(error);
        }
        cancel_on_drop.disarm();
        end.map_err(Error::from)
    }

    async fn send_once(&mut self) -> Result<Outcome, Error> {
        let caller = self.caller;
        let mut request = self.spec.build(self.retry.as_ref()).from_peer(caller.peer().clone());
        request.asks = InputMode::Deliver;
        request.log_level = caller.log_level();
        request.tasking = self.tasking;
        // Requested even without a callback: progress shows that the tool is still running, and
        // resets the idle timeout.
        request.progress = self.hooks.progress.is_some() || request.method == Method::CallTool;
        let transport = caller.transport();
        request.scope = transport.scope();
        if let (Some(tool), true) = (&self.spec.target, request.method == Method::CallTool) {
            let arguments = self.spec.arguments.as_deref().unwrap_or("{}");
            request.mirrored =
                caller.server_state().mirrored(tool, arguments, transport.sends_param_headers())?;
        }
        let RequestOutcome { outcome, input_requested, idle_end } =
            send_request(caller, &*transport, request, &mut self.hooks, self.idle).await;
        self.input_requested |= input_requested;
        self.idle_end = idle_end;
        self.has_arrived |= !matches!(&outcome, Outcome::Failed(error) if error.is_unsent());
        Ok(outcome)
    }

    /// Returns whether the server lists the tool as task-only.
    pub(super) async fn runs_only_as_task(&mut self) -> bool {
        let tool = self.spec.target.as_deref().unwrap_or_default();
        request_mode::support(self.caller, tool).await.is_ok_and(|it| it == TaskSupport::Required)
    }
}

/// The outcome of one request.
pub(crate) struct RequestOutcome {
    pub(crate) outcome: Outcome,
    /// Set if the server sent any request meanwhile.
    input_requested: bool,
    /// End of the idle timeout; none if the outcome was there at once.
    idle_end: Option<Instant>,
}

/// Sends one request, to its end.
pub(crate) async fn send_request(
    caller: &ClientHandle,
    service: &dyn Service,
    request: Request,
    hooks: &mut CallHooks,
    idle: Duration,
) -> RequestOutcome {
    // The total timeout applies to the whole call, around all of its requests.
    let deadlines = Deadlines::NONE.idle(Some(idle));
    let active_call = caller.start_request(service, request, deadlines);
    let (mut attempt, mut events) =
        (RequestAttempt::new(active_call.for_caller()), CallerEvents { caller, hooks });
    let (outcome, input_requested) = poll_fn(|cx| attempt.poll_end(&mut events, cx)).await;
    let outcome = match outcome {
        Outcome::Failed(error) if *error == Error::new(ErrorKind::RequestTimeout) => {
            total_timeout::out_of_time(idle, total_timeout::IDLE).into()
        }
        outcome => outcome,
    };
    RequestOutcome { outcome, input_requested, idle_end: attempt.idle_end() }
}
