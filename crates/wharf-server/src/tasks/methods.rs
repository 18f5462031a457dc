//! The methods `tasks/get`, `tasks/update`, `tasks/cancel`, `tasks/list` and `tasks/result`.

use std::{
    collections::{BTreeMap, BTreeSet},
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::Poll,
    time::Duration,
};

use serde_json::value::RawValue;
use wharf_model::{
    BoxFuture, Caller, ClientCapability, Deadlines, Error, ErrorKind, InputMode, Method,
    Notification, Outbox, Outcome, Reply, Request, ResponseFuture, TASKS_EXTENSION, TaskRequest,
    TaskStatus, Timer,
};

use crate::{
    notifications::ActiveSubscription,
    router::{
        catalog::{CatalogSnapshot, ListedItem},
        dispatch::not_supported,
        state::ServerState,
    },
    tasks::{
        create::STORE_FULL_RETRY_AFTER,
        scheduler::TaskWatch,
        storage,
        storage::{
            UpdateResult,
            owner::principal_owner,
            record::{ChangeRejection, ClientResponse, RecordChanged, TaskEnd, TaskRecord},
            stored_types::SavedError,
        },
        task_view,
    },
};

/// Tasks on one page of `tasks/list`. Each may carry a result, and a page is loaded as a whole.
const TASKS_PER_PAGE: usize = 10;

/// Answers a task request.
pub(crate) fn run(
    server: &Arc<ServerState>,
    request: Request,
    outbox: Outbox,
) -> BoxFuture<Outcome> {
    let server = server.clone();
    Box::pin(async move {
        let done = match request.method {
            Method::GetTask => get(&server, &request).await,
            Method::UpdateTask => update(&server, &request, &outbox).await,
            Method::CancelTask => cancel(&server, &request, &outbox).await,
            Method::ListTasks => list(&server, &request).await,
            _ => result(&server, &request, &outbox).await,
        };
        done.unwrap_or_else(Into::into)
    })
}

/// Checks that the caller may send task requests at all.
pub(crate) fn check_supported(catalog: &CatalogSnapshot, request: &Request) -> Result<(), Error> {
    let (has_tasks, method) = (catalog.has_tasks(), request.method);
    match request.tasking {
        _ if !has_tasks && method == Method::Listen => Ok(()),
        _ if !has_tasks => Err(not_supported(method)),
        TaskRequest::Declined => {
            Err(Error::missing_capability(ClientCapability::Extension(TASKS_EXTENSION.into())))
        }
        TaskRequest::Unknown if method != Method::Listen => Err(not_supported(method)),
        _ => Ok(()),
    }
}

/// Error for an unknown id, a foreign one and an expired one; it is the same to the byte.
fn not_found() -> Error {
    Error::new(ErrorKind::TaskNotFound)
}

async fn load(server: &ServerState, request: &Request) -> Result<TaskRecord, Error> {
    let principal = request.principal();
    let found = server.tasks.scheduler().task_store.load_owned(&request.target(), principal).await;
    let record = found.map_err(store_error)?.ok_or_else(not_found)?;
    may_see(server, request, &record)?;
    Ok(record)
}

/// Checks that the caller may use the tool of a task: its token may have fewer rights than the one
/// that created the task. If the tool was removed, access to the task remains.
pub(super) fn may_see(
    server: &ServerState,
    request: &Request,
    record: &TaskRecord,
) -> Result<(), Error> {
    let catalog = server.catalog.load();
    let Some(tool) = catalog.lists.tools.get(&record.call.tool) else { return Ok(()) };
    if !server.allows(request, tool.info.item()) {
        return Err(not_found());
    }
    server.missing_scopes(request, &tool.scopes).map_or(Ok(()), Err)
}

/// Loads the task with this id, if the caller owns it and may access it.
async fn load_visible(
    server: &ServerState,
    request: &Request,
    id: &str,
) -> Result<Option<TaskRecord>, Error> {
    let found = server.tasks.scheduler().task_store.load_owned(id, request.principal()).await?;
    Ok(found.filter(|record| may_see(server, request, record).is_ok()))
}

/// Replaces an error of the store. Its message is only logged, because it may reveal where the
/// store is.
fn store_error(error: Error) -> Error {
    if error == Error::new(ErrorKind::InternalError) {
        return error;
    }
    storage::log_failure(&error, "answer a request about tasks");
    if error.kind.is_overloaded() {
        return Error::overloaded(STORE_FULL_RETRY_AFTER)
            .with_message("The task store is full; try again later");
    }
    Error::new(ErrorKind::TemporarilyUnavailable)
        .with_message("The task store cannot be reached; try again later")
        .with_data(serde_json::json!({ "retryAfterMs": 1000 }))
}

async fn get(server: &ServerState, request: &Request) -> Result<Outcome, Error> {
    let record = load(server, request).await?;
    Ok(Reply::Task(Box::new(task_view::task(server, &record))).into())
}

