//! Entry point to the task runtime. It is reached only through a `&'static dyn TaskRuntime` that is
//! set when a server enables tasks, so that servers without tasks do not link it.

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
    BoxFuture, ClientRequest, Error, ErrorKind, LiveSubscriptionFilter, Observers, Outbox, Outcome,
    Request, Sharing, Timer, ToolInfo,
};

use crate::{
    context::client_requests::ClientRequestError,
    handler::now,
    notifications::cluster,
    router::{catalog::CatalogEntry, state::ServerState},
    tasks::{
        create, methods,
        options::TaskOptions,
        promotion,
        run::state::TaskRun,
        scheduler::{TaskScheduler, TaskStorage},
        storage::StepSaveResult,
        subscription,
        subscription::TaskSubscription,
    },
};

/// Future with a borrow.
pub(crate) type BorrowedFuture<'b, T> = Pin<Box<dyn Future<Output = T> + Send + 'b>>;

/// The task runtime, named by code that enables tasks. Nothing else may name [`TaskRuntimeImpl`].
pub(crate) const TASK_RUNTIME: &dyn TaskRuntime = &TaskRuntimeImpl;

/// Operations on tasks for the rest of the server.
pub(crate) trait TaskRuntime: Sync {
    /// Answers a task request.
    fn answer(
        &self,
        server: &Arc<ServerState>,
        request: Request,
        outbox: Outbox,
    ) -> BoxFuture<Outcome>;
    /// Creates a task for a call before it starts.
    fn create(
        &self,
        server: &Arc<ServerState>,
        tool: &Arc<CatalogEntry<ToolInfo>>,
        request: Request,
        outbox: &Outbox,
        ttl: Option<u64>,
    ) -> BoxFuture<Outcome>;
    /// Runs a call that may be promoted to a task.
    fn promotable(
        &self,
        server: &Arc<ServerState>,
        tool: &Arc<CatalogEntry<ToolInfo>>,
        request: Request,
        outbox: Outbox,
        after: Option<Duration>,
    ) -> BoxFuture<Outcome>;
    /// Starts a subscription that names tasks.
    fn listen(
        &self,
        server: &Arc<ServerState>,
        filter: LiveSubscriptionFilter,
        request: Request,
        outbox: Outbox,
    ) -> BoxFuture<Outcome>;
    /// Sends a subscriber the current status of a task; false if the store failed.
    fn send_current_status<'f>(
        &self,
        task_subscription: &'f TaskSubscription<'_>,
        id: &'f str,
    ) -> BorrowedFuture<'f, bool>;
    /// Starts the scheduler, which claims tasks of other processes.
    fn start(&self, server: &Arc<ServerState>, timer: &Arc<dyn Timer>);
    /// Connects the subscriptions of all processes that share the tasks.
    fn join(&self, server: &Arc<ServerState>, timer: &Arc<dyn Timer>);
    /// Drops every run.
    fn stop(&self, tasks: &ServerTasks);
    /// Releases every run.
    fn release<'t>(&self, tasks: &'t ServerTasks) -> BorrowedFuture<'t, ()>;
}

/// Operations of a handler on its task.
pub(crate) trait TaskRunApi: Send + Sync {
    fn id(&self) -> &str;
    /// Sends a client request to the task's owner and waits for the response.
    fn ask<'h>(
        &'h self,
        key: &'h str,
        question: &'h str,
        ask: &'h ClientRequest,
    ) -> BorrowedFuture<'h, Result<Box<RawValue>, ClientRequestError>>;
    /// Result of a step that was completed before.
    fn step(&self, name: &str) -> Option<Box<RawValue>>;
    /// Stores the result of a step. If there is one already, that one counts.
    fn save_step<'h>(
        &'h self,
        name: &'h str,
        json: &'h RawValue,
    ) -> BorrowedFuture<'h, StepSaveResult>;
    /// Key for claims of one-time steps, and their lifetime.
    fn nonce(&self) -> BorrowedFuture<'_, Result<(String, Duration), Error>>;
}

