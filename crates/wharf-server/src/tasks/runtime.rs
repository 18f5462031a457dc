//! The way to all that runs tasks. It is reached only through a value that comes with the wish for
//! tasks: a server that nobody asks for any does not even link it.

use std::{
    pin::Pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use serde_json::value::RawValue;
use wharf_model::{
    BoxFuture, ClientRequest, Error, ErrorKind, LiveSubscriptionFilter, Outbox, Outcome, Request,
    Sharing, Timer, ToolInfo,
};

use crate::{
    context::client_requests::ClientRequestError,
    handler::now,
    notifications::cluster,
    router::{catalog::Entry, state::Core},
    tasks::{
        create, methods,
        options::TaskOptions,
        run::state::Link,
        scheduler::{Engine, TaskStorage},
        storage::Kept,
        subscription,
        subscription::Follower,
    },
};

/// A future that borrows.
pub(crate) type Borrowing<'b, T> = Pin<Box<dyn Future<Output = T> + Send + 'b>>;

/// What whoever wishes for tasks brings along. Nothing else may name [`Works`].
pub(crate) const MACHINERY: &dyn Machinery = &Works;

/// What is done with tasks from outside.
pub(crate) trait Machinery: Sync {
    /// Answers a call about tasks.
    fn answer(&self, core: &Arc<Core>, request: Request, outbox: Outbox) -> BoxFuture<Outcome>;
    /// Makes a task of a call before it begins.
    fn create(
        &self,
        core: &Arc<Core>,
        tool: &Arc<Entry<ToolInfo>>,
        request: Request,
        outbox: &Outbox,
        ttl: Option<u64>,
    ) -> BoxFuture<Outcome>;
    /// Runs a call that may become a task on the way.
    fn promotable(
        &self,
        core: &Arc<Core>,
        tool: &Arc<Entry<ToolInfo>>,
        request: Request,
        outbox: Outbox,
        after: Option<Duration>,
    ) -> BoxFuture<Outcome>;
    /// Takes in a listener that names tasks.
    fn listen(
        &self,
        core: &Arc<Core>,
        filter: LiveSubscriptionFilter,
        request: Request,
        outbox: Outbox,
    ) -> BoxFuture<Outcome>;
    /// Tells a listener what happened to a task before; whether that could be found out.
    fn settle<'f>(&self, follower: &'f Follower<'_>, id: &'f str) -> Borrowing<'f, bool>;
    /// Begins to look after tasks of other processes.
    fn start(&self, core: &Arc<Core>, timer: &Arc<dyn Timer>);
    /// Lets the listeners of all processes that share the tasks hear of each other's changes.
    fn join(&self, core: &Arc<Core>, timer: &Arc<dyn Timer>);
    /// Drops every run.
    fn stop(&self, tasks: &Tasks);
    /// Gives every run back.
    fn release<'t>(&self, tasks: &'t Tasks) -> Borrowing<'t, ()>;
}

/// What a handler does with its task.
pub(crate) trait Hold: Send + Sync {
    fn id(&self) -> &str;
    /// Puts a question to the task's owner and waits for the answer.
    fn ask<'h>(
        &'h self,
        key: &'h str,
        question: &'h str,
        ask: &'h ClientRequest,
    ) -> Borrowing<'h, Result<Box<RawValue>, ClientRequestError>>;
    /// The result of a step that was done before.
    fn step(&self, name: &str) -> Option<Box<RawValue>>;
    /// Keeps the result of a step, unless there is one: the first one counts.
    fn keep<'h>(&'h self, name: &'h str, json: &'h RawValue) -> Borrowing<'h, Kept>;
    /// What one-time steps are claimed under, and for how long.
    fn nonce(&self) -> Borrowing<'_, Result<(String, Duration), Error>>;
}

/// The tasks of one server.
pub(crate) struct Tasks {
    pub(crate) options: Arc<TaskOptions>,
    pub(super) reach: Sharing,
    /// Where they are kept; in memory if nobody said.
    keeping: Option<TaskStorage>,
    pub(super) stage: Arc<Stage>,
    machinery: OnceLock<&'static dyn Machinery>,
    /// Made by the first one who needs it.
    engine: OnceLock<Arc<Engine>>,
}

/// How far this process is with its tasks.
#[derive(Default)]
pub(crate) struct Stage {
    pub(super) started: AtomicBool,
    pub(super) stopped: AtomicBool,
    /// Nothing more is taken up.
    pub(super) draining: AtomicBool,
}

impl Tasks {
    pub(crate) fn new(keeping: Option<TaskStorage>, options: TaskOptions) -> Arc<Self> {
        Arc::new(Tasks {
            options: Arc::new(options),
            reach: keeping.as_ref().map_or(Sharing::Process, |keeping| keeping.reach),
            keeping,
            stage: Arc::default(),
            machinery: OnceLock::new(),
            engine: OnceLock::new(),
        })
    }

    /// From now on there may be tasks.
    pub(crate) fn bring(&self, machinery: &'static dyn Machinery) {
        let _ = self.machinery.set(machinery);
    }

