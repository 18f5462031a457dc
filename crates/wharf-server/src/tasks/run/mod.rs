//! One run of a task, from its first poll to its end in the store.

pub(crate) mod lease;
pub(crate) mod state;

use std::{
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use wharf_model::{
    ActiveCall, BoxFuture, Deadlines, Error, ErrorKind, Event, InputMode, Method, Notification,
    Outbox, Outcome, Reply, Request, RequestBuilder, Service, TaskRequest, Timer, ToolInfo,
    ToolResult, Trusted,
};
use wharf_schema::problems;

use crate::{
    context::progress::Update,
    middleware::printable,
    router::{catalog::Entry, dispatch, state::Core},
    tasks::{
        notify::short,
        options::{TaskOptions, millis},
        promotion::Bond,
        run::{
            lease::Lease,
            state::{Chore, Link, Stop},
        },
        scheduler::{Engine, Place, Running},
        storage,
        storage::{
            chance, nested_json,
            record::{End, TaskRecord},
            stored_types::SavedError,
        },
        wakeup::spawn,
    },
};

/// One tool, as a service: what an exchange of ours drives.
pub(crate) struct ToolCall<'c> {
    pub(crate) core: &'c Arc<Core>,
    pub(crate) tool: &'c Arc<Entry<ToolInfo>>,
}

impl ToolCall<'_> {
    /// Begins the call, and gives the outbox that belongs to it as well.
    pub(crate) fn start(
        self,
        request: Request,
        timer: Arc<dyn Timer>,
        deadlines: Deadlines,
    ) -> (ActiveCall, Outbox) {
        let seen = Arc::default();
        let (core, tool) = (self.core.clone(), self.tool.clone());
        let service = Begin { core, tool, seen: Arc::clone(&seen) };
        let exchange = ActiveCall::start(&service, request, timer.clone(), deadlines);
        let outbox = seen.get().cloned();
        (exchange, outbox.unwrap_or_else(|| Outbox::new(timer, deadlines)))
    }
}

struct Begin {
    core: Arc<Core>,
    tool: Arc<Entry<ToolInfo>>,
    seen: Arc<std::sync::OnceLock<Outbox>>,
}

impl Service for Begin {
    fn call(&self, request: Request, outbox: Outbox) -> BoxFuture<Outcome> {
        let _ = self.seen.set(outbox.clone());
        dispatch::begin_tool(&self.core, &self.tool, request, outbox)
    }
}

/// What a run holds until its end.
pub(crate) struct Holding {
    pub(crate) core: Arc<Core>,
    pub(crate) link: Arc<Link>,
    pub(crate) running: Running,
    pub(crate) place: Place,
}

/// Runs a new task, whose call is as it came.
pub(crate) fn begin(
    holding: Holding,
    tool: Arc<Entry<ToolInfo>>,
    request: Request,
    timer: Arc<dyn Timer>,
    ttl: u64,
) -> bool {
    spawn(async move {
        let exchange = start(&holding, &tool, request, timer.clone(), ttl);
        work(holding, exchange, &*timer).await;
    })
}

/// Goes on with a call that has just become a task.
pub(crate) fn go_on(holding: Holding, exchange: ActiveCall, timer: Arc<dyn Timer>) -> bool {
    spawn(async move { work(holding, exchange, &*timer).await })
}

/// Runs a task that was taken up: with its call as it came, if that was here, or else with what
/// its record has of it.
pub(crate) fn resume(
    core: &Arc<Core>,
    (record, since): (TaskRecord, Instant),
    original: Option<Request>,
    place: Place,
    timer: Arc<dyn Timer>,
) {
    let core = core.clone();
    spawn(async move {
        let engine = core.tasks.engine().clone();
        let (id, attempts) = (record.id.clone(), record.attempts);
        let known =
            async { Ok::<_, Error>((engine.ledger.steps(&id).await?, engine.ledger.now().await?)) };
        let (steps, now) = match known.await {
            Ok(known) => known,
            // That was no fault of the task: somebody tries again, at the latest when the lease lapses.
            Err(error) => {
                storage::log_failure(&error, "resume a task");
                return give_back(&engine, record, &*timer).await;
            }
        };
        let ttl = record.expires.map_or(u64::MAX, |expires| expires.saturating_sub(now));
        let request = original.unwrap_or_else(|| rebuild(&record));
        let (ledger, options) = (engine.ledger.clone(), engine.options.clone());
        let link = Link::new(record, since, steps, ledger, options, timer.clone());
        let running = engine.run(&link, false);
        let tool = dispatch::find_tool(&core, &core.snapshot.load().lists, &request).cloned();
        let Ok(tool) = tool else {
            // Another node may know it; the attempts are counted.
            tracing::warn!(tool = printable(&request.target()), "there is no tool for a task");
            return link.release(engine.options.rest(attempts + 1, chance())).await;
        };
        let holding = Holding { core, link, running, place };
        let exchange = start(&holding, &tool, request, timer.clone(), ttl);
        work(holding, exchange, &*timer).await;
    });
}

