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
    router::{catalog::CatalogEntry, state::ServerState},
    tasks::{
        create, methods,
        options::TaskOptions,
        run::state::TaskRun,
        scheduler::{TaskScheduler, TaskStorage},
        storage::StepSaveResult,
        subscription,
        subscription::TaskSubscription,
    },
};

/// A future that borrows.
pub(crate) type BorrowedFuture<'b, T> = Pin<Box<dyn Future<Output = T> + Send + 'b>>;

/// What whoever wishes for tasks brings along. Nothing else may name [`TaskRuntimeImpl`].
pub(crate) const TASK_RUNTIME: &dyn TaskRuntime = &TaskRuntimeImpl;

/// What is done with tasks from outside.
pub(crate) trait TaskRuntime: Sync {
    /// Answers a call about tasks.
    fn answer(
        &self,
        server: &Arc<ServerState>,
        request: Request,
        outbox: Outbox,
    ) -> BoxFuture<Outcome>;
    /// Makes a task of a call before it begins.
    fn create(
        &self,
        server: &Arc<ServerState>,
        tool: &Arc<CatalogEntry<ToolInfo>>,
        request: Request,
        outbox: &Outbox,
        ttl: Option<u64>,
    ) -> BoxFuture<Outcome>;
    /// Runs a call that may become a task on the way.
    fn promotable(
        &self,
        server: &Arc<ServerState>,
        tool: &Arc<CatalogEntry<ToolInfo>>,
        request: Request,
        outbox: Outbox,
        after: Option<Duration>,
    ) -> BoxFuture<Outcome>;
    /// Takes in a listener that names tasks.
    fn listen(
        &self,
        server: &Arc<ServerState>,
        filter: LiveSubscriptionFilter,
        request: Request,
        outbox: Outbox,
    ) -> BoxFuture<Outcome>;
    /// Tells a listener what happened to a task before; whether that could be found out.
    fn send_current_status<'f>(
        &self,
        task_subscription: &'f TaskSubscription<'_>,
        id: &'f str,
    ) -> BorrowedFuture<'f, bool>;
    /// Begins to look after tasks of other processes.
    fn start(&self, server: &Arc<ServerState>, timer: &Arc<dyn Timer>);
    /// Lets the listeners of all processes that share the tasks hear of each other's changes.
    fn join(&self, server: &Arc<ServerState>, timer: &Arc<dyn Timer>);
    /// Drops every run.
    fn stop(&self, tasks: &ServerTasks);
    /// Gives every run back.
    fn release<'t>(&self, tasks: &'t ServerTasks) -> BorrowedFuture<'t, ()>;
}

/// What a handler does with its task.
pub(crate) trait TaskRunApi: Send + Sync {
    fn id(&self) -> &str;
    /// Puts a question to the task's owner and waits for the answer.
    fn ask<'h>(
        &'h self,
        key: &'h str,
        question: &'h str,
        ask: &'h ClientRequest,
    ) -> BorrowedFuture<'h, Result<Box<RawValue>, ClientRequestError>>;
    /// The result of a step that was done before.
    fn step(&self, name: &str) -> Option<Box<RawValue>>;
    /// Keeps the result of a step, unless there is one: the first one counts.
    fn save_step<'h>(
        &'h self,
        name: &'h str,
        json: &'h RawValue,
    ) -> BorrowedFuture<'h, StepSaveResult>;
    /// What one-time steps are claimed under, and for how long.
    fn nonce(&self) -> BorrowedFuture<'_, Result<(String, Duration), Error>>;
}

/// The tasks of one server.
pub(crate) struct ServerTasks {
    pub(crate) options: Arc<TaskOptions>,
    pub(super) reach: Sharing,
    /// Where they are kept; in memory if nobody said.
    task_storage: Option<TaskStorage>,
    pub(super) lifecycle: Arc<LifecycleFlags>,
    task_runtime: OnceLock<&'static dyn TaskRuntime>,
    /// Made by the first one who needs it.
    scheduler: OnceLock<Arc<TaskScheduler>>,
}

/// How far this process is with its tasks.
#[derive(Default)]
pub(crate) struct LifecycleFlags {
    pub(super) started: AtomicBool,
    pub(super) stopped: AtomicBool,
    /// Nothing more is taken up.
    pub(super) draining: AtomicBool,
}

impl ServerTasks {
    pub(crate) fn new(task_storage: Option<TaskStorage>, options: TaskOptions) -> Arc<Self> {
        Arc::new(ServerTasks {
            options: Arc::new(options),
            reach: task_storage
                .as_ref()
                .map_or(Sharing::Process, |task_storage| task_storage.reach),
            task_storage,
            lifecycle: Arc::default(),
            task_runtime: OnceLock::new(),
            scheduler: OnceLock::new(),
        })
    }

    /// From now on there may be tasks.
    pub(crate) fn enable(&self, task_runtime: &'static dyn TaskRuntime) {
        let _ = self.task_runtime.set(task_runtime);
    }

