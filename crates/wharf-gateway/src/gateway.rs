//! [`Gateway`]: the service, and the state that all its calls share.

use std::{
    fmt,
    pin::pin,
    sync::{Arc, OnceLock, Weak},
    time::{Duration, Instant},
};

use serde::Deserialize;
use tokio::{sync::broadcast, task::AbortHandle};
use wharf_model::{
    BoxFuture, CompletionRef, Error, ErrorKind, Lock, Method, Observers, Outbox, Outcome, Request,
    Service, TaskRequest,
};

use crate::{
    GatewayBuilder, RefusedName,
    catalog::{Catalog, GivenNames},
    discovery, driver,
    listen::listen,
    lists,
    names::{NameRules, NameTable, nearest},
    unavailable::{is_outage, unavailable},
    upstream::{ManagedServer, now},
    uris::{UriRewrite, without_prefix},
};

/// Number of changes that a slow subscription may be behind.
const MAX_CHANGES: usize = 256;

/// Many upstream servers behind one endpoint: a [`Service`] whose tools, prompts and resources are those of all of
/// them.
///
/// It takes the place of a single upstream server in a proxy: `Server::upstream` mounts it, with middleware,
/// authorization, limits and transports of that server. See the [crate](crate) for its behaviour.
///
/// ```
/// # mod wharf { pub use wharf_client::ClientHandle; pub mod gateway { pub use wharf_gateway::*; } pub mod model { pub use wharf_model::*; } }
/// use wharf::{gateway::Gateway, model::Service};
///
/// # fn example(github: wharf::ClientHandle, files: wharf::ClientHandle) -> Result<(), wharf::gateway::GatewayError> {
/// let gateway = Gateway::builder().upstream("github", github).upstream("files", files).build()?;
/// let service: Box<dyn Service> = Box::new(gateway);
/// # drop(service);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Gateway(Arc<GatewayState>);

impl Gateway {
    /// Creates a builder without upstream servers.
    pub fn builder() -> GatewayBuilder {
        GatewayBuilder::new()
    }

    pub(crate) fn new(builder: GatewayBuilder) -> Self {
        let rules = builder.rules();
        let GatewayBuilder { upstreams, instructions, page_size, .. } = builder;
        let servers = upstreams.into_iter().enumerate();
        let servers = servers
            .map(|(index, (name, options))| Arc::new(ManagedServer::new(index, name, options)));
        Gateway(Arc::new_cyclic(|this| GatewayState {
            this: this.clone(),
            servers: servers.collect(),
            rules,
            instructions,
            page_size,
            names: GivenNames::default(),
            catalog: Lock::default(),
            changes: broadcast::Sender::new(MAX_CHANGES),
            drivers: Lock::default(),
            started: OnceLock::new(),
        }))
    }

    /// Returns the tools and prompts that are not offered, because another one had their public name first.
    #[must_use]
    pub fn refused_names(&self) -> Vec<RefusedName> {
        self.0.catalog().refused.iter().cloned().collect()
    }
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.0.servers.iter().map(|it| &*it.name).collect();
        f.debug_struct("Gateway").field("upstreams", &names).finish_non_exhaustive()
    }
}

/// Change that subscriptions report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Tools,
    Prompts,
    Resources,
    /// Public URI of a resource that changed.
    Resource(Arc<str>),
}

/// State of a gateway.
pub(crate) struct GatewayState {
    this: Weak<GatewayState>,
    pub(crate) servers: Vec<Arc<ManagedServer>>,
    rules: NameRules,
    pub(crate) instructions: Option<String>,
    pub(crate) page_size: usize,
    names: GivenNames,
    catalog: Lock<Arc<Catalog>>,
    pub(crate) changes: broadcast::Sender<Change>,
    drivers: Lock<Vec<AbortHandle>>,
    started: OnceLock<Instant>,
}

impl Drop for GatewayState {
    fn drop(&mut self) {
        self.drivers.get_mut().iter().for_each(AbortHandle::abort);
    }
}

