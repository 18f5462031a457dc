//! One run of a task, from its start to its stored result.

pub(crate) mod lease_renewal;
mod progress_reports;
pub(crate) mod state;
mod task_end;

use std::{
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use wharf_model::{
    ActiveCall, BoxFuture, Deadlines, Error, Event, InputMode, Method, Observers, Outbox, Outcome,
    Request, RequestBuilder, Service, TaskChange, TaskRequest, Timer, ToolInfo, Trusted, printable,
};

use crate::{
    context::progress::ProgressUpdate,
    router::{call_tool, catalog::CatalogEntry, state::ServerState},
    tasks::{
        notify::short_id,
        options::millis,
        promotion_state::TaskPromotion,
        run::{
            lease_renewal::Lease,
            progress_reports::ProgressReports,
            state::{FailureObserver, RunEvent, StopReason, TaskRun},
            task_end::{reserve_result, task_end},
        },
        scheduler::{RegisteredRun, RunSlot, TaskScheduler},
        storage,
        storage::{
            random_fraction,
            record::{TaskEnd, TaskRecord},
            stored_types::SavedError,
        },
        wakeup::spawn,
    },
};

/// A service of one tool, which an active call drives.
pub(crate) struct ToolCall<'c> {
    pub(crate) server: &'c Arc<ServerState>,
    pub(crate) tool: &'c Arc<CatalogEntry<ToolInfo>>,
}

impl ToolCall<'_> {
    /// Starts the call; also returns its outbox.
    pub(crate) fn start(
        self,
        request: Request,
        timer: Arc<dyn Timer>,
        deadlines: Deadlines,
    ) -> (ActiveCall, Outbox) {
        let service = self.service();
        let exchange = ActiveCall::start(&service, request, timer.clone(), deadlines);
        let outbox = service.seen.get().cloned();
        (exchange, outbox.unwrap_or_else(|| Outbox::new(timer, deadlines)))
    }

    /// Starts the run of a task, which observers follow.
    fn start_task(
        self,
        mut request: Request,
        timer: Arc<dyn Timer>,
        ttl: u64,
        task_run: &Arc<TaskRun>,
    ) -> ActiveCall {
        request.scope.insert(task_run.observed_id());
        let observers = self.observers(task_run);
        ActiveCall::start_task(&self.service(), request, timer, task_deadlines(ttl), &observers)
    }

    /// Reports to the observers that a call goes on as a task.
    fn report_task(self, exchange: &mut ActiveCall, record: &TaskRecord, task_run: &Arc<TaskRun>) {
        let mut request = rebuild_request(record);
        request.scope.insert(task_run.observed_id());
        exchange.become_task(&self.observers(task_run), &self.service(), &request);
    }

    /// Observers of the server, and one for the run itself if there are any.
    fn observers(&self, task_run: &Arc<TaskRun>) -> Observers {
        let observers = self.server.observers.clone();
        match observers.is_empty() {
            true => observers,
            false => observers.with(FailureObserver(task_run.clone())),
        }
    }

    fn service(&self) -> ToolCallService {
        let (server, tool) = (self.server.clone(), self.tool.clone());
        ToolCallService { server, tool, seen: Arc::default() }
    }
}

struct ToolCallService {
    server: Arc<ServerState>,
    tool: Arc<CatalogEntry<ToolInfo>>,
    seen: Arc<std::sync::OnceLock<Outbox>>,
}

impl Service for ToolCallService {
    fn call(&self, request: Request, outbox: Outbox) -> BoxFuture<Outcome> {
        let _ = self.seen.set(outbox.clone());
        call_tool::begin_tool(&self.server, &self.tool, request, outbox)
    }

    fn has_target(&self, _: &Request) -> bool {
        true
    }
}

/// Resources that a run holds until its end.
pub(crate) struct RunResources {
    pub(crate) server: Arc<ServerState>,
    pub(crate) task_run: Arc<TaskRun>,
    pub(crate) running: RegisteredRun,
    pub(crate) slot: RunSlot,
}