/// Gives a task back that could not be begun.
async fn give_back(engine: &Engine, record: TaskRecord, timer: &dyn Timer) {
    let (id, fence, rest) = (record.id.clone(), record.fence, millis(engine.options.lease));
    let release = |record: &mut TaskRecord, now| record.release(fence, rest, false, now);
    if let Err(error) = engine.ledger.update(&id, Some(record), timer, release).await {
        tracing::debug!(task = short(&id), %error, "a task was not given back");
    }
}

fn start(
    holding: &Holding,
    tool: &Arc<Entry<ToolInfo>>,
    mut request: Request,
    timer: Arc<dyn Timer>,
    ttl: u64,
) -> ActiveCall {
    request.asks = InputMode::Park;
    request.tasking = TaskRequest::Unknown;
    request.log_level = None;
    request.scope.insert(Bond::with(holding.link.clone()));
    let call = ToolCall { core: &holding.core, tool };
    call.start(request, timer, within(ttl)).0
}

/// A task has as long as it is kept, and may be silent.
pub(crate) fn within(ttl: u64) -> Deadlines {
    Deadlines { idle: None, total: Some(Duration::from_millis(ttl)) }
}

/// The call, as far as the record has it. What outer layers put beside it is not there.
fn rebuild(record: &TaskRecord) -> Request {
    let call = &record.call;
    let mut builder =
        RequestBuilder::new(Method::CallTool).target(&call.tool).arguments(call.arguments.get());
    if let Some(meta) = &call.meta {
        builder = builder.meta(meta.get());
    }
    let mut request = builder.build().from_peer(Arc::new(call.peer()));
    match call.principal() {
        Some(principal) => request.scope.insert(principal),
        // Whoever made the task was allowed to when it did.
        None => request.scope.insert(Trusted),
    }
    request
}

/// What happens next in a run.
enum Next {
    Chore(Chore),
    Event(Event),
    Report(Update),
}

/// Drives the handler, writes down how far it has come, and how it ended.
async fn work(holding: Holding, mut exchange: ActiveCall, timer: &dyn Timer) {
    let Holding { core, link, running, place } = holding;
    let options = &core.tasks.options;
    let mut reports = Reports::new(options);
    let mut lease = Lease::new(link.clone(), timer);
    let end = loop {
        match poll_fn(|cx| poll(&link, &mut lease, &mut exchange, &mut reports, timer, cx)).await {
            Next::Chore(Chore::Stop(Stop::Lost)) => return,
            Next::Chore(Chore::Stop(Stop::Failed(error))) => {
                break End::Failed(SavedError::within(&error, options.result));
            }
            Next::Chore(Chore::Withdraw(key)) => lease.during(timer, link.withdraw(&key)).await,
            Next::Report(update) => lease.during(timer, link.report(&update)).await,
            Next::Event(Event::Done(outcome)) => break ended(outcome, options.result),
            Next::Event(Event::Notify(notification)) => reports.take(notification),
            // Nobody is there to be asked; what is asked in a task goes another way.
            Next::Event(Event::ClientRequest(id, ask)) => exchange.refuse(id, &ask),
            Next::Event(_) => {}
        }
    };
    drop(exchange);
    let end = counted(core.tasks.engine(), link.id(), end);
    let finished = link.finish(&end, reports.last.as_ref()).await;
    // Before anybody is told: there is nothing left that the news could change here.
    drop((running, place));
    // Even if it was over before: whoever ended it may not have heard from the store that it did.
    core.tasks.engine().ledger.tell(link.id()).await;
    if finished {
        tracing::debug!(task = short(link.id()), "a task has ended");
    }
}