/// The tasks of one server.
pub(crate) struct ServerTasks {
    pub(crate) options: Arc<TaskOptions>,
    pub(super) sharing: Sharing,
    /// Storage of the tasks; in memory if `None`.
    task_storage: Option<TaskStorage>,
    pub(super) lifecycle: Arc<LifecycleFlags>,
    task_runtime: OnceLock<&'static dyn TaskRuntime>,
    /// Created on first use.
    scheduler: OnceLock<Arc<TaskScheduler>>,
    observers: Observers,
}

/// Lifecycle of the tasks in this process.
#[derive(Default)]
pub(crate) struct LifecycleFlags {
    pub(super) started: AtomicBool,
    pub(super) stopped: AtomicBool,
    /// No more tasks are claimed.
    pub(super) draining: AtomicBool,
}

impl ServerTasks {
    pub(crate) fn new(
        task_storage: Option<TaskStorage>,
        options: TaskOptions,
        observers: Observers,
    ) -> Arc<Self> {
        Arc::new(ServerTasks {
            options: Arc::new(options),
            sharing: task_storage
                .as_ref()
                .map_or(Sharing::Process, |task_storage| task_storage.sharing),
            task_storage,
            lifecycle: Arc::default(),
            task_runtime: OnceLock::new(),
            scheduler: OnceLock::new(),
            observers,
        })
    }

    /// Enables tasks.
    pub(crate) fn enable(&self, task_runtime: &'static dyn TaskRuntime) {
        let _ = self.task_runtime.set(task_runtime);
    }

    /// The task runtime, if tasks are enabled.
    pub(crate) fn task_runtime(&self) -> Option<&'static dyn TaskRuntime> {
        self.task_runtime.get().copied()
    }

    /// The scheduler of this process, for the task runtime only.
    pub(super) fn scheduler(&self) -> &Arc<TaskScheduler> {
        self.scheduler.get_or_init(|| {
            let task_storage = self.task_storage.clone().unwrap_or_default();
            let (options, lifecycle) = (self.options.clone(), self.lifecycle.clone());
            TaskScheduler::new(task_storage, options, lifecycle, self.observers.clone())
        })
    }

    /// Returns whether there may be tasks of other processes and the scheduler is not running.
    pub(crate) fn must_start(&self) -> bool {
        self.sharing > Sharing::Process && !self.lifecycle.started.load(Ordering::Acquire)
    }

    /// Starts the scheduler, unless it is running.
    pub(crate) fn start(&self, server: &Arc<ServerState>, timer: &Arc<dyn Timer>) {
        if let Some(task_runtime) = self.task_runtime() {
            task_runtime.start(server, timer);
        }
    }

    /// Returns whether several processes share the tasks.
    pub(crate) fn is_shared(&self) -> bool {
        self.sharing == Sharing::Cluster
    }

    /// Connects the subscriptions of all processes that share the tasks.
    pub(crate) fn join(&self, server: &Arc<ServerState>, timer: &Arc<dyn Timer>) {
        if let Some(task_runtime) = self.task_runtime() {
            task_runtime.join(server, timer);
        }
    }

    /// Drops every run, as if the process had ended: another process claims the tasks when their
    /// leases expire.
    pub(crate) fn stop(&self) {
        self.lifecycle.stopped.store(true, Ordering::Release);
        if let Some(task_runtime) = self.task_runtime() {
            task_runtime.stop(self);
        }
    }

    /// Claims no more tasks. Runs continue. False if it was called before.
    pub(crate) fn drain(&self) -> bool {
        !self.lifecycle.draining.swap(true, Ordering::AcqRel)
    }

    /// Releases every run for graceful shutdown, so that another process can continue at once.
    pub(crate) async fn release(&self) {
        self.drain();
        if let Some(task_runtime) = self.task_runtime() {
            task_runtime.release(self).await;
        }
    }
}

/// Outcome for a task request without a task runtime, which cannot happen: tasks are created by it.
pub(crate) fn missing_runtime() -> BoxFuture<Outcome> {
    now(Error::new(ErrorKind::InternalError).into())
}

/// The task runtime.
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
        promotion::promotable(server, tool, request, outbox, after)
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
