//! Capabilities that the server announces, derived from what it has.

use serde_json::json;
use wharf_model::{
    CacheHint, Discovery, ListCapability, Meta, ResourcesCapability, ServerCapabilities,
    TASKS_EXTENSION, TaskSupport,
};

use crate::router::catalog::{CatalogLists, CatalogSnapshot};

pub(crate) type EditCapabilities = Box<dyn Fn(&mut ServerCapabilities) + Send + Sync>;

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

impl ServerDescription {
    pub(crate) fn catalog(&self, lists: CatalogLists, cache: CacheHint) -> CatalogSnapshot {
        let capabilities = self.capabilities(&lists);
        let discovery = Discovery::default()
            .capabilities(capabilities)
            .instructions(self.instructions.clone())
            .cache(cache);
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
