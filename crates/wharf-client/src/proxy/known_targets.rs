//! Names of tools, prompts and custom methods that the upstream server of a proxy is known to have.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use wharf_model::{Lock, Method, Outcome, PageBody, PromptInfo, Reply, Request, ToolInfo};

/// Maximum number of pages of lists, and of the bytes of one.
const MAX_PAGES: usize = 16;
const MAX_PAGE_WEIGHT: usize = 1 << 20;
/// Maximum number of custom methods.
const MAX_METHODS: usize = 256;

/// What the proxy learns from results that it forwards. Observers ask for it, so that names which callers invent do not
/// become metrics.
#[derive(Default)]
pub(crate) struct KnownTargets {
    /// Pages by list and cursor.
    pages: Lock<BTreeMap<(&'static str, String), ListedNames>>,
    /// Custom methods that the server answered.
    methods: Lock<BTreeSet<String>>,
    /// True once an observer has asked for a custom method.
    records_methods: AtomicBool,
}

/// A page as it was received: nothing is copied while it is not searched.
enum ListedNames {
    Tools(Arc<PageBody<ToolInfo>>),
    Prompts(Arc<PageBody<PromptInfo>>),
}

impl KnownTargets {
    /// Returns whether the server has the target of the request.
    pub(crate) fn contains(&self, request: &Request) -> bool {
        let target = request.target();
        match request.method {
            Method::CallTool | Method::GetPrompt => {
                let pages = self.pages.lock();
                pages.values().any(|page| match (page, request.method) {
                    (ListedNames::Tools(page), Method::CallTool) => {
                        page.items.iter().any(|tool| tool.name == target)
                    }
                    (ListedNames::Prompts(page), Method::GetPrompt) => {
                        page.items.iter().any(|prompt| prompt.name == target)
                    }
                    _ => false,
                })
            }
            Method::Custom => {
                self.records_methods.store(true, Ordering::Relaxed);
                self.methods.lock().contains(&*target)
            }
            _ => target.is_empty(),
        }
    }

    /// Returns the key to [record](KnownTargets::record) the outcome of the request under, if it names targets.
    pub(crate) fn recorded_key(&self, request: &Request) -> Option<(&'static str, String)> {
        let key = match request.method {
            Method::ListTools | Method::ListPrompts => request.cursor().unwrap_or_default(),
            Method::Custom if self.records_methods.load(Ordering::Relaxed) => request.target(),
            _ => return None,
        };
        Some((request.method.name(), key.into_owned()))
    }

    /// Records the targets that the outcome names.
    pub(crate) fn record(&self, key: (&'static str, String), outcome: &Outcome) {
        let page = match outcome {
            Outcome::Complete(Reply::Tools(page)) => ListedNames::Tools(page.body.clone()),
            Outcome::Complete(Reply::Prompts(page)) => ListedNames::Prompts(page.body.clone()),
            Outcome::Complete(Reply::Custom(_)) => {
                let mut methods = self.methods.lock();
                if methods.len() < MAX_METHODS {
                    methods.insert(key.1);
                }
                return;
            }
            _ => return,
        };
        let weight = match &page {
            ListedNames::Tools(page) => page.weight,
            ListedNames::Prompts(page) => page.weight,
        };
        let mut pages = self.pages.lock();
        if weight <= MAX_PAGE_WEIGHT && (pages.len() < MAX_PAGES || pages.contains_key(&key)) {
            pages.insert(key, page);
        }
    }
}