/// Runs a new task with its original request.
pub(crate) fn begin(
    resources: RunResources,
    tool: Arc<CatalogEntry<ToolInfo>>,
    request: Request,
    timer: Arc<dyn Timer>,
    ttl: u64,
) -> bool {
    spawn(async move {
        let exchange = start(&resources, &tool, request, timer.clone(), ttl);
        drive(resources, exchange, &*timer).await;
    })
}

/// Continues a call that was just promoted to a task.
pub(crate) fn continue_call(
    resources: RunResources,
    (tool, record): (&Arc<CatalogEntry<ToolInfo>>, &TaskRecord),
    mut exchange: ActiveCall,
    timer: Arc<dyn Timer>,
) -> bool {
    let call = ToolCall { server: &resources.server, tool };
    call.report_task(&mut exchange, record, &resources.task_run);
    spawn(async move { drive(resources, exchange, &*timer).await })
}

/// Runs a claimed task: with its original request if this process has it, otherwise with the
/// request rebuilt from its record.
pub(crate) fn resume(
    server: &Arc<ServerState>,
    (record, since): (TaskRecord, Instant),
    original: Option<Request>,
    slot: RunSlot,
    timer: Arc<dyn Timer>,
) {
    let server = server.clone();
    spawn(async move {
        let scheduler = server.tasks.scheduler().clone();
        let (id, attempts) = (record.id.clone(), record.attempts);
        let known = async {
            Ok::<_, Error>((
                scheduler.task_store.steps(&id).await?,
                scheduler.task_store.now().await?,
            ))
        };
        let (steps, now) = match known.await {
            Ok(known) => known,
            // Not a fault of the task, so the attempt does not count. It is tried again, at the
            // latest when the lease expires.
            Err(error) => {
                storage::log_failure(&error, "resume a task");
                return release_task(&scheduler, record, &*timer).await;
            }
        };
        let ttl = record.expires.map_or(u64::MAX, |expires| expires.saturating_sub(now));
        let request = original.unwrap_or_else(|| rebuild_request(&record));
        let (task_store, options) = (scheduler.task_store.clone(), scheduler.options.clone());
        let task_run = TaskRun::new(record, since, steps, task_store, options, timer.clone());
        if attempts > 1 {
            task_run.observe(TaskChange::TakenOver);
        }
        let running = scheduler.register_run(&task_run, false);
        let tool = call_tool::find_tool(&server, &server.catalog.load().lists, &request).cloned();
        let Ok(tool) = tool else {
            // Another node may have the tool; the attempts are counted.
            tracing::warn!(
                tool = printable(&request.target()),
                "cannot run a task, its tool does not exist here"
            );
            return task_run
                .release(scheduler.options.retry_delay(attempts + 1, random_fraction()))
                .await;
        };
        let resources = RunResources { server, task_run, running, slot };
        let exchange = start(&resources, &tool, request, timer.clone(), ttl);
        drive(resources, exchange, &*timer).await;
    });
}

/// Releases a task that could not be started.
async fn release_task(scheduler: &TaskScheduler, record: TaskRecord, timer: &dyn Timer) {
    let (id, fence, rest) = (record.id.clone(), record.fence, millis(scheduler.options.lease));
    let release = |record: &mut TaskRecord, now| record.release(fence, rest, false, now);
    if let Err(error) = scheduler.task_store.update(&id, Some(record), timer, release).await {
        tracing::debug!(task = short_id(&id), %error, "cannot release a task");
    }
}

fn start(
    resources: &RunResources,
    tool: &Arc<CatalogEntry<ToolInfo>>,
    mut request: Request,
    timer: Arc<dyn Timer>,
    ttl: u64,
) -> ActiveCall {
    request.asks = InputMode::Park;
    request.tasking = TaskRequest::Unknown;
    request.log_level = None;
    request.scope.insert(TaskPromotion::for_task(resources.task_run.clone()));
    let call = ToolCall { server: &resources.server, tool };
    call.start_task(request, timer, ttl, &resources.task_run)
}

