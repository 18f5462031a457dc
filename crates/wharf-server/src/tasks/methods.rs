//! What owners ask of their tasks.

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
    Answering, BoxFuture, Caller, ClientCapability, Deadlines, Error, ErrorKind, InputMode, Method,
    Notification, Outbox, Outcome, Reply, Request, TASKS_EXTENSION, TaskRequest, TaskStatus, Timer,
};

use crate::{
    notifications::Listening,
    router::{
        catalog::{Listed, Snapshot},
        not_supported,
        state::Core,
    },
    tasks::{
        create::WHEN_FULL,
        notify,
        scheduler::Watch,
        storage,
        storage::{
            Update,
            record::{Changed, End, Refusal, Said, TaskRecord},
            stored_types::SavedError,
        },
    },
};

/// Tasks on one page of a list. Each may carry a result, and all of a page are loaded at once.
const PAGE: usize = 10;

/// Answers a call about tasks.
pub(crate) fn run(core: &Arc<Core>, request: Request, outbox: Outbox) -> BoxFuture<Outcome> {
    let core = core.clone();
    Box::pin(async move {
        let done = match request.method {
            Method::GetTask => get(&core, &request).await,
            Method::UpdateTask => update(&core, &request, &outbox).await,
            Method::CancelTask => cancel(&core, &request, &outbox).await,
            Method::ListTasks => list(&core, &request).await,
            _ => result(&core, &request, &outbox).await,
        };
        done.unwrap_or_else(Into::into)
    })
}

