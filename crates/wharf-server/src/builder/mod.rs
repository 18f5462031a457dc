//! Builder of a router.

pub(crate) mod error;
mod extensions;
pub(crate) mod prepare;
pub(crate) mod server_parts;

use std::{
    any::{TypeId, type_name},
    mem,
    sync::Arc,
};

use arc_swap::ArcSwap;
use wharf_model::{
    CacheHint, Lock, Meta, Method, NonceStore, Observer, Observers, ServerCapabilities, Service,
    Sharing, StateCipher, Stores,
};
use wharf_store::MemoryNonces;

use crate::{
    builder::{error::BuildError, prepare::PartPreparer},
    handler::{
        Handler, blocking::BlockingPool, extract::Extract, into_method_result::IntoMethodResult,
    },
    key_ring::KeyRing,
    notifications::{SubscriptionTable, custom, subscription_limits::SubscriptionLimits},
    primitives::{
        custom_method::CustomMethod,
        extension::{PrepareParts, ProtocolExtension},
        prompt::Prompt,
        resource::Resource,
        tool::Tool,
    },
    router::{
        access::Access,
        announced_capabilities::{EditCapabilities, ServerDescription},
        catalog::{CatalogLists, MethodTable, NotificationTable},
        concurrency::ConcurrencyLimit,
        runtime_changes::Registry,
        state::{ServerState, StateMap},
    },
    tasks::{
        runtime::{ServerTasks, TASK_RUNTIME, TaskRuntime},
        scheduler::TaskStorage,
    },
};
use crate::{
    call_tracing::Tracing,
    limits::CallLimits,
    middleware::{Middleware, RateLimit},
    router::Router,
    tasks::TaskOptions,
};

/// Function that is a tool. Implemented by `#[tool]`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a function with `#[tool]`",
    label = "not a tool",
    note = "put `#[tool]` on the function, or build a `wharf::Tool` and register it with `.add(…)`"
)]
pub trait ToolFn {
    /// Returns the tool.
    fn tool() -> Tool;
}

/// Function that is a resource. Implemented by `#[resource]`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a function with `#[resource]`",
    label = "not a resource",
    note = "put `#[resource(\"…\")]` on the function, or build a `wharf::Resource` and register it with `.add(…)`"
)]
pub trait ResourceFn {
    /// Returns the resource.
    fn resource() -> Resource;
}

/// Function that is a prompt. Implemented by `#[prompt]`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a function with `#[prompt]`",
    label = "not a prompt",
    note = "put `#[prompt]` on the function, or build a `wharf::Prompt` and register it with `.add(…)`"
)]
pub trait PromptFn {
    /// Returns the prompt.
    fn prompt() -> Prompt;
}

/// Tool, resource, prompt or custom method to register with a server.
#[derive(Debug)]
#[non_exhaustive]
pub enum Part {
    /// A tool.
    Tool(Tool),
    /// A resource or a template.
    Resource(Resource),
    /// A prompt.
    Prompt(Prompt),
    /// A method that the protocol does not define.
    Method(CustomMethod),
}

impl Part {
    /// Returns the task runtime, if the part may create tasks.
    pub(crate) fn task_runtime(&self) -> Option<&'static dyn TaskRuntime> {
        match self {
            Part::Tool(tool) => tool.task_runtime,
            Part::Resource(_) | Part::Prompt(_) | Part::Method(_) => None,
        }
    }

    /// Returns the extensions that the part brings.
    fn extensions(&self) -> &[fn() -> ProtocolExtension] {
        match self {
            Part::Tool(tool) => &tool.extensions,
            Part::Resource(resource) => &resource.extensions,
            Part::Prompt(prompt) => &prompt.extensions,
            Part::Method(_) => &[],
        }
    }
}

impl From<Tool> for Part {
    fn from(tool: Tool) -> Self {
        Part::Tool(tool)
    }
}

impl From<Resource> for Part {
    fn from(resource: Resource) -> Self {
        Part::Resource(resource)
    }
}

impl From<Prompt> for Part {
    fn from(prompt: Prompt) -> Self {
        Part::Prompt(prompt)
    }
}

impl From<CustomMethod> for Part {
    fn from(method: CustomMethod) -> Self {
        Part::Method(method)
    }
}

/// Keys of a store, with the function that encrypts it: a server without keys does not link that
/// function.
struct StoreKey {
    keys: Arc<dyn StateCipher>,
    wrap: fn(Stores, Arc<dyn StateCipher>) -> Stores,
}

