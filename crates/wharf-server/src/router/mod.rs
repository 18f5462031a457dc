//! Brings each call to its handler.

pub(crate) mod access;
pub(crate) mod caller_shares;
pub(crate) mod catalog;
pub(crate) mod concurrency;
pub(crate) mod dispatch;
pub(crate) mod pagination;
pub(crate) mod registry;
pub(crate) mod state;

use std::{collections::BTreeSet, fmt, sync::Arc, time::Duration};

use serde::Deserialize;
use wharf_model::{
    BoxFuture, Bus, ChangeVersion, Deadlines, Error, ErrorKind, LiveSubscriptionFilter, Method,
    Notification, Outbox, Outcome, Reply, Request, ServerCapabilities, Service, StateCipher,
    Stores, SubscriptionFilter, Timer,
};

use crate::{
    builder::RouterBuilder,
    limits::Limits,
    middleware::{Middleware, Next},
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

/// Everything a server offers, as one service. Clones share it.
///
/// ```
/// # mod wharf { pub use {wharf_model::*, wharf_server::*}; }
/// use wharf::{Router, Tool};
///
/// let router = Router::builder()
///     .instructions("Say hello.")
///     .add(Tool::new("hello", async || "hello"))
///     .build()?;
/// # let _ = router;
/// # Ok::<(), wharf::BuildError>(())
/// ```
#[derive(Clone)]
pub struct Router {
    pub(crate) server: Arc<ServerState>,
    /// None if there is no middleware: then the handler's own future is returned.
    pub(crate) chain: Option<Next>,
    pub(crate) stop_tasks: Arc<StopTasksOnDrop>,
}

/// Held by all who can reach a server. When nobody can any more, its tasks stop running here; if
/// their store outlives the process, another process takes them over when their leases lapse.
pub(crate) struct StopTasksOnDrop(Arc<ServerTasks>);

impl Drop for StopTasksOnDrop {
    fn drop(&mut self) {
        self.0.stop();
    }
}

impl Router {
    /// Begins with nothing.
    pub fn builder() -> RouterBuilder {
        RouterBuilder::new()
    }

    /// A router within all `layers`, the outermost first.
    pub(crate) fn layered(server: Arc<ServerState>, layers: Vec<Box<dyn Middleware>>) -> Self {
        let stop_tasks = Arc::new(StopTasksOnDrop(server.tasks.clone()));
        let bare = Router { server, chain: None, stop_tasks };
        if layers.is_empty() {
            return bare;
        }
        let (server, stop_tasks) = (bare.server.clone(), bare.stop_tasks.clone());
        Router { server, chain: Some(Next::chain(layers, Arc::new(bare))), stop_tasks }
    }

    /// Changes what the server offers while it runs.
    #[must_use]
    pub fn registry(&self) -> Registry {
        self.server.registry()
    }

    /// What the server takes on at most.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.server.limits
    }

    /// Where the server keeps things, if it was given stores: sealed, if it was given a key for them.
    #[must_use]
    pub fn stores(&self) -> Option<&Stores> {
        self.server.stores.as_ref()
    }

    /// The keys with which the server seals what leaves its hands.
    #[must_use]
    pub fn seal(&self) -> &Arc<dyn StateCipher> {
        &self.server.seal
    }

    /// Begins to look after tasks that another process left in the store: for whoever makes the
    /// server reachable, before the first call, which would begin it too. Where tasks end with the
    /// process, they are looked after from the first one on. Where several processes share the
    /// store, their listeners hear of each other's changes from now on.
    pub fn start_tasks(&self, timer: &Arc<dyn Timer>) {
        let tasks = &self.server.tasks;
        if tasks.must_start() {
            tasks.start(&self.server, timer);
        }
        if tasks.is_shared() {
            tasks.join(&self.server, timer);
        }
    }

    /// Tells the listeners of every process on this bus what changes, and those of this one what
    /// changes there. Done once, in the runtime that serves, before the first call.
    pub fn join_fleet(&self, bus: Arc<dyn Bus>, timer: &Arc<dyn Timer>) {
        cluster::join(&self.server, bus, timer.clone());
    }

    /// Ends all listens in good order, and takes up no task that another process left. Calls go
    /// on, and so do tasks.
    pub fn shutdown(&self) {
        self.server.subscription_table.shutdown();
        self.server.tasks.drain();
    }

    /// Stops the tasks that run here and gives them back to their store, so that another process
    /// goes on with them at once and not only when their leases lapse: the last thing to do before
    /// the process ends. Where tasks end with the process, nothing happens.
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

    fn moment(&self) -> Option<ChangeVersion> {
        match &self.server.upstream {
            None => Some(self.server.subscription_table.moment()),
            Some(upstream) => upstream.moment(),
        }
    }
}

