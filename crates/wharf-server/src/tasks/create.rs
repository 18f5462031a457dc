//! Which calls become tasks, and how.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use wharf_model::{
    ActiveCall, Answering, BoxFuture, Caller, ClientCapability, ClientRequestId, Deadlines, Error,
    ErrorKind, Event, Outbox, Outcome, Request, TASKS_EXTENSION, Task, TaskRequest, TaskSupport,
    Timer, ToolInfo,
};

use crate::{
    key_ring::random_name,
    router::{catalog::Entry, state::Core},
    tasks::{
        cancel_unclaimed::Orphan,
        notify,
        notify::short,
        options::TaskStart,
        promotion::Bond,
        run,
        run::{Holding, ToolCall, state::Link},
        scheduler::{Engine, Place},
        storage,
        storage::{record::TaskRecord, stored_types::SavedCall},
    },
};

/// How soon a call is tried to be made a task again, at the earliest.
const AGAIN: Duration = Duration::from_secs(1);

/// When a client may try again that found the store full.
pub(super) const WHEN_FULL: Duration = Duration::from_secs(60);

/// How a call of a tool is run.
#[derive(Debug, PartialEq)]
pub(crate) enum Plan {
    Plain,
    /// As a task, kept for so many milliseconds.
    Task(Option<u64>),
    /// As a call that becomes a task after this time, or where its handler says so.
    Promotable(Option<Duration>),
}

/// What the caller and the tool agree on.
pub(crate) fn plan(core: &Core, tool: &Entry<ToolInfo>, request: &Request) -> Result<Plan, Error> {
    match request.tasking {
        TaskRequest::Unknown => return Ok(Plan::Plain),
        TaskRequest::Declined if tool.extra.task.is_none() => return Ok(Plan::Plain),
        _ => {}
    }
    let (mode, threshold) = (tool.extra.task.as_ref(), core.tasks.options.threshold);
    let support = mode.map(|mode| &mode.support);
    let is_allowed = matches!(support, Some(TaskSupport::Optional | TaskSupport::Required));
    match request.tasking {
        TaskRequest::Wanted(_) if !core.snapshot.load().makes_tasks() => Ok(Plan::Plain),
        TaskRequest::Wanted(ttl) if is_allowed => Ok(Plan::Task(ttl)),
        TaskRequest::Wanted(_) => Err(Error::new(ErrorKind::TaskForbidden)),
        TaskRequest::Welcome if !core.snapshot.load().has_tasks() => Ok(Plan::Plain),
        TaskRequest::Welcome => Ok(match mode.map(|mode| mode.start) {
            None => threshold.map_or(Plan::Plain, |after| Plan::Promotable(Some(after))),
            Some(_) if !is_allowed => Plan::Plain,
            Some(TaskStart::AtOnce) => Plan::Task(None),
            Some(TaskStart::After(after)) => {
                Plan::Promotable(Some(threshold.map_or(after, |threshold| after.min(threshold))))
            }
            Some(TaskStart::OnDetach) => Plan::Promotable(threshold),
        }),
        TaskRequest::Declined if support == Some(&TaskSupport::Required) => {
            let needed = ClientCapability::Extension(TASKS_EXTENSION.into()).required();
            let data = serde_json::json!({ "requiredCapabilities": needed });
            Err(Error::new(ErrorKind::TaskRequired).with_data(data))
        }
        TaskRequest::Declined | TaskRequest::Unknown => Ok(Plan::Plain),
    }
}

/// Makes a task of a call before it begins.
pub(crate) fn create(
    core: &Arc<Core>,
    tool: &Arc<Entry<ToolInfo>>,
    request: Request,
    outbox: &Outbox,
    ttl: Option<u64>,
) -> BoxFuture<Outcome> {
    let (core, tool, timer) = (core.clone(), tool.clone(), outbox.timer().clone());
    Box::pin(async move {
        match make(&core, &tool, request, ttl, &timer).await {
            Ok(task) => Outcome::Task(Box::new(task)),
            Err(error) => error.into(),
        }
    })
}

/// A new task for this call. It is in the store when this returns.
pub(crate) async fn make(
    core: &Arc<Core>,
    tool: &Arc<Entry<ToolInfo>>,
    request: Request,
    ttl: Option<u64>,
    timer: &Arc<dyn Timer>,
) -> Result<Task, Error> {
    let engine = core.tasks.engine();
    engine.start(core, timer);
    let (owner, caller) = (storage::owner(&request), Caller::of(&request.scope));
    let (since, ttl) = (timer.now(), engine.ttl(&caller, ttl));
    let saved = SavedCall::of(&request, engine.options.arguments)?;
    let mut record = draft(core, owner, saved, ttl).await?;
    let counted = Counted::new(engine, &caller, &record, (since, ttl))?;
    let place = if engine.is_leaving() { None } else { engine.enter(&record.owner) };
    let (holding, orphan) = match place {
        Some(place) => {
            let held = insert_held(core, (&mut record, since), place, timer).await?;
            (Some(held.0), held.1)
        }
        None => (None, insert(core, &mut record, timer).await?),
    };
    counted.keep();
    let task = notify::task(core, &record);
    tracing::debug!(task = short(&task.id), tool = tool.info.name, "a task was made");
    match holding {
        // If nothing can run it here, its lease lapses, and it is tried again.
        Some(holding) => drop(run::begin(holding, tool.clone(), request, timer.clone(), ttl)),
        None => {
            engine.remember(&record, request, after(since, ttl));
            engine.ledger.offer(&task.id).await;
        }
    }
    orphan.adopt();
    Ok(task)
}