impl GatewayState {
    /// Starts to connect to the servers, once.
    fn start(&self) {
        let mut drivers = self.drivers.lock();
        if drivers.is_empty() {
            let _ = self.started.set(now());
            let drive =
                |server: &Arc<ManagedServer>| driver::drive(server.clone(), self.this.clone());
            *drivers =
                self.servers.iter().map(|it| tokio::spawn(drive(it)).abort_handle()).collect();
        }
    }

    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        self.catalog.lock().clone()
    }

    pub(crate) fn rewrite(&self, server: &ManagedServer) -> UriRewrite {
        self.names.rewrite(server)
    }

    pub(crate) fn publish(&self, change: Change) {
        // Without subscriptions, it is lost.
        let _ = self.changes.send(change);
    }

    /// Merges the lists again, and reports those that changed.
    pub(crate) fn update(&self) {
        let mut place = self.catalog.lock();
        let new = Arc::new(Catalog::of(&self.servers, &self.names, &self.rules));
        let old = std::mem::replace(&mut *place, new.clone());
        drop(place);
        for refused in new.refused.difference(&old.refused) {
            let RefusedName { public, upstream, name, owner } = refused;
            tracing::warn!(
                public,
                upstream,
                name,
                owner,
                "refused a name that another upstream server has"
            );
        }
        let resources = old.resources.body.items != new.resources.body.items
            || old.templates.body.items != new.templates.body.items;
        for (change, is_changed) in [
            (Change::Tools, old.tools.body.items != new.tools.body.items),
            (Change::Prompts, old.prompts.body.items != new.prompts.body.items),
            (Change::Resources, resources),
        ] {
            if is_changed {
                self.publish(change);
            }
        }
    }

    /// Waits until every server was tried once, at most for `most`, and for each server for its own time limit since
    /// the gateway started.
    pub(crate) async fn settled(&self, most: Duration) {
        let (called, started) = (now(), self.started.get().copied().unwrap_or_else(now));
        for server in &self.servers {
            let limit = server.options.list_timeout.saturating_sub(called - started).min(most);
            // The limits run at the same time.
            server.settled(limit.saturating_sub(now() - called)).await;
        }
    }

    /// Returns the server and the URI there.
    pub(crate) fn resolve_uri(&self, uri: &str) -> Option<(&Arc<ManagedServer>, String)> {
        for server in &self.servers {
            let is_rewritten = self.rewrite(server).prefix.is_some();
            if let Some(rest) = without_prefix(uri, &server.uri_prefix)
                && is_rewritten
            {
                return Some((server, rest.to_owned()));
            }
        }
        let declares = |server: &&Arc<ManagedServer>| {
            let state = server.state.borrow();
            let snapshot = state.snapshot.as_deref();
            snapshot.is_some_and(|it| it.discovery.capabilities.resources.is_some())
        };
        let mut servers = self.servers.iter().filter(declares);
        match (servers.next(), servers.next()) {
            (Some(only), None) => Some((only, uri.to_owned())),
            _ => None,
        }
    }

    /// Returns the server and the name there.
    fn resolve_name(
        &self,
        table: &Lock<NameTable>,
        listed: &[String],
        name: &str,
    ) -> Option<(&Arc<ManagedServer>, String)> {
        let owner = table.lock().get(name).cloned()?;
        let server = self.servers.get(owner.upstream)?;
        // The name of a server that is away leads to it, so that the error names it.
        let is_away = server.state.borrow().outage.is_some();
        let is_offered = is_away || listed.iter().any(|it| it == name);
        is_offered.then(|| (server, owner.name.as_ref().to_owned()))
    }

    fn resolve_tool(&self, name: &str) -> Option<(&Arc<ManagedServer>, String)> {
        self.resolve_name(&self.names.tools, &self.catalog().tools.keys, name)
    }

    fn resolve_prompt(&self, name: &str) -> Option<(&Arc<ManagedServer>, String)> {
        self.resolve_name(&self.names.prompts, &self.catalog().prompts.keys, name)
    }

    /// Finds the server of a request, and changes the request to what the server calls its target.
    fn route(&self, request: &mut Request) -> Result<Arc<ManagedServer>, Error> {
        let target = request.target().into_owned();
        let found = match request.method {
            Method::CallTool => self.resolve_tool(&target),
            Method::GetPrompt => self.resolve_prompt(&target),
            Method::ReadResource => self.resolve_uri(&target),
            Method::Complete => return self.route_completion(request),
            _ => return Err(Error::method_not_found(&request.method_name())),
        };
        let Some((server, name)) = found else {
            return Err(self.unknown(request.method, &target));
        };
        if name != target {
            request.set_target(&name);
        }
        Ok(server.clone())
    }

    fn route_completion(&self, request: &mut Request) -> Result<Arc<ManagedServer>, Error> {
        #[derive(Deserialize)]
        struct Params {
            #[serde(rename = "ref")]
            of: CompletionRef,
        }
        let Params { of } =
            serde_json::from_str(request.params()).map_err(Error::invalid_params)?;
        let (server, there) = match &of {
            CompletionRef::Prompt(name) => {
                let found = self.resolve_prompt(name);
                let (server, name) = found.ok_or_else(|| self.unknown(Method::GetPrompt, name))?;
                (server, CompletionRef::prompt(name))
            }
            CompletionRef::Resource(uri) => {
                let found = self.resolve_uri(uri);
                let (server, uri) = found.ok_or_else(|| self.unknown(Method::ReadResource, uri))?;
                (server, CompletionRef::resource(uri))
            }
            _ => return Err(Error::invalid_params("`ref` is neither a prompt nor a resource")),
        };
        if there != of {
            request.set_param("ref", &serde_json::to_string(&there)?);
        }
        Ok(server.clone())
    }

    /// Returns the error for a target that no server has, with the names that are most like it.
    fn unknown(&self, method: Method, target: &str) -> Error {
        let catalog = self.catalog();
        let (keys, error) = match method {
            Method::CallTool => (&catalog.tools.keys, Error::tool_not_found(target)),
            Method::GetPrompt => (&catalog.prompts.keys, Error::prompt_not_found(target)),
            _ => (&catalog.resources.keys, Error::resource_not_found(target)),
        };
        let near = nearest(target, keys.iter().map(String::as_str));
        if near.is_empty() {
            return error;
        }
        let message = format!("{}. Did you mean {}?", error.message, near.join(", "));
        error.with_message(message)
    }

    /// Finds the server of a request, which may not have been reached yet.
    async fn route_when_settled(&self, request: &mut Request) -> Result<Arc<ManagedServer>, Error> {
        let routed = self.route(request);
        if !matches!(&routed, Err(error) if error.kind != ErrorKind::MethodNotFound) {
            return routed;
        }
        let mut changes = self.changes.subscribe();
        let mut settled = pin!(self.settled(Duration::MAX));
        loop {
            let routed = self.route(request);
            if routed.is_ok() {
                return routed;
            }
            tokio::select! {
                () = &mut settled => return self.route(request),
                _ = changes.recv() => {}
            }
        }
    }

    async fn forward(self: Arc<Self>, mut request: Request, outbox: Outbox) -> Outcome {
        let method = request.method;
        let server = match self.route_when_settled(&mut request).await {
            Ok(server) => server,
            Err(error) => return error.into(),
        };
        let link = match server.link().await {
            Ok(link) => link,
            Err(retry_after) => return unavailable(method, &server.name, retry_after),
        };
        // Tasks of a server are followed, because their ids are not unique among servers.
        request.tasking = TaskRequest::Unknown;
        outbox.set_deadlines(server.deadlines(outbox.deadlines()));
        match link.proxy.call(request, outbox).await {
            Outcome::Failed(error) if is_outage(&error) => {
                unavailable(method, &server.name, server.call_failed())
            }
            outcome => self.rewrite(&server).outcome(outcome),
        }
    }
}

impl Service for Gateway {
    fn call(&self, request: Request, outbox: Outbox) -> BoxFuture<Outcome> {
        let state = self.0.clone();
        state.start();
        match request.method {
            Method::Discover => Box::pin(discovery::discover(state)),
            Method::Listen => Box::pin(listen(state, request, outbox)),
            Method::ListTools
            | Method::ListPrompts
            | Method::ListResources
            | Method::ListTemplates => Box::pin(lists::list(state, request)),
            _ => Box::pin(state.forward(request, outbox)),
        }
    }

    fn observe_upstream(&self, observers: &Observers) {
        for server in &self.0.servers {
            *server.observers.lock() = observers.clone();
        }
    }

    fn has_target(&self, request: &Request) -> bool {
        let target = request.target();
        match request.method {
            Method::CallTool => self.0.resolve_tool(&target).is_some(),
            Method::GetPrompt => self.0.resolve_prompt(&target).is_some(),
            _ => target.is_empty(),
        }
    }
}
