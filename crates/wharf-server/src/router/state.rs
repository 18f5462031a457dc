//! State shared by all calls of one server.

use std::{
    any::{Any, TypeId},
    sync::{Arc, Mutex, PoisonError},
};

use arc_swap::ArcSwap;
use foldhash::fast::RandomState;
use hashbrown::HashMap;
use serde_json::json;
use wharf_model::{
    CacheHint, Discovery, ListCapability, Meta, Method, NonceStore, Observers, Request,
    ResourcesCapability, ServerCapabilities, Service, StateCipher, Stores, TASKS_EXTENSION,
    TaskSupport,
};

use crate::{
    handler::blocking::BlockingPool,
    limits::CallLimits,
    notifications::{SubscriptionTable, subscription_limits::SubscriptionLimits},
    router::{
        access::Access,
        catalog::{CatalogLists, CatalogSnapshot, MethodTable, NotificationTable},
        concurrency::ConcurrencyLimit,
        registry::Registry,
    },
    tasks::runtime::ServerTasks,
};

pub(crate) type StateMap = HashMap<TypeId, Box<dyn Any + Send + Sync>, RandomState>;
pub(crate) type EditCapabilities = Box<dyn Fn(&mut ServerCapabilities) + Send + Sync>;

pub(crate) struct ServerState {
    pub(crate) limits: CallLimits,
    pub(crate) seal: Arc<dyn StateCipher>,
    pub(crate) nonces: Arc<dyn NonceStore>,
    pub(crate) states: StateMap,
    pub(crate) access: Option<Box<dyn Access>>,
    pub(crate) cache: CacheHint,
    /// Upstream service that handles all requests, for a proxy.
    pub(crate) upstream: Option<Arc<dyn Service>>,
    pub(crate) forwards_custom_methods: bool,
    pub(crate) methods: MethodTable,
    pub(crate) notifications: NotificationTable,
    pub(crate) subscription_table: Arc<SubscriptionTable>,
    pub(crate) subscription_limits: Arc<SubscriptionLimits>,
    pub(crate) call_limit: Arc<ConcurrencyLimit>,
    pub(crate) blocking: Arc<BlockingPool>,
    pub(crate) tasks: Arc<ServerTasks>,
    /// Encrypted, if there is a key for them.
    pub(crate) stores: Option<Stores>,
    pub(crate) catalog: ArcSwap<CatalogSnapshot>,
    pub(crate) description: ServerDescription,
    pub(crate) observers: Observers,
    pub(crate) masks_errors: bool,
    /// Locked while a new catalog is made; contains the order number of the next entry.
    pub(crate) writing: Mutex<u64>,
}

/// Description of a server besides its lists.
pub(crate) struct ServerDescription {
    pub(crate) instructions: Option<String>,
    pub(crate) logging: bool,
    /// True if a long call of any tool may become a task.
    pub(crate) promotes: bool,
    /// Extensions by identifier, with their settings.
    pub(crate) extensions: Meta,
    pub(crate) edit: Option<EditCapabilities>,
}

impl ServerState {
    pub(crate) fn registry(self: &Arc<Self>) -> Registry {
        Registry::new(self.clone())
    }

    /// Returns whether the server has the target of the request. Methods without a target have none
    /// that a caller could invent.
    pub(crate) fn has_target(&self, request: &Request) -> bool {
        if let Some(upstream) = &self.upstream {
            return upstream.has_target(request);
        }
        let (target, catalog) = (request.target(), self.catalog.load());
        match request.method {
            Method::CallTool => catalog.lists.tools.get(&target).is_some(),
            Method::GetPrompt => catalog.lists.prompts.get(&target).is_some(),
            Method::ReadResource => catalog.lists.resources.get(&target).is_some(),
            Method::Custom => self.methods.contains_key(&*target),
            _ => target.is_empty(),
        }
    }

    /// Replaces the lists. `change` receives the next order number and returns whether it changed
    /// anything.
    pub(crate) fn change<E>(
        &self,
        change: impl FnOnce(&mut CatalogLists, &mut u64) -> Result<bool, E>,
    ) -> Result<bool, E> {
        let mut order = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut lists = self.catalog.load().lists.clone();
        let changed = change(&mut lists, &mut order)?;
        if changed {
            self.catalog.store(Arc::new(self.description.catalog(lists, self.cache)));
        }
        Ok(changed)
    }
}

impl ServerDescription {
    pub(crate) fn catalog(&self, lists: CatalogLists, cache: CacheHint) -> CatalogSnapshot {
        let capabilities = self.capabilities(&lists);
        let discovery = Discovery { capabilities, instructions: self.instructions.clone(), cache };
        CatalogSnapshot { lists, discovery }
    }

    /// Derives the capabilities from the lists, then lets the author edit them.
    fn capabilities(&self, lists: &CatalogLists) -> ServerCapabilities {
        let listed = |empty: bool| (!empty).then(|| ListCapability::default().list_changed(true));
        let has_resources = !lists.resources.is_empty() || !lists.templates.is_empty();
        let mut capabilities = ServerCapabilities::default();
        capabilities.tools = listed(lists.tools.is_empty());
        capabilities.prompts = listed(lists.prompts.is_empty());
        capabilities.resources = has_resources
            .then(|| ResourcesCapability::default().subscribe(true).list_changed(true));
        capabilities.completions =
            lists.prompts.entries().iter().any(|prompt| !prompt.extra.is_empty())
                || lists.templates.entries().iter().any(|it| !it.extra.completions.is_empty());
        capabilities.logging = self.logging;
        capabilities.extensions = self.extensions.clone();
        self.tasks(lists, &mut capabilities);
        if let Some(edit) = &self.edit {
            edit(&mut capabilities);
        }
        capabilities
    }

    /// Adds the tasks capability if a tool supports tasks, and the tasks extension if the server
    /// may create tasks at all.
    fn tasks(&self, lists: &CatalogLists, capabilities: &mut ServerCapabilities) {
        let mut modes = lists.tools.entries().iter().filter_map(|tool| tool.extra.task.as_ref());
        let makes_tasks = modes.any(|mode| mode.support != TaskSupport::Forbidden);
        if makes_tasks {
            let support = json!({"cancel": {}, "requests": {"tools": {"call": {}}}});
            capabilities.tasks = support.as_object().cloned().map(Box::new);
        }
        if makes_tasks || (self.promotes && !lists.tools.is_empty()) {
            capabilities.extensions.insert(TASKS_EXTENSION.into(), Meta::new().into());
        }
    }
}