/// Builds a [`Router`].
#[must_use]
pub struct RouterBuilder {
    parts: Vec<Part>,
    states: StateMap,
    instructions: Option<String>,
    logging: bool,
    extensions: Meta,
    edit: Option<EditCapabilities>,
    limits: CallLimits,
    access: Option<Box<dyn Access>>,
    layers: Vec<Box<dyn Middleware>>,
    masks_errors: bool,
    observers: Observers,
    state_cipher: Option<Arc<dyn StateCipher>>,
    nonces: Option<Arc<dyn NonceStore>>,
    cache: CacheHint,
    upstream: Option<Arc<dyn Service>>,
    forwards_custom_methods: bool,
    notifications: NotificationTable,
    tasks: TaskOptions,
    /// Set by every part or option that may create tasks.
    task_runtime: Option<&'static dyn TaskRuntime>,
    stores: Option<Stores>,
    store_key: Option<StoreKey>,
    /// Reports the operations of the stores: a server without stores does not link it.
    observe_stores: fn(Stores, Observers) -> Stores,
    /// Functions of extensions that check and complete the parts, by the extension.
    prepare: Vec<(String, PrepareParts)>,
    on_build: Vec<Box<dyn FnOnce(Registry) + Send>>,
    problems: BuildError,
}

impl RouterBuilder {
    pub(crate) fn new() -> Self {
        RouterBuilder {
            parts: Vec::new(),
            states: StateMap::default(),
            instructions: None,
            logging: true,
            extensions: Meta::new(),
            edit: None,
            limits: CallLimits::default(),
            access: None,
            layers: Vec::new(),
            masks_errors: false,
            observers: Observers::default(),
            state_cipher: None,
            nonces: None,
            cache: CacheHint::public(0),
            upstream: None,
            forwards_custom_methods: false,
            notifications: NotificationTable::default(),
            tasks: TaskOptions::default(),
            task_runtime: None,
            stores: None,
            store_key: None,
            observe_stores: |stores, _| stores,
            prepare: Vec::new(),
            on_build: Vec::new(),
            problems: BuildError::default(),
        }
    }

    /// Adds a problem, so that building the server fails.
    pub fn problem(mut self, item: impl Into<String>, text: impl Into<String>) -> Self {
        self.problems.add(item, text);
        self
    }

    /// Forwards every call to `service`, bypassing limits and middleware: the server is a proxy and
    /// has no parts of its own.
    pub fn upstream(mut self, service: impl Service) -> Self {
        self.upstream = Some(Arc::new(service));
        self
    }

    /// Forwards requests of methods that the protocol does not define to the upstream service, too. The
    /// default is to refuse them, because middleware may decide by the name of the method.
    pub fn forward_custom_methods(mut self, on: bool) -> Self {
        self.forwards_custom_methods = on;
        self
    }