    /// What runs tasks, if anybody wished for some.
    pub(crate) fn machinery(&self) -> Option<&'static dyn Machinery> {
        self.machinery.get().copied()
    }

    /// This process's share in the tasks: only for those who are the machinery.
    pub(super) fn engine(&self) -> &Arc<Engine> {
        self.engine.get_or_init(|| {
            let keeping = self.keeping.clone().unwrap_or_default();
            Engine::new(keeping, self.options.clone(), self.stage.clone())
        })
    }

    /// Whether there may be tasks of other processes, and nobody here looks after them.
    pub(crate) fn must_start(&self) -> bool {
        self.reach > Sharing::Process && !self.stage.started.load(Ordering::Acquire)
    }

    /// Begins to look after tasks, if nobody does so yet.
    pub(crate) fn start(&self, core: &Arc<Core>, timer: &Arc<dyn Timer>) {
        if let Some(machinery) = self.machinery() {
            machinery.start(core, timer);
        }
    }

    /// Whether several processes share the tasks.
    pub(crate) fn is_shared(&self) -> bool {
        self.reach == Sharing::Fleet
    }

    /// Lets the listeners of all processes that share the tasks hear of each other's changes.
    pub(crate) fn join(&self, core: &Arc<Core>, timer: &Arc<dyn Timer>) {
        if let Some(machinery) = self.machinery() {
            machinery.join(core, timer);
        }
    }

    /// Drops every run, as if the process had ended: somebody else takes over when leases lapse.
    pub(crate) fn stop(&self) {
        self.stage.stopped.store(true, Ordering::Release);
        if let Some(machinery) = self.machinery() {
            machinery.stop(self);
        }
    }

    /// Takes up nothing more. What runs goes on.
    pub(crate) fn drain(&self) {
        self.stage.draining.store(true, Ordering::Release);
    }

    /// Gives every run back in good order, for another process to go on with at once.
    pub(crate) async fn release(&self) {
        self.drain();
        if let Some(machinery) = self.machinery() {
            machinery.release(self).await;
        }
    }
}

/// What there is to do with a task that nobody can have made: tasks come with their machinery.
pub(crate) fn impossible() -> BoxFuture<Outcome> {
    now(Error::new(ErrorKind::InternalError).into())
}

/// All that runs tasks.
struct Works;

impl Machinery for Works {
    fn answer(&self, core: &Arc<Core>, request: Request, outbox: Outbox) -> BoxFuture<Outcome> {
        methods::run(core, request, outbox)
    }

    fn create(
        &self,
        core: &Arc<Core>,
        tool: &Arc<Entry<ToolInfo>>,
        request: Request,
        outbox: &Outbox,
        ttl: Option<u64>,
    ) -> BoxFuture<Outcome> {
        create::create(core, tool, request, outbox, ttl)
    }

    fn promotable(
        &self,
        core: &Arc<Core>,
        tool: &Arc<Entry<ToolInfo>>,
        request: Request,
        outbox: Outbox,
        after: Option<Duration>,
    ) -> BoxFuture<Outcome> {
        create::promotable(core, tool, request, outbox, after)
    }

    fn listen(
        &self,
        core: &Arc<Core>,
        filter: LiveSubscriptionFilter,
        request: Request,
        outbox: Outbox,
    ) -> BoxFuture<Outcome> {
        subscription::listen_to_tasks(core.clone(), filter, request, outbox)
    }

    fn settle<'f>(&self, follower: &'f Follower<'_>, id: &'f str) -> Borrowing<'f, bool> {
        Box::pin(follower.settle(id))
    }

    fn start(&self, core: &Arc<Core>, timer: &Arc<dyn Timer>) {
        core.tasks.engine().start(core, timer);
    }

    fn join(&self, core: &Arc<Core>, timer: &Arc<dyn Timer>) {
        cluster::join(core, core.tasks.engine().ledger.bus().clone(), timer.clone());
    }

    fn stop(&self, tasks: &Tasks) {
        if let Some(engine) = tasks.engine.get() {
            engine.stop();
        }
    }

    fn release<'t>(&self, tasks: &'t Tasks) -> Borrowing<'t, ()> {
        Box::pin(async {
            if let Some(engine) = tasks.engine.get() {
                engine.release().await;
            }
        })
    }
}

impl Hold for Link {
    fn id(&self) -> &str {
        self.id()
    }

    fn ask<'h>(
        &'h self,
        key: &'h str,
        question: &'h str,
        ask: &'h ClientRequest,
    ) -> Borrowing<'h, Result<Box<RawValue>, ClientRequestError>> {
        Box::pin(self.ask(key, question, ask))
    }

    fn step(&self, name: &str) -> Option<Box<RawValue>> {
        self.step(name)
    }

    fn keep<'h>(&'h self, name: &'h str, json: &'h RawValue) -> Borrowing<'h, Kept> {
        Box::pin(self.keep(name, json))
    }

    fn nonce(&self) -> Borrowing<'_, Result<(String, Duration), Error>> {
        Box::pin(self.nonce())
    }
}
