//! Creates tasks: inserts their records, and starts them if this process has a free slot.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use wharf_model::{
    BoxFuture, Caller, Error, ErrorKind, Outbox, Outcome, Request, Task, TaskChange, Timer,
    ToolInfo,
};

use crate::{
    key_ring::random_name,
    router::{catalog::CatalogEntry, state::ServerState},
    tasks::{
        cancel_undelivered::CancelUndelivered,
        run,
        run::{RunResources, state::TaskRun},
        scheduler::{RunSlot, TaskScheduler},
        storage,
        storage::{owner::owner_of, record::TaskRecord, stored_types::SavedCall},
        task_view,
    },
};

/// Retry delay sent to clients while the store is full.
pub(super) const STORE_FULL_RETRY_AFTER: Duration = Duration::from_secs(60);

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
    mut request: Request,
    ttl: Option<u64>,
    timer: &Arc<dyn Timer>,
) -> Result<Task, Error> {
    // The run is in the trace of this call, also if another process takes it over.
    request.continue_trace();
    let scheduler = server.tasks.scheduler();
    scheduler.start(server, timer);
    let (owner, caller) = (owner_of(&request), Caller::of(&request.scope));
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
    let task = task_view::task(server, &record);
    scheduler.task_store.report_change(&record, TaskChange::Created);
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
pub(super) struct ByteReservation<'e> {
    scheduler: &'e TaskScheduler,
    id: Option<String>,
}

impl<'e> ByteReservation<'e> {
    pub(super) fn new(
        scheduler: &'e TaskScheduler,
        caller: &Caller,
        record: &TaskRecord,
        (since, ttl): (Instant, u64),
    ) -> Result<Self, Error> {
        let times = (since, expiry(since, ttl));
        scheduler.memory.reserve(caller, &record.id, storage::record_bytes(record)?, times)?;
        Ok(ByteReservation { scheduler, id: Some(record.id.clone()) })
    }

    pub(super) fn commit(mut self) {
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
pub(super) async fn new_record(
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
pub(super) async fn insert_claimed(
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
