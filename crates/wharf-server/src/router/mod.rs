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
    notifications::{Listening, cluster},
    router::{catalog::Snapshot, concurrency::Admission, registry::Registry, state::Core},
    tasks::{
        runtime::{Tasks, impossible},
        subscription::Follower,
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
    pub(crate) core: Arc<Core>,
    /// None if there is no middleware: then the handler's own future is returned.
    pub(crate) chain: Option<Next>,
    pub(crate) life: Arc<Life>,
}

/// Held by all who can reach a server. When nobody can any more, its tasks stop running here; if
/// their store outlives the process, another process takes them over when their leases lapse.
pub(crate) struct Life(Arc<Tasks>);

impl Drop for Life {
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
    pub(crate) fn layered(core: Arc<Core>, layers: Vec<Box<dyn Middleware>>) -> Self {
        let life = Arc::new(Life(core.tasks.clone()));
        let bare = Router { core, chain: None, life };
        if layers.is_empty() {
            return bare;
        }
        let (core, life) = (bare.core.clone(), bare.life.clone());
        Router { core, chain: Some(Next::chain(layers, Arc::new(bare))), life }
    }

    /// Changes what the server offers while it runs.
    #[must_use]
    pub fn registry(&self) -> Registry {
        self.core.registry()
    }

    /// What the server takes on at most.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.core.limits
    }

    /// Where the server keeps things, if it was given stores: sealed, if it was given a key for them.
    #[must_use]
    pub fn stores(&self) -> Option<&Stores> {
        self.core.stores.as_ref()
    }

    /// The keys with which the server seals what leaves its hands.
    #[must_use]
    pub fn seal(&self) -> &Arc<dyn StateCipher> {
        &self.core.seal
    }

    /// Begins to look after tasks that another process left in the store: for whoever makes the
    /// server reachable, before the first call, which would begin it too. Where tasks end with the
    /// process, they are looked after from the first one on. Where several processes share the
    /// store, their listeners hear of each other's changes from now on.
    pub fn start_tasks(&self, timer: &Arc<dyn Timer>) {
        let tasks = &self.core.tasks;
        if tasks.must_start() {
            tasks.start(&self.core, timer);
        }
        if tasks.is_shared() {
            tasks.join(&self.core, timer);
        }
    }

    /// Tells the listeners of every process on this bus what changes, and those of this one what
    /// changes there. Done once, in the runtime that serves, before the first call.
    pub fn join_fleet(&self, bus: Arc<dyn Bus>, timer: &Arc<dyn Timer>) {
        cluster::join(&self.core, bus, timer.clone());
    }

    /// Ends all listens in good order, and takes up no task that another process left. Calls go
    /// on, and so do tasks.
    pub fn shutdown(&self) {
        self.core.hub.shutdown();
        self.core.tasks.drain();
    }

    /// Stops the tasks that run here and gives them back to their store, so that another process
    /// goes on with them at once and not only when their leases lapse: the last thing to do before
    /// the process ends. Where tasks end with the process, nothing happens.
    pub async fn release_tasks(&self) {
        self.core.tasks.release().await;
    }
}

impl Service for Router {
    fn call(&self, request: Request, outbox: Outbox) -> BoxFuture<Outcome> {
        match &self.chain {
            None => dispatch(&self.core, request, outbox),
            Some(chain) => chain.call(request, outbox),
        }
    }