async fn update(
    server: &ServerState,
    request: &Request,
    outbox: &Outbox,
) -> Result<Outcome, Error> {
    let record = load(server, request).await?;
    let responses = answers(server, request)?;
    store(server, &record.id, &responses, &**outbox.timer()).await?;
    Ok(Reply::TaskUpdated.into())
}

/// Parses the `inputResponses` of an update.
fn answers(
    server: &ServerState,
    request: &Request,
) -> Result<BTreeMap<String, ClientResponse>, Error> {
    let invalid = |text: String| {
        let data = serde_json::json!({ "field": "inputResponses" });
        Error::new(ErrorKind::InvalidParams).with_message(text).with_data(data)
    };
    let json = request.input_responses();
    let json = json.ok_or_else(|| invalid("Missing inputResponses".into()))?;
    let responses: BTreeMap<String, Box<RawValue>> =
        serde_json::from_str(json).map_err(|error| {
            invalid(format!("Invalid inputResponses: it is not an object: {error}"))
        })?;
    let most = server.tasks.options.item;
    if responses.values().any(|json| json.get().len() > most) {
        return Err(invalid(format!("Invalid inputResponses: the limit is {most} bytes for each")));
    }
    Ok(responses.into_iter().map(|(key, json)| (key, ClientResponse::Result(json))).collect())
}

async fn store(
    server: &ServerState,
    id: &str,
    responses: &BTreeMap<String, ClientResponse>,
    timer: &dyn Timer,
) -> Result<(), Error> {
    let task_store = &server.tasks.scheduler().task_store;
    let answered =
        task_store.update(id, None, timer, |record, now| record.answer(responses, now)).await;
    match answered.map_err(store_error)? {
        UpdateResult::Done(_, RecordChanged::Yes) => task_store.publish_changed(id).await,
        UpdateResult::Gone => return Err(not_found()),
        _ => {}
    }
    Ok(())
}

async fn cancel(
    server: &ServerState,
    request: &Request,
    outbox: &Outbox,
) -> Result<Outcome, Error> {
    let id = load(server, request).await?.id;
    let task_store = &server.tasks.scheduler().task_store;
    let timer = &**outbox.timer();
    let cancelled = task_store.update(&id, None, timer, TaskRecord::cancel).await;
    let (record, too_late) = match cancelled.map_err(store_error)? {
        UpdateResult::Done(record, _) => (record, false),
        UpdateResult::Refused(ChangeRejection::Over, record) => (record, true),
        _ => return Err(not_found()),
    };
    // Also if it had already ended: the process that ended it may not have received the
    // confirmation of the store.
    server.tasks.scheduler().drop_run(&id);
    task_store.publish_changed(&id).await;
    let task = Box::new(task_view::task(server, &record));
    // The revision decides whether a late cancellation is an error: `Codec::task_cancelled` in `wharf-wire`.
    Ok(Reply::TaskCancelled { task, too_late }.into())
}

async fn list(server: &ServerState, request: &Request) -> Result<Outcome, Error> {
    let Some(principal) = request.principal() else { return Err(not_supported(request.method)) };
    let context = format!("cursor\0{}\0principal\0{}", request.method.name(), principal.id());
    let context = context.into_bytes();
    let after = match request.json(request.parts().cursor) {
        None | Some("null") => None,
        Some(_) => {
            let opened =
                request.cursor().and_then(|cursor| server.state_cipher.open(&context, &cursor));
            let id = opened.and_then(|plain| String::from_utf8(plain).ok());
            Some(id.ok_or_else(|| Error::new(ErrorKind::InvalidCursor))?)
        }
    };
    let most = server.limits.page.clamp(1, TASKS_PER_PAGE);
    let wanted = request.limit().and_then(|limit| usize::try_from(limit).ok());
    let size = wanted.map_or(most, |wanted| wanted.clamp(1, most));
    let (owner, task_store) = (principal_owner(principal), &server.tasks.scheduler().task_store);
    let records = task_store.list(&owner, after.as_deref(), size + 1).await;
    let mut records = records.map_err(store_error)?;
    // If the task of the cursor is gone, the position in the list is unknown; an empty page would
    // mean the end of the list.
    if let Some(after) = after.filter(|_| records.is_empty())
        && task_store.load_owned(&after, Some(principal)).await.map_err(store_error)?.is_none()
    {
        return Err(Error::new(ErrorKind::InvalidCursor));
    }
    let more = records.len() > size;
    records.truncate(size);
    let last = records.last().filter(|_| more);
    let next = last.map(|record| server.state_cipher.seal(&context, record.id.as_bytes()));
    let seen = records.iter().filter(|record| may_see(server, request, record).is_ok());
    let tasks = seen.map(|record| task_view::task(server, record)).collect();
    Ok(Reply::TaskList { tasks, next }.into())
}

