//! Creates tasks: decides which calls become tasks, and inserts their records.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use wharf_model::{
    ActiveCall, BoxFuture, Caller, ClientCapability, ClientRequestId, Deadlines, Error, ErrorKind,
    Event, Outbox, Outcome, Request, ResponseFuture, TASKS_EXTENSION, Task, TaskRequest,
    TaskSupport, Timer, ToolInfo,
};

use crate::{
    key_ring::random_name,
    router::{catalog::CatalogEntry, state::ServerState},
    tasks::{
        cancel_undelivered::CancelUndelivered,
        notify,
        notify::short_id,
        options::TaskStart,
        promotion::TaskPromotion,
        run,
        run::{RunResources, ToolCall, state::TaskRun},
        scheduler::{RunSlot, TaskScheduler},
        storage,
        storage::{record::TaskRecord, stored_types::SavedCall},
    },
};

/// Minimum delay before another attempt to promote a call to a task.
const PROMOTION_RETRY_DELAY: Duration = Duration::from_secs(1);

/// Retry delay sent to clients while the store is full.
pub(super) const STORE_FULL_RETRY_AFTER: Duration = Duration::from_secs(60);

/// Execution mode of a tool call.
#[derive(Debug, PartialEq)]
pub(crate) enum CallPlan {
    Plain,
    /// As a task with this `ttl` in milliseconds.
    Task(Option<u64>),
    /// As a call that becomes a task after this time, or when its handler detaches.
    Promotable(Option<Duration>),
}

/// Chooses the execution mode from the request of the caller and the mode of the tool.
pub(crate) fn plan(
    server: &ServerState,
    tool: &CatalogEntry<ToolInfo>,
    request: &Request,
) -> Result<CallPlan, Error> {
    match request.tasking {
        TaskRequest::Unknown => return Ok(CallPlan::Plain),
        TaskRequest::Declined if tool.extra.task.is_none() => return Ok(CallPlan::Plain),
        _ => {}
    }
    let (mode, threshold) = (tool.extra.task.as_ref(), server.tasks.options.threshold);
    let support = mode.map(|mode| &mode.support);
    let is_allowed = matches!(support, Some(TaskSupport::Optional | TaskSupport::Required));
    match request.tasking {
        TaskRequest::Wanted(_) if !server.catalog.load().makes_tasks() => Ok(CallPlan::Plain),
        TaskRequest::Wanted(ttl) if is_allowed => Ok(CallPlan::Task(ttl)),
        TaskRequest::Wanted(_) => Err(Error::new(ErrorKind::TaskForbidden)),
        TaskRequest::Welcome if !server.catalog.load().has_tasks() => Ok(CallPlan::Plain),
        TaskRequest::Welcome => Ok(match mode.map(|mode| mode.start) {
            None => threshold.map_or(CallPlan::Plain, |after| CallPlan::Promotable(Some(after))),
            Some(_) if !is_allowed => CallPlan::Plain,
            Some(TaskStart::AtOnce) => CallPlan::Task(None),
            Some(TaskStart::After(after)) => CallPlan::Promotable(Some(
                threshold.map_or(after, |threshold| after.min(threshold)),
            )),
            Some(TaskStart::OnDetach) => CallPlan::Promotable(threshold),
        }),
        TaskRequest::Declined if support == Some(&TaskSupport::Required) => {
            let needed = ClientCapability::Extension(TASKS_EXTENSION.into()).required();
            let data = serde_json::json!({ "requiredCapabilities": needed });
            Err(Error::new(ErrorKind::TaskRequired).with_data(data))
        }
        TaskRequest::Declined | TaskRequest::Unknown => Ok(CallPlan::Plain),
    }
}

/// Creates a task for a call before it starts.
pub(crate) fn create(
    server: &Arc<ServerState>,
    tool: &Arc<CatalogEntry<ToolInfo>>,
    request: Request,
    outbox: &Outbox,
    ttl: Option<u64>,
) -> BoxFuture<Outcome> {
    let (server, tool, timer) = (server.clone(), tool.clone(), outbox.timer().clone());
    Box::pin(async move {
        match create_task(&server, &tool, request, ttl, &timer).await {
            Ok(task) => Outcome::Task(Box::new(task)),
            Err(error) => error.into(),
        }
    })
}