    /// Shares `state` with all handlers that take [`State<T>`](crate::State).
    pub fn state<T: Clone + Send + Sync + 'static>(mut self, state: T) -> Self {
        if self.states.insert(TypeId::of::<T>(), Box::new(state)).is_some() {
            let text = "it is set twice: remove one, or wrap each in a type of its own";
            self.problems.add(format!("state `{}`", type_name::<T>()), text);
        }
        self
    }

    /// Adds a tool, a resource, a prompt or a custom method.
    #[allow(clippy::should_implement_trait)] // `add` registers a part: it is not the operator `+`
    pub fn add(mut self, part: impl Into<Part>) -> Self {
        let part = part.into();
        self.task_runtime = self.task_runtime.or(part.task_runtime());
        self.parts.push(part);
        self
    }

    /// Adds the tool that a function defines.
    pub fn tool<T: ToolFn>(self) -> Self {
        self.add(T::tool())
    }

    /// Adds the resource that a function defines.
    pub fn resource<R: ResourceFn>(self) -> Self {
        self.add(R::resource())
    }

    /// Adds the prompt that a function defines.
    pub fn prompt<P: PromptFn>(self) -> Self {
        self.add(P::prompt())
    }

    /// Adds a method that the protocol does not define, such as `acme/report`: an async function of
    /// extractors. A [`CustomMethod`] has scopes and a timeout as well.
    ///
    /// ```
    /// # mod wharf { pub use {wharf_model::*, wharf_server::*}; pub mod server { pub use super::*; } }
    /// use serde_json::json;
    /// use wharf::{Json, server::Router};
    ///
    /// let router = Router::builder().method("acme/tide", async || Json(json!({"height": 3}))).build();
    /// # let _ = router;
    /// ```
    pub fn method<A, F>(self, name: impl Into<String>, handler: F) -> Self
    where
        F: Handler<A>,
        F::Output: IntoMethodResult,
        A: Extract + 'static,
    {
        self.add(CustomMethod::new(name, handler))
    }

    /// Adds an extension of the protocol: declares it with its settings, and adds its methods and notifications.
    pub fn extension(mut self, extension: ProtocolExtension) -> Self {
        let ProtocolExtension { id, settings, methods, notifications, prepare } = extension;
        self.prepare.extend(prepare.map(|it| (id.clone(), it)));
        let item = format!("extension `{id}`");
        if !Method::is_qualified(&id) {
            let text = "its identifier is a domain in reverse, `/` and a name, such as \
                        `com.example/tides`: choose another";
            self.problems.add(&item, text);
        }
        for name in notifications {
            custom::declare(&mut self.notifications, name, &id, &mut self.problems);
        }
        if self.extensions.insert(id, settings.into()).is_some() {
            self.problems.add(&item, "it is added twice: remove one");
        }
        methods.into_iter().fold(self, RouterBuilder::add)
    }

    /// Calls `run` with the registry as soon as the server is built, for code that changes the running server or
    /// notifies subscribers. Such code holds a [`WeakRegistry`](crate::WeakRegistry), so that it does not keep the
    /// server in memory.
    ///
    /// ```
    /// # mod wharf { pub use {wharf_model::*, wharf_server::*}; pub mod server { pub use super::*; } }
    /// use std::sync::mpsc;
    /// use wharf::server::Router;
    ///
    /// let (sender, receiver) = mpsc::channel();
    /// let router = Router::builder().on_build(move |registry| sender.send(registry.downgrade()).unwrap()).build()?;
    /// let registry = receiver.recv().unwrap();
    /// assert!(registry.upgrade().is_some());
    /// drop(router);
    /// assert!(registry.upgrade().is_none());
    /// # Ok::<(), wharf::server::BuildError>(())
    /// ```
    pub fn on_build(mut self, run: impl FnOnce(Registry) + Send + 'static) -> Self {
        self.on_build.push(Box::new(run));
        self
    }

    /// Sets the instructions that tell models how to use the server.
    pub fn instructions(mut self, instructions: impl Into<String>) -> Self {
        self.instructions = Some(instructions.into());
        self
    }

    /// Edits the capabilities that were derived from the registered parts. Runs again whenever
    /// these change.
    pub fn capabilities(
        mut self,
        edit: impl Fn(&mut ServerCapabilities) + Send + Sync + 'static,
    ) -> Self {
        self.edit = Some(Box::new(edit));
        // It may add the tasks capability.
        self.task_runtime = Some(TASK_RUNTIME);
        self
    }

    /// Sets the limits of the server.
    pub fn limits(mut self, limits: CallLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the access hook: it decides which items a caller may see and use.
    pub fn access(mut self, access: impl Access) -> Self {
        self.access = Some(Box::new(access));
        self
    }

    /// Adds middleware; the first one added is the outermost.
    pub fn layer(mut self, layer: impl Middleware) -> Self {
        self.layers.push(Box::new(layer));
        self
    }

    /// Adds an observer, which receives the start and the end of every call, and the events of the
    /// server. [`Tracing`] is always among them, behind all others: it logs the ids of the spans that they make.
    ///
    /// ```
    /// # mod wharf { pub use {wharf_model::*, wharf_server::*}; pub mod server { pub use super::*; } }
    /// use wharf::{Tracing, server::Router};
    ///
    /// let router = Router::builder().observe(Tracing).build()?;
    /// # let _ = router;
    /// # Ok::<(), wharf::server::BuildError>(())
    /// ```
    pub fn observe<O: Observer>(mut self, observer: O) -> Self {
        if TypeId::of::<O>() != TypeId::of::<Tracing>() {
            self.observers = self.observers.with(observer);
        }
        self
    }

    /// Keeps the texts of handlers' errors from clients; off by default. The client receives `Internal error` with an id,
    /// and the log has the id and the text.
    ///
    /// Errors whose kind is the caller's fault, such as `Error::invalid_params`, keep
    /// their text: a handler writes it for the caller.
    pub fn mask_errors(mut self, mask: bool) -> Self {
        self.masks_errors = mask;
        self
    }

    /// Sets the cipher for state that travels through clients. The default are the keys in
    /// `WHARF_STATE_KEY` or in the file `WHARF_STATE_KEY_FILE`, or else a random key of this
    /// process.
    pub fn state_cipher(mut self, cipher: impl StateCipher) -> Self {
        self.state_cipher = Some(Arc::new(cipher));
        self
    }

    /// Sets the store of one-time claims (nonces); in memory by default.
    pub fn nonces(mut self, nonces: impl NonceStore) -> Self {
        self.nonces = Some(Arc::new(nonces));
        self
    }

    /// Sets the options of tasks.
    pub fn tasks(mut self, options: TaskOptions) -> Self {
        (self.tasks, self.task_runtime) = (options, Some(TASK_RUNTIME));
        self
    }

    /// Sets the store of tasks, claims and rates; by default they are in memory and end with the
    /// process.
    pub fn store(mut self, stores: Stores) -> Self {
        (self.stores, self.task_runtime) = (Some(stores), Some(TASK_RUNTIME));
        self.observe_stores = wharf_store::observed;
        self
    }

    /// Encrypts everything that is written into the [store](RouterBuilder::store). Every process
    /// that shares the store needs the same keys, and so does this one after a restart.
    pub fn store_key(mut self, cipher: impl StateCipher) -> Self {
        self.store_key = Some(StoreKey { keys: Arc::new(cipher), wrap: wharf_store::encrypted });
        self
    }

    /// Sets the cache hint of lists and of the server's description. Lists are private as soon as
    /// there is an access hook, whatever the hint is.
    pub fn cache(mut self, hint: CacheHint) -> Self {
        self.cache = hint;
        self
    }

    /// Enables log messages to clients; enabled by default.
    pub fn logging(mut self, logging: bool) -> Self {
        self.logging = logging;
        self
    }

    /// Builds the router, or returns all problems.
    pub fn build(self) -> Result<Router, BuildError> {
        self.add_extensions_of_parts().build_router()
    }

    fn build_router(mut self) -> Result<Router, BuildError> {
        self.prepare_parts();
        if self.masks_errors {
            self.parts.iter_mut().for_each(Part::mask_errors);
            if self.upstream.is_some() {
                let text = "a proxy forwards the errors of its upstream server: mask them there, or \
                            remove `mask_errors`";
                self.problems.add("server", text);
            }
        }
        let methods = self.methods();
        let (lists, next) = self.lists();
        let state_cipher = self.take_cipher();
        // Before the stores, which report to the observers.
        self.observers = mem::take(&mut self.observers).with(Tracing);
        let stores = self.take_stores(&*state_cipher);
        let layers = self.layers_with_rate_limit(stores.as_ref());
        self.problems.or(())?;
        let description = ServerDescription {
            instructions: self.instructions,
            logging: self.logging,
            promotes: self.tasks.threshold.is_some(),
            extensions: self.extensions,
            edit: self.edit,
        };
        let nonces = self.nonces.or_else(|| stores.as_ref().map(|stores| stores.nonces.clone()));
        let tasks =
            ServerTasks::new(stores.as_ref().map(task_storage), self.tasks, self.observers.clone());
        if let Some(upstream) = &self.upstream {
            upstream.observe_upstream(&self.observers);
        }
        if let Some(task_runtime) = self.task_runtime {
            tasks.enable(task_runtime);
        }
        let server = Arc::new(ServerState {
            state_cipher,
            nonces: nonces.unwrap_or_else(|| Arc::new(MemoryNonces::default())),
            states: self.states,
            access: self.access,
            cache: self.cache,
            upstream: self.upstream,
            forwards_custom_methods: self.forwards_custom_methods,
            notifications: self.notifications,
            methods,
            subscription_table: SubscriptionTable::new(self.limits.subscriptions),
            subscription_limits: SubscriptionLimits::new(&self.limits),
            call_limit: Arc::new(
                ConcurrencyLimit::new(self.limits.concurrent, self.limits.queue)
                    .observed(self.observers.clone()),
            ),
            blocking: BlockingPool::new(self.limits.blocking),
            tasks,
            stores,
            catalog: ArcSwap::from_pointee(description.catalog(lists, self.cache)),
            observers: self.observers,
            masks_errors: self.masks_errors,
            description,
            writing: Lock::new(next),
            limits: self.limits,
        });
        self.on_build.into_iter().for_each(|run| run(server.registry()));
        Ok(Router::layered(server, layers))
    }

    /// Takes the layers; the rate limit, if there is one, is the first.
    fn layers_with_rate_limit(&mut self, stores: Option<&Stores>) -> Vec<Box<dyn Middleware>> {
        let mut layers = mem::take(&mut self.layers);
        if let Some(rates) = self.limits.rates {
            let limit = RateLimit::new(rates);
            let limit = match stores {
                Some(stores) => limit.store(stores.rates.clone()),
                None => limit,
            };
            layers.insert(0, Box::new(limit));
        }
        layers
    }

    /// Takes the custom methods out of the parts, and prepares them.
    fn methods(&mut self) -> MethodTable {
        let preparer = PartPreparer { limits: &self.limits, states: &self.states };
        let is_method = |part: &mut Part| matches!(part, Part::Method(_));
        let methods = self.parts.extract_if(.., is_method).filter_map(|part| match part {
            Part::Method(method) => Some(method),
            _ => None,
        });
        let table = preparer.methods(methods, &mut self.problems);
        if self.upstream.is_some() && !table.is_empty() {
            self.problems.add("server", "a proxy forwards every call: remove its own methods");
        }
        table
    }

    /// Prepares all parts; also returns the order number of the next part.
    fn lists(&mut self) -> (CatalogLists, u64) {
        let (mut lists, problems) = (CatalogLists::default(), &mut self.problems);
        let parts = mem::take(&mut self.parts);
        if self.upstream.is_some() && !parts.is_empty() {
            problems.add("server", "a proxy forwards every call: remove its own parts");
        }
        let preparer = PartPreparer { limits: &self.limits, states: &self.states };
        let mut order = 1;
        for part in parts {
            if let Some(prepared) = preparer.part(part, order, problems) {
                prepared.insert(&mut lists, problems);
            }
            order += 1;
        }
        (lists, order)
    }

    /// Takes the configured cipher, or reads the keys that the environment names.
    fn take_cipher(&mut self) -> Arc<dyn StateCipher> {
        let problems = &mut self.problems;
        self.state_cipher.take().unwrap_or_else(|| {
            let keys = KeyRing::from_env_or_file().unwrap_or_else(|error| {
                problems.add("state key", error.to_string());
                KeyRing::random()
            });
            Arc::new(keys)
        })
    }

    /// Takes the stores, encrypted if there is a key for them.
    fn take_stores(&mut self, state_cipher: &dyn StateCipher) -> Option<Stores> {
        let (stores, key) = (self.stores.take()?, self.store_key.take());
        check_store_key(&stores, key.as_ref(), &mut self.problems);
        if stores.sharing == Sharing::Cluster && !state_cipher.is_shared() {
            self.problems.add(
                "state key",
                "its store is shared by several processes, and each would create a key of its \
                 own: set `WHARF_STATE_KEY` to the same key everywhere (`openssl rand -base64 \
                 32` creates one), or set the keys with `.state_cipher(…)`",
            );
        }
        let stores = match key {
            Some(StoreKey { keys, wrap }) => wrap(stores, keys),
            None => stores,
        };
        Some((self.observe_stores)(stores, self.observers.clone()))
    }
}

/// Rejects keys that end with the process for a store that outlives it.
fn check_store_key(stores: &Stores, key: Option<&StoreKey>, problems: &mut BuildError) {
    let outlives = stores.sharing > Sharing::Process;
    if outlives && key.is_some_and(|key| !key.keys.is_shared()) {
        problems.add(
            "store key",
            "its store outlives the process, and cannot be decrypted after a restart: set a \
             persistent key (`openssl rand -base64 32` creates one), the same in every process that \
             shares the store",
        );
    }
}

/// Returns the storage of tasks.
fn task_storage(stores: &Stores) -> TaskStorage {
    let (store, bus) = (stores.tasks.clone(), stores.bus.clone());
    TaskStorage { store, bus, sharing: stores.sharing }
}

impl std::fmt::Debug for RouterBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RouterBuilder").field("parts", &self.parts).finish_non_exhaustive()
    }
}
