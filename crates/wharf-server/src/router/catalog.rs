//! Immutable catalog of the items of a server. A change replaces it with a new one.

use std::sync::{Arc, OnceLock};

use foldhash::fast::RandomState as FastState;
use hashbrown::HashMap;
use wharf_model::{
    Deadlines, Discovery, Method, Page, PromptInfo, Reply, ResourceInfo, TASKS_EXTENSION,
    TemplateInfo, ToolInfo,
};

use crate::{
    handler::Endpoint,
    param_headers::ParamHeaders,
    primitives::{completion::CompleterTable, resource::ReadMetadata, uri_template::UriTemplate},
    router::{access::Item, pagination::ListPage},
    schema::validator::SchemaValidator,
    tasks::TaskMode,
};

/// Items and capabilities of a server.
pub(crate) struct CatalogSnapshot {
    pub(crate) lists: CatalogLists,
    pub(crate) discovery: Discovery,
}

impl CatalogSnapshot {
    /// Returns whether the server may create tasks on its own.
    pub(crate) fn has_tasks(&self) -> bool {
        self.discovery.capabilities.extensions.contains_key(TASKS_EXTENSION)
    }

    /// Returns whether the server creates tasks for callers that request one.
    pub(crate) fn makes_tasks(&self) -> bool {
        self.discovery.capabilities.tasks.is_some()
    }
}

/// The four lists. Clones share them; changing one copies it.
#[derive(Clone, Default)]
pub(crate) struct CatalogLists {
    pub(crate) tools: Arc<ItemList<ToolInfo>>,
    pub(crate) resources: Arc<ItemList<ResourceInfo>>,
    pub(crate) templates: Arc<ItemList<TemplateInfo>>,
    pub(crate) prompts: Arc<ItemList<PromptInfo>>,
}

/// Item that can be listed and called.
pub(crate) trait ListedItem: Sized + Send + Sync + 'static {
    /// Data that a call needs besides its handler.
    type Extra: Send + Sync;
    const LIST: Method;

    /// Returns the name or URI that the item is called by.
    fn key(&self) -> &str;
    fn item(&self) -> Item<'_>;
    fn reply(page: Page<Self>) -> Reply;
}

/// Registered item.
pub(crate) struct CatalogEntry<I: ListedItem> {
    /// Position in the list, never reused after the item is removed.
    pub(crate) order: u64,
    pub(crate) info: Arc<I>,
    pub(crate) endpoint: Arc<dyn Endpoint>,
    pub(crate) validator: SchemaValidator,
    pub(crate) deadlines: Option<Deadlines>,
    /// Scopes that a caller must have, all of them.
    pub(crate) scopes: Vec<String>,
    /// Resource that is hidden from the same callers.
    pub(crate) shown_with: Option<ResourceInfo>,
    pub(crate) extra: I::Extra,
}

/// Custom methods by name, fixed when the server is built: the protocol layer knows their names.
pub(crate) type MethodTable = HashMap<String, MethodEntry, FastState>;

/// Identifiers of extensions by the names of the notifications that they let the server send.
pub(crate) type NotificationTable = HashMap<String, String, FastState>;

/// Registered custom method.
pub(crate) struct MethodEntry {
    /// True for a notification of clients, which has no reply.
    pub(crate) is_notification: bool,
    pub(crate) endpoint: Arc<dyn Endpoint>,
    pub(crate) validator: SchemaValidator,
    pub(crate) deadlines: Option<Deadlines>,
    /// Scopes that a caller must have, all of them.
    pub(crate) scopes: Vec<String>,
}

/// Data of a tool.
pub(crate) struct ToolExtra {
    /// Validator of results whose schema is hand-written.
    pub(crate) results: Option<SchemaValidator>,
    pub(crate) param_headers: ParamHeaders,
    /// Task mode, if it was set.
    pub(crate) task: Option<TaskMode>,
}

/// Data of a template.
pub(crate) struct TemplateExtra {
    pub(crate) template: UriTemplate,
    pub(crate) metadata: ReadMetadata,
    pub(crate) completions: CompleterTable,
}

macro_rules! listed {
    ($($Info:ident $list:ident $key:ident $Variant:ident $Page:ident $Extra:ty;)*) => {
        $(impl ListedItem for $Info {
            type Extra = $Extra;
            const LIST: Method = Method::$list;

            fn key(&self) -> &str {
                &self.$key
            }

            fn item(&self) -> Item<'_> {
                Item::$Variant(self)
            }

            fn reply(page: Page<Self>) -> Reply {
                Reply::$Page(page)
            }
        })*
    };
}

listed! {
    ToolInfo     ListTools     name         Tool     Tools     ToolExtra;
    ResourceInfo ListResources uri          Resource Resources ReadMetadata;
    TemplateInfo ListTemplates uri_template Template Templates TemplateExtra;
    PromptInfo   ListPrompts   name         Prompt   Prompts   CompleterTable;
}

/// List of items, in the order of registration.
pub(crate) struct ItemList<I: ListedItem> {
    entries: Vec<Arc<CatalogEntry<I>>>,
    by_key: HashMap<String, Arc<CatalogEntry<I>>, FastState>,
    /// True if any of the items requires a scope.
    is_scoped: bool,
    /// Pages that are the same for all callers, built on first use.
    pub(crate) pages: OnceLock<Vec<ListPage<I>>>,
}

impl<I: ListedItem> ItemList<I> {
    pub(crate) fn get(&self, key: &str) -> Option<&Arc<CatalogEntry<I>>> {
        self.by_key.get(key)
    }

    pub(crate) fn entries(&self) -> &[Arc<CatalogEntry<I>>] {
        &self.entries
    }

    /// Returns whether callers may see different lists, because an item requires a scope.
    pub(crate) fn is_scoped(&self) -> bool {
        self.is_scoped
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Appends an entry; returns false if the name is taken.
    pub(crate) fn insert(&mut self, entry: CatalogEntry<I>) -> bool {
        if self.by_key.contains_key(entry.info.key()) {
            return false;
        }
        self.is_scoped |= !entry.scopes.is_empty();
        let entry = Arc::new(entry);
        self.by_key.insert(entry.info.key().to_owned(), entry.clone());
        self.entries.push(entry);
        self.pages = OnceLock::new();
        true
    }

    pub(crate) fn remove(&mut self, key: &str) -> bool {
        let found = self.by_key.remove(key).is_some();
        self.entries.retain(|entry| entry.info.key() != key);
        self.is_scoped = self.entries.iter().any(|entry| !entry.scopes.is_empty());
        self.pages = OnceLock::new();
        found
    }
}

impl<I: ListedItem> Clone for ItemList<I> {
    fn clone(&self) -> Self {
        let (entries, by_key) = (self.entries.clone(), self.by_key.clone());
        ItemList { entries, by_key, is_scoped: self.is_scoped, pages: OnceLock::new() }
    }
}

impl<I: ListedItem> Default for ItemList<I> {
    fn default() -> Self {
        let (entries, by_key) = (Vec::new(), HashMap::default());
        ItemList { entries, by_key, is_scoped: false, pages: OnceLock::new() }
    }
}