/// Creates a task for this call. It is in the store when this returns.
pub(crate) async fn create_task(
    server: &Arc<ServerState>,
    tool: &Arc<CatalogEntry<ToolInfo>>,
    request: Request,
    ttl: Option<u64>,
    timer: &Arc<dyn Timer>,
) -> Result<Task, Error> {
    let scheduler = server.tasks.scheduler();
    scheduler.start(server, timer);
    let (owner, caller) = (storage::owner(&request), Caller::of(&request.scope));
    let (since, ttl) = (timer.now(), scheduler.ttl(&caller, ttl));
    let saved = SavedCall::from_request(&request, scheduler.options.arguments)?;
    let mut record = new_record(server, owner, saved, ttl).await?;
    let reservation = ByteReservation::new(scheduler, &caller, &record, (since, ttl))?;
    let slot = if scheduler.is_draining() { None } else { scheduler.acquire_slot(&record.owner) };
    let (resources, unclaimed) = match slot {
        Some(slot) => {
            let held = insert_claimed(server, (&mut record, since), slot, timer).await?;
            (Some(held.0), held.1)
        }
        None => (None, insert(server, &mut record, timer).await?),
    };
    reservation.commit();
    let task = notify::task(server, &record);
    tracing::debug!(task = short_id(&task.id), tool = tool.info.name, "created a task");
    match resources {
        // If no thread can be started here, its lease expires and it is claimed again.
        Some(resources) => drop(run::begin(resources, tool.clone(), request, timer.clone(), ttl)),
        None => {
            scheduler.keep_original(&record, request, expiry(since, ttl));
            scheduler.task_store.publish_due(&task.id).await;
        }
    }
    unclaimed.disarm();
    Ok(task)
}

/// Expiry of a task with this `ttl` in milliseconds.
fn expiry(since: Instant, ttl: u64) -> Instant {
    since.checked_add(Duration::from_millis(ttl)).unwrap_or(since)
}

/// Reserved bytes of a task that is not in the store yet; released if the insert fails.
struct ByteReservation<'e> {
    scheduler: &'e TaskScheduler,
    id: Option<String>,
}

impl<'e> ByteReservation<'e> {
    fn new(
        scheduler: &'e TaskScheduler,
        caller: &Caller,
        record: &TaskRecord,
        (since, ttl): (Instant, u64),
    ) -> Result<Self, Error> {
        let times = (since, expiry(since, ttl));
        scheduler.memory.reserve(caller, &record.id, storage::record_bytes(record)?, times)?;
        Ok(ByteReservation { scheduler, id: Some(record.id.clone()) })
    }

    fn commit(mut self) {
        self.id = None;
    }
}

impl Drop for ByteReservation<'_> {
    fn drop(&mut self) {
        if let Some(id) = &self.id {
            self.scheduler.memory.release(id);
        }
    }
}

/// Creates a record with this `ttl` in milliseconds, not yet in the store.
async fn new_record(
    server: &ServerState,
    owner: String,
    call: SavedCall,
    ttl: u64,
) -> Result<TaskRecord, Error> {
    let now = server.tasks.scheduler().task_store.now().await.map_err(unavailable)?;
    // Starts with a letter: on a command line, a dash would start an option.
    let id = format!("t{}", random_name()?);
    Ok(TaskRecord::new(id, owner, call, now, ttl))
}

/// Inserts a record. The task is cancelled again unless the returned guard is disarmed.
async fn insert(
    server: &Arc<ServerState>,
    record: &mut TaskRecord,
    timer: &Arc<dyn Timer>,
) -> Result<CancelUndelivered, Error> {
    let most = server.tasks.options.per_owner;
    let unclaimed = CancelUndelivered::new(server, record, timer);
    match server.tasks.scheduler().task_store.insert(record, most).await {
        Ok(true) => Ok(unclaimed),
        Ok(false) => {
            unclaimed.disarm();
            let text =
                format!("Too many tasks: there are {most} already; wait until some of them expire");
            Err(Error::new(ErrorKind::TooManyTasks).with_message(text))
        }
        Err(error) => Err(unavailable(error)),
    }
}

