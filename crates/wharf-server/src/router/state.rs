//! State shared by all calls of one server.

use std::{
    any::{Any, TypeId},
    sync::Arc,
};

use arc_swap::ArcSwap;
use foldhash::fast::RandomState;
use hashbrown::HashMap;
use wharf_model::{
    CacheHint, Lock, Method, Needs, NonceStore, Observers, Request, Service, StateCipher, Stores,
};

use crate::{
    handler::blocking::BlockingPool,
    limits::CallLimits,
    notifications::{SubscriptionTable, subscription_limits::SubscriptionLimits},
    router::{
        access::Access,
        announced_capabilities::ServerDescription,
        catalog::{CatalogLists, CatalogSnapshot, MethodTable, NotificationTable},
        concurrency::ConcurrencyLimit,
        runtime_changes::Registry,
    },
    tasks::runtime::ServerTasks,
};

pub(crate) type StateMap = HashMap<TypeId, Box<dyn Any + Send + Sync>, RandomState>;

pub(crate) struct ServerState {
    pub(crate) limits: CallLimits,
    pub(crate) state_cipher: Arc<dyn StateCipher>,
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
    pub(crate) writing: Lock<u64>,
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
        let info = request.method.info();
        if info.mirrored.is_none() && target.is_empty() {
            return true;
        }
        match info.needs {
            Needs::Tools => catalog.lists.tools.get(&target).is_some(),
            Needs::Prompts => catalog.lists.prompts.get(&target).is_some(),
            Needs::Resources => catalog.lists.resources.get(&target).is_some(),
            Needs::Nothing => {
                request.method == Method::Custom && self.methods.contains_key(&*target)
            }
            Needs::Completions => false,
        }
    }

    /// Replaces the lists. `change` receives the next order number and returns whether it changed
    /// anything.
    pub(crate) fn change<E>(
        &self,
        change: impl FnOnce(&mut CatalogLists, &mut u64) -> Result<bool, E>,
    ) -> Result<bool, E> {
        let mut order = self.writing.lock();
        let mut lists = self.catalog.load().lists.clone();
        let changed = change(&mut lists, &mut order)?;
        if changed {
            self.catalog.store(Arc::new(self.description.catalog(lists, self.cache)));
        }
        Ok(changed)
    }
}