fn poll(
    link: &Link,
    lease: &mut Lease,
    exchange: &mut ActiveCall,
    reports: &mut Reports,
    timer: &dyn Timer,
    cx: &mut Context<'_>,
) -> Poll<Next> {
    // Before the handler: one that lost its task does nothing more.
    if let Poll::Ready(chore) = link.poll_chore(cx) {
        return Poll::Ready(Next::Chore(chore));
    }
    if lease.poll_lapsed(timer, cx).is_ready() {
        tracing::warn!(
            task = short(link.id()),
            "a task is given up: its lease could not be renewed"
        );
        return Poll::Ready(Next::Chore(Chore::Stop(Stop::Lost)));
    }
    if let Poll::Ready(event) = exchange.poll_event(cx) {
        return Poll::Ready(Next::Event(event));
    }
    reports.poll(timer, cx).map(Next::Report)
}

/// How often progress is written down: at once, and then not more often than the interval; the
/// last value wins.
struct Reports {
    interval: Duration,
    /// Bytes of what is said with it.
    most: usize,
    last: Option<Update>,
    next: Option<Instant>,
    alarm: Option<BoxFuture<()>>,
}

impl Reports {
    fn new(options: &TaskOptions) -> Self {
        let (interval, most) = (options.progress_interval, options.item);
        Reports { interval, most, last: None, next: None, alarm: None }
    }

    fn take(&mut self, notification: Notification) {
        match notification {
            Notification::Progress { progress, total, message } => {
                let is_long = message.as_ref().is_some_and(|text| text.len() > self.most);
                let message = if is_long { message.map(problems::shorten) } else { message };
                self.last = Some(Update { progress, total, message });
            }
            // Not what it says: that was meant for the client, not for the server's log.
            _ => tracing::debug!("a task has nobody to tell what it says"),
        }
    }

    fn poll(&mut self, timer: &dyn Timer, cx: &mut Context<'_>) -> Poll<Update> {
        if self.last.is_none() {
            return Poll::Pending;
        }
        let next = self.next.unwrap_or_else(|| timer.now());
        if timer.now() < next {
            let alarm = self.alarm.get_or_insert_with(|| timer.sleep_until(next));
            if alarm.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
        }
        self.alarm = None;
        self.next = Some(timer.now() + self.interval);
        self.last.take().map_or(Poll::Pending, Poll::Ready)
    }
}

/// The end, if there is room for it; else that there is none.
fn counted(engine: &Engine, id: &str, end: End) -> End {
    let size = serde_json::to_vec(&end).map_or(0, |json| json.len());
    match engine.room.end(id, size) {
        Ok(()) => end,
        Err(_) => {
            let text = format!("There is no room for the result of {size} bytes");
            let _ = engine.room.end(id, 0);
            End::Failed((&Error::new(ErrorKind::TaskFailed).with_message(text)).into())
        }
    }
}

/// How a task ended whose call ended so. What a model should read is a result, in every dialect.
fn ended(outcome: Outcome, most: usize) -> End {
    let result = match outcome {
        Outcome::Complete(Reply::Tool(result)) => result,
        Outcome::Failed(error)
            if error.kind.is_tool_result() || error.kind.is_invalid_tool_arguments() =>
        {
            ToolResult::error(&*error.message)
        }
        Outcome::Failed(error) => return End::Failed(SavedError::within(&error, most)),
        _ => return End::Failed((&Error::new(ErrorKind::InternalError)).into()),
    };
    End::Completed(Box::new(match problem(&result, most) {
        Some(text) => ToolResult::error(text),
        None => result,
    }))
}

/// Why a result cannot be kept.
fn problem(result: &ToolResult, most: usize) -> Option<String> {
    let json = serde_json::to_vec(result);
    let size = json.as_ref().map_or(usize::MAX, Vec::len);
    if size > most {
        return Some(format!("The result has {size} bytes, and {most} is the limit for a task"));
    }
    let is_deep = json.is_ok_and(|json| nested_json::is_too_deep(&json));
    is_deep.then(|| "The result is nested deeper than a task can keep".into())
}