/// When what is kept for so many milliseconds expires.
fn after(since: Instant, ttl: u64) -> Instant {
    since.checked_add(Duration::from_millis(ttl)).unwrap_or(since)
}

/// The bytes of a task that is not in the store yet; given back if it does not get there.
struct Counted<'e> {
    engine: &'e Engine,
    id: Option<String>,
}

impl<'e> Counted<'e> {
    fn new(
        engine: &'e Engine,
        caller: &Caller,
        record: &TaskRecord,
        (since, ttl): (Instant, u64),
    ) -> Result<Self, Error> {
        let times = (since, after(since, ttl));
        engine.room.take(caller, &record.id, storage::size(record)?, times)?;
        Ok(Counted { engine, id: Some(record.id.clone()) })
    }

    fn keep(mut self) {
        self.id = None;
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        if let Some(id) = &self.id {
            self.engine.room.forget(id);
        }
    }
}

/// A record that is not in the store yet, and that is kept for so many milliseconds.
async fn draft(core: &Core, owner: String, call: SavedCall, ttl: u64) -> Result<TaskRecord, Error> {
    let now = core.tasks.engine().ledger.now().await.map_err(unavailable)?;
    // A letter first: on a command line, a dash would begin an option.
    let id = format!("t{}", random_name()?);
    Ok(TaskRecord::new(id, owner, call, now, ttl))
}

/// Puts a record into the store, to be cancelled there unless somebody adopts it.
async fn insert(
    core: &Arc<Core>,
    record: &mut TaskRecord,
    timer: &Arc<dyn Timer>,
) -> Result<Orphan, Error> {
    let most = core.tasks.options.per_owner;
    let orphan = Orphan::new(core, record, timer);
    match core.tasks.engine().ledger.insert(record, most).await {
        Ok(true) => Ok(orphan),
        Ok(false) => {
            orphan.adopt();
            let text = format!("There are {most} tasks already: wait until some of them expire");
            Err(Error::new(ErrorKind::TooManyTasks).with_message(text))
        }
        Err(error) => Err(unavailable(error)),
    }
}

/// Puts a record into the store that this process holds from the beginning.
async fn insert_held(
    core: &Arc<Core>,
    (record, since): (&mut TaskRecord, Instant),
    place: Place,
    timer: &Arc<dyn Timer>,
) -> Result<(Holding, Orphan), Error> {
    let engine = core.tasks.engine();
    // Nobody else can have it: a new record is due at once.
    let _ = record.claim(&engine.claim()?, record.created);
    let orphan = insert(core, record, timer).await?;
    let (ledger, options) = (engine.ledger.clone(), engine.options.clone());
    let link = Link::new(record.clone(), since, Default::default(), ledger, options, timer.clone());
    let running = engine.run(&link, true);
    Ok((Holding { core: core.clone(), link, running, place }, orphan))
}

fn unavailable(error: Error) -> Error {
    storage::log_failure(&error, "create a task");
    if error.kind.is_overloaded() {
        return Error::overloaded(WHEN_FULL)
            .with_message("No task can be made right now: their store is full");
    }
    Error::new(ErrorKind::TemporarilyUnavailable)
        .with_message("No task can be made right now: their store does not answer")
        .with_data(serde_json::json!({ "retryAfterMs": 1000 }))
}

/// Runs a call that may become a task on the way.
pub(crate) fn promotable(
    core: &Arc<Core>,
    tool: &Arc<Entry<ToolInfo>>,
    mut request: Request,
    outbox: Outbox,
    after: Option<Duration>,
) -> BoxFuture<Outcome> {
    // What the record will need, while the request is still here.
    let saved = SavedCall::of(&request, core.tasks.options.arguments);
    // One that is too long to be kept need not be tried again and again.
    let after = after.filter(|_| saved.is_ok());
    let caller = Caller::of(&request.scope);
    let (bond, timer) = (Bond::default(), outbox.timer().clone());
    request.scope.insert(bond.clone());
    let owner = storage::owner(&request);
    let call = ToolCall { core, tool };
    let (exchange, inner) = call.start(request, timer.clone(), outbox.deadlines());
    // The time that counts is that of the call inside.
    outbox.set_deadlines(Deadlines { idle: None, total: None });
    let promotable = Promotable {
        core: core.clone(),
        tool: tool.clone(),
        owner,
        caller,
        saved,
        bond,
        inner,
        outbox,
        timer,
        after,
        alarm: None,
        asking: Vec::new(),
    };
    Box::pin(promotable.run(exchange))
}