/// Inserts a record that this process holds from the start.
async fn insert_claimed(
    server: &Arc<ServerState>,
    (record, since): (&mut TaskRecord, Instant),
    slot: RunSlot,
    timer: &Arc<dyn Timer>,
) -> Result<(RunResources, CancelUndelivered), Error> {
    let scheduler = server.tasks.scheduler();
    // The claim cannot fail: a new record is due at once.
    let _ = record.claim(&scheduler.claim()?, record.created);
    let unclaimed = insert(server, record, timer).await?;
    let (task_store, options) = (scheduler.task_store.clone(), scheduler.options.clone());
    let task_run =
        TaskRun::new(record.clone(), since, Default::default(), task_store, options, timer.clone());
    let running = scheduler.register_run(&task_run, true);
    Ok((RunResources { server: server.clone(), task_run, running, slot }, unclaimed))
}

fn unavailable(error: Error) -> Error {
    storage::log_failure(&error, "create a task");
    if error.kind.is_overloaded() {
        return Error::overloaded(STORE_FULL_RETRY_AFTER)
            .with_message("Cannot create a task: the task store is full; try again later");
    }
    Error::new(ErrorKind::TemporarilyUnavailable)
        .with_message("Cannot create a task: the task store cannot be reached; try again later")
        .with_data(serde_json::json!({ "retryAfterMs": 1000 }))
}

/// Runs a call that may be promoted to a task.
pub(crate) fn promotable(
    server: &Arc<ServerState>,
    tool: &Arc<CatalogEntry<ToolInfo>>,
    mut request: Request,
    outbox: Outbox,
    after: Option<Duration>,
) -> BoxFuture<Outcome> {
    // Saved now for the record, while the request still exists.
    let saved = SavedCall::from_request(&request, server.tasks.options.arguments);
    // A call too large to be stored is never promoted.
    let after = after.filter(|_| saved.is_ok());
    let caller = Caller::of(&request.scope);
    let (promotion, timer) = (TaskPromotion::default(), outbox.timer().clone());
    request.scope.insert(promotion.clone());
    let owner = storage::owner(&request);
    let call = ToolCall { server, tool };
    let (exchange, inner) = call.start(request, timer.clone(), outbox.deadlines());
    // The deadlines of the inner call apply.
    outbox.set_deadlines(Deadlines { idle: None, total: None });
    let promotable = PromotableCall {
        server: server.clone(),
        tool: tool.clone(),
        owner,
        caller,
        saved,
        promotion,
        inner,
        outbox,
        timer,
        after,
        alarm: None,
        forwarded: Vec::new(),
    };
    Box::pin(promotable.run(exchange))
}

struct PromotableCall {
    server: Arc<ServerState>,
    tool: Arc<CatalogEntry<ToolInfo>>,
    owner: String,
    caller: Caller,
    saved: Result<SavedCall, Error>,
    promotion: TaskPromotion,
    /// Outbox of the inner call, and the outbox to the caller.
    inner: Outbox,
    outbox: Outbox,
    timer: Arc<dyn Timer>,
    after: Option<Duration>,
    alarm: Option<BoxFuture<()>>,
    forwarded: Vec<(ClientRequestId, ResponseFuture)>,
}

#[derive(Debug)]
enum PromotionEvent {
    Event(Event),
    /// The call has exceeded its threshold.
    Long,
    /// The handler requested to be detached.
    Detach,
}