    /// What runs tasks, if anybody wished for some.
    pub(crate) fn task_runtime(&self) -> Option<&'static dyn TaskRuntime> {
        self.task_runtime.get().copied()
    }

    /// This process's share in the tasks: only for those who are the machinery.
    pub(super) fn scheduler(&self) -> &Arc<TaskScheduler> {
        self.scheduler.get_or_init(|| {
            let task_storage = self.task_storage.clone().unwrap_or_default();
            TaskScheduler::new(task_storage, self.options.clone(), self.lifecycle.clone())
        })
    }

    /// Whether there may be tasks of other processes, and nobody here looks after them.
    pub(crate) fn must_start(&self) -> bool {
        self.reach > Sharing::Process && !self.lifecycle.started.load(Ordering::Acquire)
    }

    /// Begins to look after tasks, if nobody does so yet.
    pub(crate) fn start(&self, server: &Arc<ServerState>, timer: &Arc<dyn Timer>) {
        if let Some(task_runtime) = self.task_runtime() {
            task_runtime.start(server, timer);
        }
    }

    /// Whether several processes share the tasks.
    pub(crate) fn is_shared(&self) -> bool {
        self.reach == Sharing::Fleet
    }

    /// Lets the listeners of all processes that share the tasks hear of each other's changes.
    pub(crate) fn join(&self, server: &Arc<ServerState>, timer: &Arc<dyn Timer>) {
        if let Some(task_runtime) = self.task_runtime() {
            task_runtime.join(server, timer);
        }
    }

    /// Drops every run, as if the process had ended: somebody else takes over when leases lapse.
    pub(crate) fn stop(&self) {
        self.lifecycle.stopped.store(true, Ordering::Release);
        if let Some(task_runtime) = self.task_runtime() {
            task_runtime.stop(self);
        }
    }

    /// Takes up nothing more. What runs goes on.
    pub(crate) fn drain(&self) {
        self.lifecycle.draining.store(true, Ordering::Release);
    }

    /// Gives every run back in good order, for another process to go on with at once.
    pub(crate) async fn release(&self) {
        self.drain();
        if let Some(task_runtime) = self.task_runtime() {
            task_runtime.release(self).await;
        }
    }
}

/// What there is to do with a task that nobody can have made: tasks come with their machinery.
pub(crate) fn missing_runtime() -> BoxFuture<Outcome> {
    now(Error::new(ErrorKind::InternalError).into())
}

/// All that runs tasks.
struct TaskRuntimeImpl;

impl TaskRuntime for TaskRuntimeImpl {
    fn answer(
        &self,
        server: &Arc<ServerState>,
        request: Request,
        outbox: Outbox,
    ) -> BoxFuture<Outcome> {
        methods::run(server, request, outbox)
    }

    fn create(
        &self,
        server: &Arc<ServerState>,
        tool: &Arc<CatalogEntry<ToolInfo>>,
        request: Request,
        outbox: &Outbox,
        ttl: Option<u64>,
    ) -> BoxFuture<Outcome> {
        create::create(server, tool, request, outbox, ttl)
    }

    fn promotable(
        &self,
        server: &Arc<ServerState>,
        tool: &Arc<CatalogEntry<ToolInfo>>,
        request: Request,
        outbox: Outbox,
        after: Option<Duration>,
    ) -> BoxFuture<Outcome> {
        create::promotable(server, tool, request, outbox, after)
    }

    fn listen(
        &self,
        server: &Arc<ServerState>,
        filter: LiveSubscriptionFilter,
        request: Request,
        outbox: Outbox,
    ) -> BoxFuture<Outcome> {
        subscription::listen_to_tasks(server.clone(), filter, request, outbox)
    }

    fn send_current_status<'f>(
        &self,
        task_subscription: &'f TaskSubscription<'_>,
        id: &'f str,
    ) -> BorrowedFuture<'f, bool> {
        Box::pin(task_subscription.send_current_status(id))
    }

    fn start(&self, server: &Arc<ServerState>, timer: &Arc<dyn Timer>) {
        server.tasks.scheduler().start(server, timer);
    }

    fn join(&self, server: &Arc<ServerState>, timer: &Arc<dyn Timer>) {
        cluster::join(server, server.tasks.scheduler().task_store.bus().clone(), timer.clone());
    }

    fn stop(&self, tasks: &ServerTasks) {
        if let Some(scheduler) = tasks.scheduler.get() {
            scheduler.stop();
        }
    }

    fn release<'t>(&self, tasks: &'t ServerTasks) -> BorrowedFuture<'t, ()> {
        Box::pin(async {
            if let Some(scheduler) = tasks.scheduler.get() {
                scheduler.release().await;
            }
        })
    }
}

impl TaskRunApi for TaskRun {
    fn id(&self) -> &str {
        self.id()
    }

    fn ask<'h>(
        &'h self,
        key: &'h str,
        question: &'h str,
        ask: &'h ClientRequest,
    ) -> BorrowedFuture<'h, Result<Box<RawValue>, ClientRequestError>> {
        Box::pin(self.ask(key, question, ask))
    }

    fn step(&self, name: &str) -> Option<Box<RawValue>> {
        self.step(name)
    }

    fn save_step<'h>(
        &'h self,
        name: &'h str,
        json: &'h RawValue,
    ) -> BorrowedFuture<'h, StepSaveResult> {
        Box::pin(self.save_step(name, json))
    }

    fn nonce(&self) -> BorrowedFuture<'_, Result<(String, Duration), Error>> {
        Box::pin(self.nonce())
    }
}