/// Whether the caller may ask about tasks at all.
pub(crate) fn may_follow(snapshot: &Snapshot, request: &Request) -> Result<(), Error> {
    let (has_tasks, method) = (snapshot.has_tasks(), request.method);
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

/// The same for an unknown id, a foreign one and one that has expired, to the byte.
fn not_found() -> Error {
    Error::new(ErrorKind::TaskNotFound)
}

async fn load(core: &Core, request: &Request) -> Result<TaskRecord, Error> {
    let principal = request.principal();
    let found = core.tasks.engine().ledger.load_of(&request.target(), principal).await;
    let record = found.map_err(unanswered)?.ok_or_else(not_found)?;
    may_see(core, request, &record)?;
    Ok(record)
}

/// Whether the owner may use the tool of a task: another token of the same owner's may be good for less than the one
/// that began it. A tool that is gone keeps nobody from what it has done.
pub(super) fn may_see(core: &Core, request: &Request, record: &TaskRecord) -> Result<(), Error> {
    let snapshot = core.snapshot.load();
    let Some(tool) = snapshot.lists.tools.get(&record.call.tool) else { return Ok(()) };
    if !core.allows(request, tool.info.item()) {
        return Err(not_found());
    }
    core.lacks(request, &tool.scopes).map_or(Ok(()), Err)
}

/// The task with this id, if the caller owns it and may see it.
async fn visible(core: &Core, request: &Request, id: &str) -> Result<Option<TaskRecord>, Error> {
    let found = core.tasks.engine().ledger.load_of(id, request.principal()).await?;
    Ok(found.filter(|record| may_see(core, request, record).is_ok()))
}

/// What a store says is for the server's log: it may be somebody's own, and say where it is.
fn unanswered(error: Error) -> Error {
    if error == Error::new(ErrorKind::InternalError) {
        return error;
    }
    storage::log_failure(&error, "answer a request about tasks");
    if error.kind.is_overloaded() {
        return Error::overloaded(WHEN_FULL).with_message("The store of tasks is full");
    }
    Error::new(ErrorKind::TemporarilyUnavailable)
        .with_message("The store of tasks does not answer")
        .with_data(serde_json::json!({ "retryAfterMs": 1000 }))
}

async fn get(core: &Core, request: &Request) -> Result<Outcome, Error> {
    let record = load(core, request).await?;
    Ok(Reply::Task(Box::new(notify::task(core, &record))).into())
}

async fn update(core: &Core, request: &Request, outbox: &Outbox) -> Result<Outcome, Error> {
    let record = load(core, request).await?;
    let said = answers(core, request)?;
    store(core, &record.id, &said, &**outbox.timer()).await?;
    Ok(Reply::TaskUpdated.into())
}

/// The answers that came with an update.
fn answers(core: &Core, request: &Request) -> Result<BTreeMap<String, Said>, Error> {
    let invalid = |text: String| {
        let data = serde_json::json!({ "field": "inputResponses" });
        Error::new(ErrorKind::InvalidParams).with_message(text).with_data(data)
    };
    let json = request.input_responses();
    let json = json.ok_or_else(|| invalid("Missing inputResponses".into()))?;
    let responses: BTreeMap<String, Box<RawValue>> = serde_json::from_str(json)
        .map_err(|error| invalid(format!("Invalid inputResponses: it is no object: {error}")))?;
    let most = core.tasks.options.item;
    if responses.values().any(|json| json.get().len() > most) {
        return Err(invalid(format!(
            "Invalid inputResponses: {most} bytes are the limit for each"
        )));
    }
    Ok(responses.into_iter().map(|(key, json)| (key, Said::Result(json))).collect())
}

async fn store(
    core: &Core,
    id: &str,
    said: &BTreeMap<String, Said>,
    timer: &dyn Timer,
) -> Result<(), Error> {
    let ledger = &core.tasks.engine().ledger;
    let answered = ledger.update(id, None, timer, |record, now| record.answer(said, now)).await;
    match answered.map_err(unanswered)? {
        Update::Done(_, Changed::Yes) => ledger.tell(id).await,
        Update::Gone => return Err(not_found()),
        _ => {}
    }
    Ok(())
}

async fn cancel(core: &Core, request: &Request, outbox: &Outbox) -> Result<Outcome, Error> {
    let id = load(core, request).await?.id;
    let ledger = &core.tasks.engine().ledger;
    let timer = &**outbox.timer();
    let cancelled = ledger.update(&id, None, timer, TaskRecord::cancel).await;
    let (record, too_late) = match cancelled.map_err(unanswered)? {
        Update::Done(record, _) => (record, false),
        Update::Refused(Refusal::Over, record) => (record, true),
        _ => return Err(not_found()),
    };
    // Even if it was over before: whoever ended it may not have heard from the store that it did.
    core.tasks.engine().drop_run(&id);
    ledger.tell(&id).await;
    let task = Box::new(notify::task(core, &record));
    Ok(Reply::TaskCancelled { task, too_late }.into())
}

async fn list(core: &Core, request: &Request) -> Result<Outcome, Error> {
    let Some(principal) = request.principal() else { return Err(not_supported(request.method)) };
    let context = format!("cursor\0{}\0principal\0{}", request.method.name(), principal.id());
    let context = context.into_bytes();
    let after = match request.json(request.parts().cursor) {
        None | Some("null") => None,
        Some(_) => {
            let opened = request.cursor().and_then(|cursor| core.seal.open(&context, &cursor));
            let id = opened.and_then(|plain| String::from_utf8(plain).ok());
            Some(id.ok_or_else(|| Error::new(ErrorKind::InvalidCursor))?)
        }
    };
    let most = core.limits.page.clamp(1, PAGE);
    let wanted = request.limit().and_then(|limit| usize::try_from(limit).ok());
    let size = wanted.map_or(most, |wanted| wanted.clamp(1, most));
    let (owner, ledger) = (storage::principal_owner(principal), &core.tasks.engine().ledger);
    let records = ledger.list(&owner, after.as_deref(), size + 1).await;
    let mut records = records.map_err(unanswered)?;
    // Where a list goes on after a task that is gone, nobody knows: that is not its end.
    if let Some(after) = after.filter(|_| records.is_empty())
        && ledger.load_of(&after, Some(principal)).await.map_err(unanswered)?.is_none()
    {
        return Err(Error::new(ErrorKind::InvalidCursor));
    }
    let more = records.len() > size;
    records.truncate(size);
    let last = records.last().filter(|_| more);
    let next = last.map(|record| core.seal.seal(&context, record.id.as_bytes()));
    let seen = records.iter().filter(|record| may_see(core, request, record).is_ok());
    let tasks = seen.map(|record| notify::task(core, record)).collect();
    Ok(Reply::TaskList { tasks, next }.into())
}

/// Waits for the end of a task. Meanwhile its questions go to the caller, who can answer them.
async fn result(core: &Arc<Core>, request: &Request, outbox: &Outbox) -> Result<Outcome, Error> {
    let Some(_waiting) = core.tasks.engine().wait(&Caller::of(&request.scope)) else {
        return Err(Error::overloaded(Duration::from_secs(1)));
    };
    outbox.set_deadlines(Deadlines { idle: None, total: None });
    core.tasks.engine().start(core, outbox.timer());
    let watch = core.tasks.engine().watch(&request.target());
    let mut asking = Asking::default();
    loop {
        let record = load(core, request).await?;
        if let Some(end) = &record.end {
            return outcome(end);
        }
        if request.asks == InputMode::Deliver {
            asking.put(&record, outbox);
        }
        let said = asking.wait(&watch, core.tasks.options.item, &**outbox.timer()).await;
        if !said.is_empty() && !outbox.is_closed() {
            store(core, &record.id, &said, &**outbox.timer()).await?;
        }
    }
}

/// What the call would have ended with.
pub(crate) fn outcome(end: &End) -> Result<Outcome, Error> {
    match end {
        End::Completed(result) => Ok(Reply::Tool((**result).clone()).into()),
        End::Failed(error) => Err(error.into()),
        End::Cancelled => Err(Error::new(ErrorKind::TaskCancelled)),
    }
}

/// Questions of a task that are on their way to one caller.
#[derive(Default)]
struct Asking {
    under_way: Vec<(String, Answering)>,
    /// Put to this caller already, who answered or cannot.
    put: BTreeSet<String>,
}

impl Asking {
    /// Puts what is open and was not put yet, and withdraws what is not open any more.
    fn put(&mut self, record: &TaskRecord, outbox: &Outbox) {
        self.under_way.retain(|(key, _)| record.open.iter().any(|question| question.key == *key));
        for (key, ask) in record.questions() {
            if self.put.insert(key.clone()) {
                self.under_way.push((key, outbox.ask(ask)));
            }
        }
    }

    /// Waits for answers of up to `most` bytes, for news of the task, or for as long as is sensible.
    async fn wait(
        &mut self,
        watch: &Watch,
        most: usize,
        timer: &dyn Timer,
    ) -> BTreeMap<String, Said> {
        let mut alarm = timer.sleep_until(watch.patience(timer));
        poll_fn(|cx| {
            let mut said = BTreeMap::new();
            self.under_way.retain_mut(|(key, answering)| match Pin::new(answering).poll(cx) {
                Poll::Ready(answer) => {
                    said.extend(understand(answer, most).map(|answer| (key.clone(), answer)));
                    false
                }
                Poll::Pending => true,
            });
            let late = alarm.as_mut().poll(cx).is_ready();
            if late || !said.is_empty() || watch.bell.poll_rung(cx).is_ready() {
                return Poll::Ready(said);
            }
            Poll::Pending
        })
        .await
    }
}

/// What an answer says, in no more than so many bytes; nothing if this caller was the wrong one to
/// ask.
fn understand(answer: Result<String, Error>, most: usize) -> Option<Said> {
    match answer {
        // Whoever asked is told: this caller is not asked again.
        Ok(json) if json.len() > most => {
            let text = format!("The answer has {} bytes; {most} is the limit", json.len());
            let error = Error::new(ErrorKind::InvalidParams).with_message(text);
            Some(Said::Refused((&error).into()))
        }
        Ok(json) => RawValue::from_string(json).ok().map(Said::Result),
        Err(error) if error.kind.is_missing_client_capability() => None,
        Err(error) if error.kind.is_request_cancelled() => None,
        Err(error) => Some(Said::Refused(SavedError::within(&error, most))),
    }
}

/// Those of the named tasks that are the caller's.
pub(crate) async fn owned(
    core: &Arc<Core>,
    request: &Request,
    named: BTreeSet<String>,
    outbox: &Outbox,
) -> Result<BTreeSet<String>, Error> {
    core.tasks.engine().start(core, outbox.timer());
    let mut owned = BTreeSet::new();
    for id in named.into_iter().take(core.limits.subscriptions) {
        if visible(core, request, &id).await.map_err(unanswered)?.is_some() {
            owned.insert(id);
        }
    }
    Ok(owned)
}

/// Tells a listener of tasks that have got somewhere before it came.
pub(crate) async fn tell_of(core: &Core, tasks: &BTreeSet<String>, listening: &Listening) {
    for id in tasks {
        let Ok(Some(record)) = core.tasks.engine().ledger.load(id).await else { continue };
        tell_one(core, &record, listening);
    }
}

pub(super) fn tell_one(core: &Core, record: &TaskRecord, listening: &Listening) {
    let task = notify::task(core, record);
    if task.status() != TaskStatus::Working {
        listening.tell(&Notification::Task(Box::new(task)));
    }
}
