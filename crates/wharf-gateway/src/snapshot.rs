//! Lists of one upstream server, as they were last read.

use std::{sync::Arc, time::Instant};

use wharf_client::ClientHandle;
use wharf_model::{
    ActiveCall, CacheHint, Deadlines, Discovery, Error, Lock, Method, Needs, Outcome, Page,
    PromptInfo, Reply, RequestBuilder, ResourceInfo, ServerCapabilities, Service, TemplateInfo,
    Timer, ToolInfo,
};

use crate::unavailable::is_outage;

/// Maximum number of items in a list of one server, and of its pages.
const MAX_ITEMS: usize = 2000;
const MAX_PAGES: usize = 100;

/// What the gateway knows about an upstream server.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    pub(crate) discovery: Discovery,
    pub(crate) tools: CachedList<ToolInfo>,
    pub(crate) prompts: CachedList<PromptInfo>,
    pub(crate) resources: CachedList<ResourceInfo>,
    pub(crate) templates: CachedList<TemplateInfo>,
    /// When the lists were read.
    pub(crate) read_at: Option<Instant>,
    /// Set once a list request has asked to read the lists again.
    pub(crate) revalidates: Lock<bool>,
}

/// List of one server.
#[derive(Debug)]
pub(crate) struct CachedList<T> {
    pub(crate) items: Vec<Arc<T>>,
    /// None if the server does not offer the list, or failed to list it.
    pub(crate) hint: Option<CacheHint>,
    pub(crate) failed: bool,
}

impl<T> Default for CachedList<T> {
    fn default() -> Self {
        CachedList { items: Vec::new(), hint: None, failed: false }
    }
}

/// Upstream server that is connected: its client, and the proxy in front of it.
#[derive(Clone)]
pub(crate) struct UpstreamLink {
    pub(crate) client: ClientHandle,
    pub(crate) proxy: Arc<dyn Service>,
}

/// Reads all lists that the server declares.
///
/// # Errors
/// If the server cannot be reached. A list that the server refuses is empty.
pub(crate) async fn read_all(
    link: &UpstreamLink,
    timer: &Arc<dyn Timer>,
    deadlines: Deadlines,
) -> Result<Snapshot, Error> {
    let discovery = link.client.about().discovery.clone();
    let reader = ListReader { link, timer, deadlines, capabilities: &discovery.capabilities };
    let (tools, prompts, resources, templates) = tokio::try_join!(
        reader.read(Method::ListTools, |reply| match reply {
            Reply::Tools(page) => Some(page),
            _ => None,
        }),
        reader.read(Method::ListPrompts, |reply| match reply {
            Reply::Prompts(page) => Some(page),
            _ => None,
        }),
        reader.read(Method::ListResources, |reply| match reply {
            Reply::Resources(page) => Some(page),
            _ => None,
        }),
        reader.read(Method::ListTemplates, |reply| match reply {
            Reply::Templates(page) => Some(page),
            _ => None,
        }),
    )?;
    let read_at = Some(timer.now());
    let revalidates = Lock::new(false);
    Ok(Snapshot { discovery, tools, prompts, resources, templates, read_at, revalidates })
}

struct ListReader<'a> {
    link: &'a UpstreamLink,
    timer: &'a Arc<dyn Timer>,
    deadlines: Deadlines,
    capabilities: &'a ServerCapabilities,
}

impl ListReader<'_> {
    async fn read<T>(
        &self,
        method: Method,
        page_of: fn(Reply) -> Option<Page<T>>,
    ) -> Result<CachedList<T>, Error> {
        let mut list = CachedList::default();
        if !offers(self.capabilities, method) {
            return Ok(list);
        }
        let mut cursor: Option<String> = None;
        for _ in 0..MAX_PAGES {
            let mut request = RequestBuilder::new(method);
            if let Some(cursor) = &cursor {
                request = request.cursor(cursor);
            }
            let mut request = request.build();
            request.scope = self.link.client.transport().scope();
            let proxy = &*self.link.proxy;
            let call = ActiveCall::start(proxy, request, self.timer.clone(), self.deadlines);
            let reply = match call.for_caller().run_alone().await {
                Outcome::Complete(reply) => page_of(reply),
                Outcome::Failed(error) if is_outage(&error) => return Err(*error),
                _ => None,
            };
            let Some(page) = reply else {
                list.failed = true;
                return Ok(list);
            };
            list.items.extend(page.items().iter().cloned());
            list.hint = Some(list.hint.map_or(page.cache, |hint| stricter(hint, page.cache)));
            cursor = page.next;
            if cursor.is_none() || list.items.len() >= MAX_ITEMS {
                break;
            }
        }
        list.items.truncate(MAX_ITEMS);
        Ok(list)
    }
}

/// Returns whether the server declares the capability that the method needs.
pub(crate) fn offers(capabilities: &ServerCapabilities, method: Method) -> bool {
    match method.info().needs {
        Needs::Nothing => true,
        Needs::Tools => capabilities.tools.is_some(),
        Needs::Prompts => capabilities.prompts.is_some(),
        Needs::Resources => capabilities.resources.is_some(),
        Needs::Completions => capabilities.completions,
    }
}

/// Returns the shorter lifetime, private if either is.
pub(crate) fn stricter(one: CacheHint, other: CacheHint) -> CacheHint {
    use wharf_model::CacheScope::Public;
    let ttl_ms = one.ttl_ms.min(other.ttl_ms);
    match (one.scope, other.scope) {
        (Public, Public) => CacheHint::public(ttl_ms),
        _ => CacheHint::private(ttl_ms),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shorter_lifetime_and_the_narrower_scope_apply() {
        let (long, short) = (CacheHint::public(900), CacheHint::public(20));
        assert_eq!(stricter(long, short), short);
        assert_eq!(stricter(CacheHint::private(900), short), CacheHint::private(20));
        assert_eq!(stricter(short, CacheHint::private(900)), CacheHint::private(20));
    }
}