/// Waits for the end of a task. Meanwhile its client requests are sent to this caller.
async fn result(
    server: &Arc<ServerState>,
    request: &Request,
    outbox: &Outbox,
) -> Result<Outcome, Error> {
    let Some(_waiting) = server.tasks.scheduler().acquire_wait_slot(&Caller::of(&request.scope))
    else {
        return Err(Error::overloaded(Duration::from_secs(1)));
    };
    outbox.set_deadlines(Deadlines::NONE);
    server.tasks.scheduler().start(server, outbox.timer());
    let watch = server.tasks.scheduler().watch(&request.target());
    let mut pending = PendingInputRequests::default();
    loop {
        let record = load(server, request).await?;
        if let Some(end) = &record.end {
            return outcome(end);
        }
        if request.asks == InputMode::Deliver {
            pending.send_new(&record, outbox);
        }
        let responses = pending.wait(&watch, server.tasks.options.item, &**outbox.timer()).await;
        if !responses.is_empty() && !outbox.is_closed() {
            store(server, &record.id, &responses, &**outbox.timer()).await?;
        }
    }
}

/// The outcome that the call itself would have had.
pub(crate) fn outcome(end: &TaskEnd) -> Result<Outcome, Error> {
    match end {
        TaskEnd::Completed(result) => Ok(Reply::Tool((**result).clone()).into()),
        TaskEnd::Failed(error) => Err(error.into()),
        TaskEnd::Cancelled => Err(Error::new(ErrorKind::TaskCancelled)),
    }
}

/// Client requests of a task that were sent to one caller.
#[derive(Default)]
struct PendingInputRequests {
    in_flight: Vec<(String, ResponseFuture)>,
    /// Keys already sent to this caller, which responded or cannot.
    sent: BTreeSet<String>,
}

impl PendingInputRequests {
    /// Sends the open requests that are new, and withdraws those that are not open any more.
    fn send_new(&mut self, record: &TaskRecord, outbox: &Outbox) {
        self.in_flight.retain(|(key, _)| record.open.iter().any(|question| question.key == *key));
        for (key, ask) in record.questions() {
            if self.sent.insert(key.clone()) {
                self.in_flight.push((key, outbox.ask(ask)));
            }
        }
    }

    /// Waits for responses of up to `most` bytes, for a change of the task, or until the next
    /// check.
    async fn wait(
        &mut self,
        watch: &TaskWatch,
        most: usize,
        timer: &dyn Timer,
    ) -> BTreeMap<String, ClientResponse> {
        let mut alarm = timer.sleep_until(watch.next_check(timer));
        poll_fn(|cx| {
            let mut responses = BTreeMap::new();
            self.in_flight.retain_mut(|(key, answering)| match Pin::new(answering).poll(cx) {
                Poll::Ready(answer) => {
                    responses
                        .extend(parse_response(answer, most).map(|answer| (key.clone(), answer)));
                    false
                }
                Poll::Pending => true,
            });
            let late = alarm.as_mut().poll(cx).is_ready();
            if late || !responses.is_empty() || watch.wake_signal.poll_notified(cx).is_ready() {
                return Poll::Ready(responses);
            }
            Poll::Pending
        })
        .await
    }
}

/// Parses a response of up to `most` bytes; `None` if this caller cannot answer the request.
fn parse_response(answer: Result<String, Error>, most: usize) -> Option<ClientResponse> {
    match answer {
        // The handler gets an error: this caller is not asked again.
        Ok(json) if json.len() > most => {
            let text = format!("The response has {} bytes; {most} is the limit", json.len());
            let error = Error::new(ErrorKind::InvalidParams).with_message(text);
            Some(ClientResponse::Refused((&error).into()))
        }
        Ok(json) => RawValue::from_string(json).ok().map(ClientResponse::Result),
        Err(error) if error.kind.is_missing_client_capability() => None,
        Err(error) if error.kind.is_request_cancelled() => None,
        Err(error) => Some(ClientResponse::Refused(SavedError::within_limit(&error, most))),
    }
}

/// Filters the named tasks to those that the caller owns.
pub(crate) async fn owned(
    server: &Arc<ServerState>,
    request: &Request,
    named: BTreeSet<String>,
    outbox: &Outbox,
) -> Result<BTreeSet<String>, Error> {
    server.tasks.scheduler().start(server, outbox.timer());
    let mut owned = BTreeSet::new();
    for id in named.into_iter().take(server.limits.subscriptions) {
        if load_visible(server, request, &id).await.map_err(store_error)?.is_some() {
            owned.insert(id);
        }
    }
    Ok(owned)
}

/// Sends a new subscriber the status of tasks that changed before it subscribed.
pub(crate) async fn send_statuses(
    server: &ServerState,
    tasks: &BTreeSet<String>,
    subscription: &ActiveSubscription,
) {
    for id in tasks {
        let Ok(Some(record)) = server.tasks.scheduler().task_store.load(id).await else { continue };
        send_status(server, &record, subscription);
    }
}

pub(super) fn send_status(
    server: &ServerState,
    record: &TaskRecord,
    subscription: &ActiveSubscription,
) {
    let task = task_view::task(server, record);
    if task.status() != TaskStatus::Working {
        subscription.notify(&Notification::Task(Box::new(task)));
    }
}