/// Deadlines of a task: no idle timeout, and its `ttl` in total.
pub(crate) fn task_deadlines(ttl: u64) -> Deadlines {
    Deadlines::NONE.total(Some(Duration::from_millis(ttl)))
}

/// Rebuilds the request from the record. Extensions added by outer layers are missing.
fn rebuild_request(record: &TaskRecord) -> Request {
    let call = &record.call;
    let mut builder =
        RequestBuilder::new(Method::CallTool).target(&call.tool).arguments(call.arguments.get());
    if let Some(meta) = &call.meta {
        builder = builder.meta(meta.get());
    }
    let mut request = builder.build().from_peer(Arc::new(call.peer()));
    match call.principal() {
        Some(principal) => request.scope.insert(principal),
        // The caller was authorized when it created the task.
        None => request.scope.insert(Trusted),
    }
    request
}

/// Next event of a run.
enum LoopEvent {
    Run(RunEvent),
    Event(Event),
    Report(ProgressUpdate),
}

/// Drives the handler; stores its progress and its result.
async fn drive(resources: RunResources, mut exchange: ActiveCall, timer: &dyn Timer) {
    let RunResources { server, task_run, running, slot } = resources;
    let options = &server.tasks.options;
    let mut reports = ProgressReports::new(options);
    let mut lease = Lease::new(task_run.clone(), timer);
    let end = loop {
        match poll_fn(|cx| poll(&task_run, &mut lease, &mut exchange, &mut reports, timer, cx))
            .await
        {
            LoopEvent::Run(RunEvent::Stop(StopReason::Lost)) => return,
            LoopEvent::Run(RunEvent::Stop(StopReason::Failed(error))) => {
                break TaskEnd::Failed(SavedError::within_limit(&error, options.result));
            }
            LoopEvent::Run(RunEvent::Withdraw(key)) => {
                lease.during(timer, task_run.withdraw(&key)).await
            }
            LoopEvent::Report(update) => lease.during(timer, task_run.report(&update)).await,
            LoopEvent::Event(Event::Done(outcome)) => {
                break task_end(outcome, options.result);
            }
            LoopEvent::Event(Event::Notify(notification)) => reports.take(notification),
            // There is no client to send it to; client requests of a task go through its record.
            LoopEvent::Event(Event::ClientRequest(id, ask)) => exchange.refuse(id, &ask),
            LoopEvent::Event(_) => {}
        }
    };
    drop(exchange);
    let end = reserve_result(server.tasks.scheduler(), task_run.id(), end);
    task_run.finish(&end, reports.last.as_ref()).await;
    // Before the notification, which has nothing left to change in this run.
    drop((running, slot));
    // Also if it had already ended: the process that ended it may not have received the
    // confirmation of the store.
    server.tasks.scheduler().task_store.publish_changed(task_run.id()).await;
}

fn poll(
    task_run: &TaskRun,
    lease: &mut Lease,
    exchange: &mut ActiveCall,
    reports: &mut ProgressReports,
    timer: &dyn Timer,
    cx: &mut Context<'_>,
) -> Poll<LoopEvent> {
    // Before the handler: a run that lost its task must not continue.
    if let Poll::Ready(event) = task_run.poll_run_event(cx) {
        return Poll::Ready(LoopEvent::Run(event));
    }
    if lease.poll_lapsed(timer, cx).is_ready() {
        tracing::warn!(
            task = short_id(task_run.id()),
            "stopped a task, its lease could not be renewed"
        );
        return Poll::Ready(LoopEvent::Run(RunEvent::Stop(StopReason::Lost)));
    }
    if let Poll::Ready(event) = exchange.poll_event(cx) {
        return Poll::Ready(LoopEvent::Event(event));
    }
    reports.poll(timer, cx).map(LoopEvent::Report)
}