impl fmt::Debug for Router {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Router").finish_non_exhaustive()
    }
}

/// Brings a call to its handler, past the middleware.
fn dispatch(server: &Arc<ServerState>, request: Request, outbox: Outbox) -> BoxFuture<Outcome> {
    if server.tasks.must_start() {
        server.tasks.start(server, outbox.timer());
    }
    if let Some(upstream) = &server.upstream {
        return forward_upstream(server, upstream.clone(), request, outbox);
    }
    match request.method {
        Method::CallTool | Method::ReadResource | Method::GetPrompt | Method::Complete => {
            with_permit(server, request, outbox, handle)
        }
        _ => handle(server, request, outbox),
    }
}

/// Answers a call whose turn it is, from what the server offers now.
fn handle(server: &Arc<ServerState>, mut request: Request, outbox: Outbox) -> BoxFuture<Outcome> {
    let catalog = server.catalog.load();
    if !catalog.discovery.capabilities.logging {
        request.log_level = None;
    }
    let (method, lists) = (request.method, &catalog.lists);
    if !advertises(&catalog.discovery.capabilities, method) {
        return now(not_supported(method).into());
    }
    match method {
        Method::CallTool | Method::ReadResource | Method::GetPrompt | Method::Complete => {
            dispatch::run(server, lists, request, outbox)
        }
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
        _ => now(Error::method_not_found(method.name()).into()),
    }
}

/// Answers a call about tasks, if there are any.
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

/// Whether the server said that it has what `method` is for.
fn advertises(capabilities: &ServerCapabilities, method: Method) -> bool {
    match method {
        Method::ListTools | Method::CallTool => capabilities.tools.is_some(),
        Method::ListPrompts | Method::GetPrompt => capabilities.prompts.is_some(),
        Method::ListResources | Method::ListTemplates | Method::ReadResource => {
            capabilities.resources.is_some()
        }
        Method::Complete => capabilities.completions,
        _ => true,
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
    // A list of tasks needs somebody whose tasks they are.
    if let Some(tasks) =
        discovery.capabilities.tasks.as_mut().filter(|_| request.principal().is_some())
    {
        tasks.insert("list".into(), serde_json::json!({}));
    }
    Reply::Discover(Box::new(discovery)).into()
}

/// Lets somebody else answer. What may take long takes its turn.
fn forward_upstream(
    server: &Arc<ServerState>,
    upstream: Arc<dyn Service>,
    request: Request,
    outbox: Outbox,
) -> BoxFuture<Outcome> {
    match request.method {
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

/// Lets somebody else tell a listener, who counts here.
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

/// Runs what may take its time: at once if there is room, else when there is.
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
            // There are none.
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

/// Takes a listener in, and says what was agreed on.
pub(crate) fn admit(
    server: &ServerState,
    catalog: &CatalogSnapshot,
    filter: LiveSubscriptionFilter,
    request: &mut Request,
    outbox: &Outbox,
) -> Result<ActiveSubscription, Error> {
    filter.edit(|filter| {
        // Whoever comes late was offered what there was then: a list that is empty now has changed.
        if request.since.is_none() {
            notifications::restrict(filter, &catalog.discovery.capabilities);
        }
    });
    let permit = server.subscription_limits.admit(request, &filter);
    let permit = permit.ok_or_else(|| Error::overloaded(Duration::from_secs(1)))?;
    request.forget_message();
    let agreed = filter.read(SubscriptionFilter::clone);
    let may_subscribe =
        |principal: Option<&_>, uri: &str| dispatch::may_subscribe(server, principal, uri);
    let subscription = server.subscription_table.listen(filter, request, permit, may_subscribe);
    outbox.set_deadlines(Deadlines { idle: None, total: None });
    outbox.notify(Notification::Acknowledged(agreed));
    Ok(subscription)
}

/// What a listen asks for, with a live filter or in its parameters.
fn request_filter(request: &Request) -> Result<LiveSubscriptionFilter, Error> {
    #[derive(Deserialize)]
    struct Params {
        notifications: SubscriptionFilter,
    }
    if let Some(filter) = &request.filter {
        return Ok(filter.clone());
    }
    let params: Params = serde_json::from_str(request.params())?;
    Ok(LiveSubscriptionFilter::new(params.notifications))
}
