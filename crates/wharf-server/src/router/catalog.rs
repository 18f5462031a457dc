//! What a server offers at one moment. A snapshot never changes: a new one takes its place.

use std::sync::{Arc, OnceLock};

use foldhash::fast::RandomState as FastState;
use hashbrown::HashMap;
use wharf_model::{
    Deadlines, Discovery, Method, Page, PromptInfo, Reply, ResourceInfo, TASKS_EXTENSION,
    TemplateInfo, ToolInfo,
};

use crate::{
    handler::Endpoint,
    param_headers::Mirrors,
    primitives::{completion::Completions, resource::Reading, uri_template::Template},
    router::{access::Item, pagination::Sheet},
    schema::validator::Rules,
    tasks::TaskMode,
};

/// Everything a server offers.
pub(crate) struct Snapshot {
    pub(crate) lists: Lists,
    pub(crate) discovery: Discovery,
}

impl Snapshot {
    /// Whether the server may make tasks by itself.
    pub(crate) fn has_tasks(&self) -> bool {
        self.discovery.capabilities.extensions.contains_key(TASKS_EXTENSION)
    }

    /// Whether the server said that it makes tasks for those who ask for one.
    pub(crate) fn makes_tasks(&self) -> bool {
        self.discovery.capabilities.tasks.is_some()
    }
}

/// The four lists. Cloning shares them; changing one copies it.
#[derive(Clone, Default)]
pub(crate) struct Lists {
    pub(crate) tools: Arc<List<ToolInfo>>,
    pub(crate) resources: Arc<List<ResourceInfo>>,
    pub(crate) templates: Arc<List<TemplateInfo>>,
    pub(crate) prompts: Arc<List<PromptInfo>>,
}

/// What can be listed and called.
pub(crate) trait Listed: Sized + Send + Sync + 'static {
    /// What calling it needs besides its handler.
    type Extra: Send + Sync;
    const LIST: Method;

    /// What it is called by.
    fn key(&self) -> &str;
    fn item(&self) -> Item<'_>;
    fn reply(page: Page<Self>) -> Reply;
}

/// One thing that can be listed and called.
pub(crate) struct Entry<I: Listed> {
    /// Its place in the list, never used again after it is gone.
    pub(crate) order: u64,
    pub(crate) info: Arc<I>,
    pub(crate) endpoint: Arc<dyn Endpoint>,
    pub(crate) rules: Rules,
    pub(crate) deadlines: Option<Deadlines>,
    /// What a caller must have been granted, all of it.
    pub(crate) scopes: Vec<String>,
    pub(crate) extra: I::Extra,
}

/// What a tool needs.
pub(crate) struct ToolExtra {
    /// What results are held against, if no type stands for them.
    pub(crate) results: Option<Rules>,
    pub(crate) mirrors: Mirrors,
    /// Whether and when its calls become tasks, if anybody said so.
    pub(crate) task: Option<TaskMode>,
}

/// What a template needs.
pub(crate) struct TemplateExtra {
    pub(crate) template: Template,
    pub(crate) reading: Reading,
    pub(crate) completions: Completions,
}

macro_rules! listed {
    ($($Info:ident $list:ident $key:ident $Variant:ident $Page:ident $Extra:ty;)*) => {
        $(impl Listed for $Info {
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
    ResourceInfo ListResources uri          Resource Resources Reading;
    TemplateInfo ListTemplates uri_template Template Templates TemplateExtra;
    PromptInfo   ListPrompts   name         Prompt   Prompts   Completions;
}

/// One list, in the order of registration.
pub(crate) struct List<I: Listed> {
    entries: Vec<Arc<Entry<I>>>,
    by_key: HashMap<String, Arc<Entry<I>>, FastState>,
    /// Whether any of them is only for callers with some scope.
    is_scoped: bool,
    /// The pages that everybody sees, made when first asked for.
    pub(crate) sheets: OnceLock<Vec<Sheet<I>>>,
}

impl<I: Listed> List<I> {
    pub(crate) fn get(&self, key: &str) -> Option<&Arc<Entry<I>>> {
        self.by_key.get(key)
    }

    pub(crate) fn entries(&self) -> &[Arc<Entry<I>>] {
        &self.entries
    }

    /// Whether callers may see different lists, because something is only for those with some scope.
    pub(crate) fn is_scoped(&self) -> bool {
        self.is_scoped
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds an entry at the end; false if there is one of that name.
    pub(crate) fn insert(&mut self, entry: Entry<I>) -> bool {
        if self.by_key.contains_key(entry.info.key()) {
            return false;
        }
        self.is_scoped |= !entry.scopes.is_empty();
        let entry = Arc::new(entry);
        self.by_key.insert(entry.info.key().to_owned(), entry.clone());
        self.entries.push(entry);
        self.sheets = OnceLock::new();
        true
    }

    pub(crate) fn remove(&mut self, key: &str) -> bool {
        let found = self.by_key.remove(key).is_some();
        self.entries.retain(|entry| entry.info.key() != key);
        self.is_scoped = self.entries.iter().any(|entry| !entry.scopes.is_empty());
        self.sheets = OnceLock::new();
        found
    }
}

impl<I: Listed> Clone for List<I> {
    fn clone(&self) -> Self {
        let (entries, by_key) = (self.entries.clone(), self.by_key.clone());
        List { entries, by_key, is_scoped: self.is_scoped, sheets: OnceLock::new() }
    }
}

impl<I: Listed> Default for List<I> {
    fn default() -> Self {
        let (entries, by_key) = (Vec::new(), HashMap::default());
        List { entries, by_key, is_scoped: false, sheets: OnceLock::new() }
    }
}
