//! Router: dispatches each request to its handler.

pub(crate) mod access;
pub(crate) mod caller_shares;
pub(crate) mod catalog;
pub(crate) mod check_output;
pub(crate) mod concurrency;
pub(crate) mod dispatch;
pub(crate) mod pagination;
pub(crate) mod registry;
pub(crate) mod state;

use std::{collections::BTreeSet, fmt, sync::Arc, time::Duration};

use serde::Deserialize;
use wharf_model::{
    BoxFuture, Bus, ChangeVersion, Deadlines, Error, ErrorKind, LiveSubscriptionFilter, Method,
    Notification, Observers, Outbox, Outcome, Reply, Request, Service, StateCipher, Stores,
    SubscriptionFilter, Timer,
};

use crate::{
    builder::RouterBuilder,
    limits::CallLimits,
    middleware::{Chain, Middleware},
    tasks,
};
use crate::{
    handler::now,
    notifications,
    notifications::{ActiveSubscription, cluster},
    router::{
        catalog::CatalogSnapshot, concurrency::AcquireResult, registry::Registry,
        state::ServerState,
    },
    tasks::{
        runtime::{ServerTasks, missing_runtime},
        subscription::TaskSubscription,
    },
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
        self.server.methods.keys().map(String::as_str)
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
    pub fn seal(&self) -> &Arc<dyn StateCipher> {
        &self.server.seal
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
        self.server.tasks.drain();
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

/// Dispatches a request behind the middleware.
fn dispatch(server: &Arc<ServerState>, request: Request, outbox: Outbox) -> BoxFuture<Outcome> {
    if server.tasks.must_start() {
        server.tasks.start(server, outbox.timer());
    }
    if let Some(upstream) = &server.upstream {
        return forward_upstream(server, upstream.clone(), request, outbox);
    }
    match request.method {
        method if method.info().runs_user_code => with_permit(server, request, outbox, handle),
        _ => handle(server, request, outbox),
    }
}

/// Handles a request that has a permit, with the current catalog.
fn handle(server: &Arc<ServerState>, mut request: Request, outbox: Outbox) -> BoxFuture<Outcome> {
    let catalog = server.catalog.load();
    if !catalog.discovery.capabilities.logging {
        request.log_level = None;
    }
    let (method, lists) = (request.method, &catalog.lists);
    if !catalog.discovery.capabilities.offer(method) {
        return now(not_supported(method).into());
    }
    match method {
        Method::CallTool => dispatch::call_tool(server, lists, request, outbox),
        Method::ReadResource => dispatch::read_resource(server, lists, request, outbox),
        Method::GetPrompt => dispatch::get_prompt(server, lists, request, outbox),
        Method::Complete => dispatch::complete(server, lists, request, outbox),
        Method::Custom => dispatch::call_method(server, request, outbox),
        Method::Discover => now(discover(&catalog, &request)),
        Method::ListTools => now(pagination::list(server, &lists.tools, &request)),
        Method::ListResources => now(pagination::list(server, &lists.resources, &request)),
        Method::ListTemplates => now(pagination::list(server, &lists.templates, &request)),
        Method::ListPrompts => now(pagination::list(server, &lists.prompts, &request)),
        Method::Listen => listen(server, &catalog, request, outbox),
        Method::GetTask
        | Method::UpdateTask
        | Method::CancelTask
        | Method::TaskResult
        | Method::ListTasks => dispatch_task_method(server, &catalog, request, outbox),
        Method::Elicit | Method::Sample | Method::ListRoots => {
            now(Error::method_not_found(method.name()).into())
        }
    }
}

/// Handles a request about tasks, if there are any.
fn dispatch_task_method(
    server: &Arc<ServerState>,
    catalog: &CatalogSnapshot,
    request: Request,
    outbox: Outbox,
) -> BoxFuture<Outcome> {
    match (tasks::methods::check_supported(catalog, &request), server.tasks.task_runtime()) {
        (Ok(()), Some(task_runtime)) => task_runtime.answer(server, request, outbox),
        (Ok(()), None) => missing_runtime(),
        (Err(error), _) => now(error.into()),
    }
}

pub(crate) fn not_supported(method: Method) -> Error {
    let name = method.name();
    Error::new(ErrorKind::CapabilityNotSupported)
        .with_message(format!("Method not found: {name} (this server does not offer it)"))
        .with_data(serde_json::json!({ "method": name }))
}

fn discover(catalog: &CatalogSnapshot, request: &Request) -> Outcome {
    let mut discovery = catalog.discovery.clone();
    // Only a principal has a list of tasks.
    if let Some(tasks) =
        discovery.capabilities.tasks.as_mut().filter(|_| request.principal().is_some())
    {
        tasks.insert("list".into(), serde_json::json!({}));
    }
    Reply::Discover(Box::new(discovery)).into()
}

/// Forwards a request to the upstream service. Requests that may take long need a permit.
fn forward_upstream(
    server: &Arc<ServerState>,
    upstream: Arc<dyn Service>,
    request: Request,
    outbox: Outbox,
) -> BoxFuture<Outcome> {
    match request.method {
        Method::Custom if !may_forward(server, &request.method_name()) => {
            now(Error::method_not_found(&request.method_name()).into())
        }
        Method::Discover => upstream.call(request, outbox),
        Method::Listen => {
            outbox.set_deadlines(Deadlines { idle: None, total: None });
            forward_subscription(server, upstream, request, outbox)
        }
        Method::TaskResult => {
            outbox.set_deadlines(Deadlines { idle: None, total: None });
            upstream.call(request, outbox)
        }
        _ => with_permit(server, request, outbox, move |_, request, outbox| {
            upstream.call(request, outbox)
        }),
    }
}

fn may_forward(server: &ServerState, method: &str) -> bool {
    server.forwards_custom_methods && Method::is_qualified(method)
}

/// Forwards a subscription to the upstream service; it counts towards the limits here.
fn forward_subscription(
    server: &Arc<ServerState>,
    upstream: Arc<dyn Service>,
    request: Request,
    outbox: Outbox,
) -> BoxFuture<Outcome> {
    let filter = match request_filter(&request) {
        Ok(filter) => filter,
        Err(error) => return now(error.into()),
    };
    let Some(permit) = server.subscription_limits.admit(&request, &filter) else {
        return now(Error::overloaded(Duration::from_secs(1)).into());
    };
    Box::pin(async move {
        let outcome = upstream.call(request, outbox).await;
        drop(permit);
        outcome
    })
}

/// Runs a call as soon as it has a permit.
fn with_permit(
    server: &Arc<ServerState>,
    request: Request,
    outbox: Outbox,
    run: impl FnOnce(&Arc<ServerState>, Request, Outbox) -> BoxFuture<Outcome> + Send + 'static,
) -> BoxFuture<Outcome> {
    match server.call_limit.acquire(&request.scope) {
        AcquireResult::Now => {
            outbox.hold(server.call_limit.clone());
            run(server, request, outbox)
        }
        AcquireResult::Counted(permit) => {
            permit.hold(&outbox);
            run(server, request, outbox)
        }
        AcquireResult::Later(queued) => {
            let server = server.clone();
            Box::pin(async move {
                if let Some(permit) = queued.await {
                    permit.hold(&outbox);
                }
                let call = run(&server, request, outbox);
                call.await
            })
        }
        AcquireResult::Never => now(Error::overloaded(Duration::from_secs(1)).into()),
    }
}

fn listen(
    server: &Arc<ServerState>,
    catalog: &CatalogSnapshot,
    mut request: Request,
    outbox: Outbox,
) -> BoxFuture<Outcome> {
    let filter = match request_filter(&request) {
        Ok(filter) => filter,
        Err(error) => return now(error.into()),
    };
    if !filter.read(|filter| filter.tasks.is_empty()) {
        if let Err(error) = tasks::methods::check_supported(catalog, &request) {
            return now(error.into());
        }
        match server.tasks.task_runtime() {
            Some(task_runtime) => return task_runtime.listen(server, filter, request, outbox),
            // There are no tasks.
            None => filter.edit(|filter| filter.tasks.clear()),
        }
    }
    let subscription = match admit(server, catalog, filter.clone(), &mut request, &outbox) {
        Ok(subscription) => subscription,
        Err(error) => return now(error.into()),
    };
    let server = server.clone();
    Box::pin(async move {
        let (request, filter, subscription) = (&request, &filter, &subscription);
        let task_subscription = TaskSubscription { server: &server, request, filter, subscription };
        task_subscription.listen(BTreeSet::new(), &outbox).await;
        Reply::Listened.into()
    })
}

/// Opens a subscription, and acknowledges the accepted filter.
pub(crate) fn admit(
    server: &ServerState,
    catalog: &CatalogSnapshot,
    filter: LiveSubscriptionFilter,
    request: &mut Request,
    outbox: &Outbox,
) -> Result<ActiveSubscription, Error> {
    filter.edit(|filter| {
        // A resumed subscription was accepted with earlier capabilities: a list that is empty now
        // has changed.
        if request.since.is_none() {
            notifications::restrict(filter, &catalog.discovery.capabilities);
        }
    });
    let permit = server.subscription_limits.admit(request, &filter);
    let permit = permit.ok_or_else(|| Error::overloaded(Duration::from_secs(1)))?;
    request.drop_message();
    let agreed = filter.read(SubscriptionFilter::clone);
    let may_subscribe =
        |principal: Option<&_>, uri: &str| dispatch::may_subscribe(server, principal, uri);
    let subscription = server.subscription_table.listen(filter, request, permit, may_subscribe);
    outbox.set_deadlines(Deadlines { idle: None, total: None });
    outbox.notify(Notification::Acknowledged(agreed));
    Ok(subscription)
}

/// Returns the filter of a subscription: a live filter, or the one in its parameters.
fn request_filter(request: &Request) -> Result<LiveSubscriptionFilter, Error> {
    #[derive(Deserialize)]
    struct Params {
        notifications: SubscriptionFilter,
    }
    if let Some(filter) = &request.filter {
        return Ok(filter.clone());
    }
    let params: Params = serde_json::from_str(request.params()).map_err(Error::invalid_params)?;
    Ok(LiveSubscriptionFilter::new(params.notifications))
}