impl PromotableCall {
    async fn run(mut self, mut exchange: ActiveCall) -> Outcome {
        loop {
            match poll_fn(|cx| self.poll(&mut exchange, cx)).await {
                PromotionEvent::Event(Event::Done(outcome)) => return outcome,
                PromotionEvent::Event(event) => self.pass_on(event).await,
                reason => match self.promote().await {
                    Ok((task, resources)) => {
                        // Its client requests can be answered for as long as the task is kept.
                        exchange.extend(task.ttl.map_or(Duration::MAX, Duration::from_millis));
                        // If no thread can be started here, its lease expires and it is claimed
                        // again.
                        run::continue_call(resources, exchange, self.timer);
                        return Outcome::Task(Box::new(task));
                    }
                    Err(error) => {
                        tracing::debug!(%error, ?reason, "cannot promote a call to a task");
                        self.promotion.decline(error);
                        self.after = self.after.map(|after| after.max(PROMOTION_RETRY_DELAY));
                    }
                },
            }
        }
    }

    fn poll(&mut self, exchange: &mut ActiveCall, cx: &mut Context<'_>) -> Poll<PromotionEvent> {
        let answers = exchange.response_sender();
        self.forwarded.retain_mut(|(id, answering)| match Pin::new(answering).poll(cx) {
            Poll::Ready(answer) => {
                answers.deliver(*id, answer);
                false
            }
            Poll::Pending => true,
        });
        if let Poll::Ready(event) = exchange.poll_event(cx) {
            return Poll::Ready(PromotionEvent::Event(event));
        }
        // A client request is pending at the caller, which responds to this call.
        if !self.forwarded.is_empty() {
            return Poll::Pending;
        }
        if self.promotion.poll_requested(cx).is_ready() {
            return Poll::Ready(PromotionEvent::Detach);
        }
        let Some(after) = self.after else { return Poll::Pending };
        let timer = &self.timer;
        let alarm = self.alarm.get_or_insert_with(|| timer.sleep_until(timer.now() + after));
        if alarm.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        self.alarm = None;
        Poll::Ready(PromotionEvent::Long)
    }

    async fn pass_on(&mut self, event: Event) {
        match event {
            Event::Notify(notification) => {
                self.outbox.notify(notification);
                self.outbox.wait_for_capacity().await;
            }
            Event::ClientRequest(id, ask) => self.forwarded.push((id, self.outbox.ask(ask))),
            Event::Withdraw(id) => self.forwarded.retain(|(asked, _)| *asked != id),
            Event::LetGo => self.outbox.release_connection(),
            Event::Done(_) => {}
        }
    }

    /// Promotes the running call to a task. Its handler is not polled meanwhile, though a thread of
    /// its own may continue.
    async fn promote(&mut self) -> Result<(Task, RunResources), Error> {
        let scheduler = self.server.tasks.scheduler();
        let slot = scheduler
            .acquire_slot(&self.owner)
            .ok_or_else(|| Error::overloaded(Duration::from_secs(1)))?;
        scheduler.start(&self.server, &self.timer);
        let ctx = self.promotion.ctx();
        let since = self.timer.now();
        let ttl = scheduler.ttl(&self.caller, None);
        let mut record =
            new_record(&self.server, self.owner.clone(), self.saved.clone()?, ttl).await?;
        let reservation = ByteReservation::new(scheduler, &self.caller, &record, (since, ttl))?;
        if let Some(ctx) = &ctx {
            ctx.run().export_to(&mut record);
        }
        let (resources, unclaimed) =
            insert_claimed(&self.server, (&mut record, since), slot, &self.timer).await?;
        reservation.commit();
        // From here on, steps and client requests are stored.
        let waiting = self.promotion.bind(resources.task_run.clone());
        let missed = ctx.map(|ctx| ctx.bind(&record.steps)).unwrap_or_default();
        for (name, json) in missed {
            resources.task_run.save_step(&name, &json).await;
        }
        waiting.into_iter().for_each(Waker::wake);
        if self.tool.deadlines.is_none() {
            self.inner.set_deadlines(run::task_deadlines(scheduler.options.task_ttl(None)));
        }
        tracing::debug!(
            task = short_id(&record.id),
            tool = self.tool.info.name,
            "promoted a call to a task"
        );
        unclaimed.disarm();
        Ok((notify::task(&self.server, &record), resources))
    }
}
