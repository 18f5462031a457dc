//! Router: dispatches each request to its handler.

pub(crate) mod access;
pub(crate) mod announced_capabilities;
mod call_custom_method;
pub(crate) mod call_tool;
pub(crate) mod caller_shares;
pub(crate) mod catalog;
pub(crate) mod check_output;
pub(crate) mod complete;
pub(crate) mod concurrency;
pub(crate) mod dispatch;
mod forward;
mod get_prompt;
pub(crate) mod listen;
mod match_template;
pub(crate) mod pagination;
pub(crate) mod read_resource;
pub(crate) mod runtime_changes;
pub(crate) mod state;

use std::{fmt, sync::Arc};

use wharf_model::{
    BoxFuture, Bus, ChangeVersion, Observers, Outbox, Outcome, Request, Service, StateCipher,
    Stores, Timer,
};

use crate::router::dispatch::dispatch;
use crate::{
    builder::RouterBuilder,
    limits::CallLimits,
    middleware::{Chain, Middleware},
};
use crate::{
    notifications::cluster,
    router::{runtime_changes::Registry, state::ServerState},
    tasks::runtime::ServerTasks,
};

/// All parts of a server, as one service. Clones share them.
///
/// ```
/// # mod wharf { pub use {wharf_model::*, wharf_server::*}; pub mod server { pub use super::*; } }
/// use wharf::{Tool, server::Router};
///
/// let router = Router::builder()
///     .instructions("Say hello.")
///     .add(Tool::new("hello", async || "hello"))
///     .build()?;
/// # let _ = router;
/// # Ok::<(), wharf::server::BuildError>(())
/// ```
#[derive(Clone)]
pub struct Router {
    pub(crate) server: Arc<ServerState>,
    /// `None` if there is no middleware: then the handler's future is returned without a wrapper.
    pub(crate) chain: Option<Chain>,
    pub(crate) stop_tasks: Arc<StopTasksOnDrop>,
}

/// Shared by all routers of a server. When the last one is dropped, its tasks stop running here. If
/// their store outlives the process, another process claims them when their leases expire.
pub(crate) struct StopTasksOnDrop(Arc<ServerTasks>);

impl Drop for StopTasksOnDrop {
    fn drop(&mut self) {
        self.0.stop();
    }
}

impl Router {
    /// Creates an empty builder.
    pub fn builder() -> RouterBuilder {
        RouterBuilder::new()
    }

    /// Creates a router inside `layers`, the outermost first.
    pub(crate) fn layered(server: Arc<ServerState>, layers: Vec<Box<dyn Middleware>>) -> Self {
        let stop_tasks = Arc::new(StopTasksOnDrop(server.tasks.clone()));
        let bare = Router { server, chain: None, stop_tasks };
        if layers.is_empty() {
            return bare;
        }
        let (server, stop_tasks) = (bare.server.clone(), bare.stop_tasks.clone());
        Router { server, chain: Some(Chain::new(layers, Arc::new(bare))), stop_tasks }
    }

    /// Returns the registry, to change the server while it runs.
    #[must_use]
    pub fn registry(&self) -> Registry {
        self.server.registry()
    }

    /// Returns whether an upstream service handles every call.
    #[must_use]
    pub fn is_proxy(&self) -> bool {
        self.server.upstream.is_some()
    }

    /// Returns the names of the methods that the protocol does not define.
    pub fn custom_methods(&self) -> impl Iterator<Item = &str> {
        self.method_names(false)
    }

    /// Returns the names of the notifications of clients that an extension declares.
    pub fn custom_notifications(&self) -> impl Iterator<Item = &str> {
        self.method_names(true)
    }

    fn method_names(&self, notifications: bool) -> impl Iterator<Item = &str> {
        let of_kind =
            self.server.methods.iter().filter(move |it| it.1.is_notification == notifications);
        of_kind.map(|(name, _)| name.as_str())
    }

    /// Returns the limits of the server.
    #[must_use]
    pub fn limits(&self) -> &CallLimits {
        &self.server.limits
    }

    /// Returns the stores of the server, if it was given any; encrypted, if it was given a key for
    /// them.
    #[must_use]
    pub fn stores(&self) -> Option<&Stores> {
        self.server.stores.as_ref()
    }

    /// Returns the cipher for data that leaves the server.
    #[must_use]
    pub fn state_cipher(&self) -> &Arc<dyn StateCipher> {
        &self.server.state_cipher
    }

    /// Starts the task scheduler, which resumes tasks that another process left in the store. Call
    /// it before the first request, which would start it as well. If tasks end with the process,
    /// the scheduler starts with the first task. If several processes share the store, their
    /// subscribers receive each other's changes from now on.
    pub fn start_tasks(&self, timer: &Arc<dyn Timer>) {
        let tasks = &self.server.tasks;
        if tasks.must_start() {
            tasks.start(&self.server, timer);
        }
        if tasks.is_shared() {
            tasks.join(&self.server, timer);
        }
    }

    /// Connects the server to the other processes on this bus: subscribers of each process receive
    /// the changes of all. Call it once, in the runtime that serves, before the first request.
    pub fn join_cluster(&self, bus: Arc<dyn Bus>, timer: &Arc<dyn Timer>) {
        cluster::join(&self.server, bus, timer.clone());
    }

    /// Begins a graceful shutdown: ends all subscriptions and claims no more tasks. Calls and
    /// running tasks continue.
    pub fn shutdown(&self) {
        self.server.subscription_table.shutdown();
        if self.server.tasks.drain() {
            let calls = self.server.call_limit.running();
            tracing::info!(calls, "shutting down: waiting for the calls in flight");
        }
    }

    /// Stops the tasks that run here and releases them to their store, so that another process
    /// resumes them immediately instead of when their leases expire. Call it last before the
    /// process ends. Does nothing if tasks end with the process.
    pub async fn release_tasks(&self) {
        self.server.tasks.release().await;
    }
}

impl Service for Router {
    fn call(&self, request: Request, outbox: Outbox) -> BoxFuture<Outcome> {
        match &self.chain {
            None => dispatch(&self.server, request, outbox),
            Some(chain) => chain.call(request, outbox),
        }
    }

    fn change_version(&self) -> Option<ChangeVersion> {
        match &self.server.upstream {
            None => Some(self.server.subscription_table.change_version()),
            Some(upstream) => upstream.change_version(),
        }
    }

    fn observers(&self) -> &Observers {
        &self.server.observers
    }

    fn has_target(&self, request: &Request) -> bool {
        self.server.has_target(request)
    }
}

impl fmt::Debug for Router {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Router").finish_non_exhaustive()
    }
}