    fn moment(&self) -> Option<ChangeVersion> {
        match &self.core.upstream {
            None => Some(self.core.hub.moment()),
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
fn dispatch(core: &Arc<Core>, request: Request, outbox: Outbox) -> BoxFuture<Outcome> {
    if core.tasks.must_start() {
        core.tasks.start(core, outbox.timer());
    }
    if let Some(upstream) = &core.upstream {
        return pass_on(core, upstream.clone(), request, outbox);
    }
    match request.method {
        Method::CallTool | Method::ReadResource | Method::GetPrompt | Method::Complete => {
            in_turn(core, request, outbox, answer)
        }
        _ => answer(core, request, outbox),
    }
}

/// Answers a call whose turn it is, from what the server offers now.
fn answer(core: &Arc<Core>, mut request: Request, outbox: Outbox) -> BoxFuture<Outcome> {
    let snapshot = core.snapshot.load();
    if !snapshot.discovery.capabilities.logging {
        request.log_level = None;
    }
    let (method, lists) = (request.method, &snapshot.lists);
    if !advertises(&snapshot.discovery.capabilities, method) {
        return now(not_supported(method).into());
    }
    match method {
        Method::CallTool | Method::ReadResource | Method::GetPrompt | Method::Complete => {
            dispatch::run(core, lists, request, outbox)
        }
        Method::Discover => now(discover(&snapshot, &request)),
        Method::ListTools => now(pagination::list(core, &lists.tools, &request)),
        Method::ListResources => now(pagination::list(core, &lists.resources, &request)),
        Method::ListTemplates => now(pagination::list(core, &lists.templates, &request)),
        Method::ListPrompts => now(pagination::list(core, &lists.prompts, &request)),
        Method::Listen => listen(core, &snapshot, request, outbox),
        Method::GetTask
        | Method::UpdateTask
        | Method::CancelTask
        | Method::TaskResult
        | Method::ListTasks => about_tasks(core, &snapshot, request, outbox),
        _ => now(Error::method_not_found(method.name()).into()),
    }
}

/// Answers a call about tasks, if there are any.
fn about_tasks(
    core: &Arc<Core>,
    snapshot: &Snapshot,
    request: Request,
    outbox: Outbox,
) -> BoxFuture<Outcome> {
    match (tasks::methods::may_follow(snapshot, &request), core.tasks.machinery()) {
        (Ok(()), Some(machinery)) => machinery.answer(core, request, outbox),
        (Ok(()), None) => impossible(),
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

fn discover(snapshot: &Snapshot, request: &Request) -> Outcome {
    let mut discovery = snapshot.discovery.clone();
    // A list of tasks needs somebody whose tasks they are.
    if let Some(tasks) =
        discovery.capabilities.tasks.as_mut().filter(|_| request.principal().is_some())
    {
        tasks.insert("list".into(), serde_json::json!({}));
    }
    Reply::Discover(Box::new(discovery)).into()
}

/// Lets somebody else answer. What may take long takes its turn.
fn pass_on(
    core: &Arc<Core>,
    upstream: Arc<dyn Service>,
    request: Request,
    outbox: Outbox,
) -> BoxFuture<Outcome> {
    match request.method {
        Method::Discover => upstream.call(request, outbox),
        Method::Listen => {
            outbox.set_deadlines(Deadlines { idle: None, total: None });
            listen_elsewhere(core, upstream, request, outbox)
        }
        Method::TaskResult => {
            outbox.set_deadlines(Deadlines { idle: None, total: None });
            upstream.call(request, outbox)
        }
        _ => {
            in_turn(core, request, outbox, move |_, request, outbox| upstream.call(request, outbox))
        }
    }
}

/// Lets somebody else tell a listener, who counts here.
fn listen_elsewhere(
    core: &Arc<Core>,
    upstream: Arc<dyn Service>,
    request: Request,
    outbox: Outbox,
) -> BoxFuture<Outcome> {
    let filter = match request_filter(&request) {
        Ok(filter) => filter,
        Err(error) => return now(error.into()),
    };
    let Some(admitted) = core.listens.admit(&request, &filter) else {
        return now(Error::overloaded(Duration::from_secs(1)).into());
    };
    Box::pin(async move {
        let outcome = upstream.call(request, outbox).await;
        drop(admitted);
        outcome
    })
}

/// Runs what may take its time: at once if there is room, else when there is.
fn in_turn(
    core: &Arc<Core>,
    request: Request,
    outbox: Outbox,
    run: impl FnOnce(&Arc<Core>, Request, Outbox) -> BoxFuture<Outcome> + Send + 'static,
) -> BoxFuture<Outcome> {
    match core.gate.enter(&request.scope) {
        Admission::Now => {
            outbox.hold(core.gate.clone());
            run(core, request, outbox)
        }
        Admission::Counted(place) => {
            place.keep(&outbox);
            run(core, request, outbox)
        }
        Admission::Later(ticket) => {
            let core = core.clone();
            Box::pin(async move {
                if let Some(place) = ticket.await {
                    place.keep(&outbox);
                }
                let call = run(&core, request, outbox);
                call.await
            })
        }
        Admission::Never => now(Error::overloaded(Duration::from_secs(1)).into()),
    }
}

fn listen(
    core: &Arc<Core>,
    snapshot: &Snapshot,
    mut request: Request,
    outbox: Outbox,
) -> BoxFuture<Outcome> {
    let filter = match request_filter(&request) {
        Ok(filter) => filter,
        Err(error) => return now(error.into()),
    };
    if !filter.read(|filter| filter.tasks.is_empty()) {
        if let Err(error) = tasks::methods::may_follow(snapshot, &request) {
            return now(error.into());
        }
        match core.tasks.machinery() {
            Some(machinery) => return machinery.listen(core, filter, request, outbox),
            // There are none.
            None => filter.edit(|filter| filter.tasks.clear()),
        }
    }
    let listening = match admit(core, snapshot, filter.clone(), &mut request, &outbox) {
        Ok(listening) => listening,
        Err(error) => return now(error.into()),
    };
    let core = core.clone();
    Box::pin(async move {
        let (request, filter, listening) = (&request, &filter, &listening);
        let follower = Follower { core: &core, request, filter, listening };
        follower.listen(BTreeSet::new(), &outbox).await;
        Reply::Listened.into()
    })
}

/// Takes a listener in, and says what was agreed on.
pub(crate) fn admit(
    core: &Core,
    snapshot: &Snapshot,
    filter: LiveSubscriptionFilter,
    request: &mut Request,
    outbox: &Outbox,
) -> Result<Listening, Error> {
    filter.edit(|filter| {
        // Whoever comes late was offered what there was then: a list that is empty now has changed.
        if request.since.is_none() {
            notifications::restrict(filter, &snapshot.discovery.capabilities);
        }
    });
    let admitted = core.listens.admit(request, &filter);
    let admitted = admitted.ok_or_else(|| Error::overloaded(Duration::from_secs(1)))?;
    request.forget_message();
    let agreed = filter.read(SubscriptionFilter::clone);
    let may_follow = |principal: Option<&_>, uri: &str| dispatch::may_follow(core, principal, uri);
    let listening = core.hub.listen(filter, request, admitted, may_follow);
    outbox.set_deadlines(Deadlines { idle: None, total: None });
    outbox.notify(Notification::Acknowledged(agreed));
    Ok(listening)
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