struct Promotable {
    core: Arc<Core>,
    tool: Arc<Entry<ToolInfo>>,
    owner: String,
    caller: Caller,
    saved: Result<SavedCall, Error>,
    bond: Bond,
    /// What the call sends, and what goes on to its caller.
    inner: Outbox,
    outbox: Outbox,
    timer: Arc<dyn Timer>,
    after: Option<Duration>,
    alarm: Option<BoxFuture<()>>,
    asking: Vec<(ClientRequestId, Answering)>,
}

#[derive(Debug)]
enum Next {
    Event(Event),
    /// The call has lasted long.
    Long,
    /// The handler wants to be detached.
    Detach,
}

impl Promotable {
    async fn run(mut self, mut exchange: ActiveCall) -> Outcome {
        loop {
            match poll_fn(|cx| self.poll(&mut exchange, cx)).await {
                Next::Event(Event::Done(outcome)) => return outcome,
                Next::Event(event) => self.pass_on(event).await,
                wish => match self.promote().await {
                    Ok((task, holding)) => {
                        // What it asks may be answered for as long as it is kept.
                        exchange.extend(task.ttl.map_or(Duration::MAX, Duration::from_millis));
                        // If nothing can run it here, its lease lapses, and it is tried again.
                        run::go_on(holding, exchange, self.timer);
                        return Outcome::Task(Box::new(task));
                    }
                    Err(error) => {
                        tracing::debug!(%error, ?wish, "a call did not become a task");
                        self.bond.decline(error);
                        self.after = self.after.map(|after| after.max(AGAIN));
                    }
                },
            }
        }
    }

    fn poll(&mut self, exchange: &mut ActiveCall, cx: &mut Context<'_>) -> Poll<Next> {
        let answers = exchange.answers();
        self.asking.retain_mut(|(id, answering)| match Pin::new(answering).poll(cx) {
            Poll::Ready(answer) => {
                answers.deliver(*id, answer);
                false
            }
            Poll::Pending => true,
        });
        if let Poll::Ready(event) = exchange.poll_event(cx) {
            return Poll::Ready(Next::Event(event));
        }
        // A question is on its way to the caller, who answers it to this call.
        if !self.asking.is_empty() {
            return Poll::Pending;
        }
        if self.bond.poll_wanted(cx).is_ready() {
            return Poll::Ready(Next::Detach);
        }
        let Some(after) = self.after else { return Poll::Pending };
        let timer = &self.timer;
        let alarm = self.alarm.get_or_insert_with(|| timer.sleep_until(timer.now() + after));
        if alarm.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        self.alarm = None;
        Poll::Ready(Next::Long)
    }

    async fn pass_on(&mut self, event: Event) {
        match event {
            Event::Notify(notification) => {
                self.outbox.notify(notification);
                self.outbox.room().await;
            }
            Event::ClientRequest(id, ask) => self.asking.push((id, self.outbox.ask(ask))),
            Event::Withdraw(id) => self.asking.retain(|(asked, _)| *asked != id),
            Event::LetGo => self.outbox.release_connection(),
            Event::Done(_) => {}
        }
    }

    /// Makes a task of the call as it stands. Its handler is not polled meanwhile, though a thread
    /// of its own may go on.
    async fn promote(&mut self) -> Result<(Task, Holding), Error> {
        let engine = self.core.tasks.engine();
        let place =
            engine.enter(&self.owner).ok_or_else(|| Error::overloaded(Duration::from_secs(1)))?;
        engine.start(&self.core, &self.timer);
        let ctx = self.bond.ctx();
        let since = self.timer.now();
        let ttl = engine.ttl(&self.caller, None);
        let mut record = draft(&self.core, self.owner.clone(), self.saved.clone()?, ttl).await?;
        let counted = Counted::new(engine, &self.caller, &record, (since, ttl))?;
        if let Some(ctx) = &ctx {
            ctx.run().hand_over(&mut record);
        }
        let (holding, orphan) =
            insert_held(&self.core, (&mut record, since), place, &self.timer).await?;
        counted.keep();
        // From here on, steps and questions go into the store.
        let waiting = self.bond.bind(holding.link.clone());
        let missed = ctx.map(|ctx| ctx.bind(&record.steps)).unwrap_or_default();
        for (name, json) in missed {
            holding.link.keep(&name, &json).await;
        }
        waiting.into_iter().for_each(Waker::wake);
        if self.tool.deadlines.is_none() {
            self.inner.set_deadlines(run::within(engine.options.ttl(None)));
        }
        tracing::debug!(task = short(&record.id), tool = self.tool.info.name, "a call is a task");
        orphan.adopt();
        Ok((notify::task(&self.core, &record), holding))
    }
}
