//! Merged lists of all upstream servers, and the names that they have there.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use wharf_model::{CacheHint, Lock, PageBody, PromptInfo, ResourceInfo, TemplateInfo, ToolInfo};

use crate::{
    names::{NameOwner, NameRules, NameTable},
    snapshot::{CachedList, Snapshot, stricter},
    upstream::ManagedServer,
    uris::UriRewrite,
};

/// Name of a tool or prompt that is not offered, because another one has the same public name.
///
/// ```
/// # mod wharf { pub mod gateway { pub use wharf_gateway::*; } }
/// # fn example(gateway: wharf::gateway::Gateway) {
/// for refused in gateway.refused_names() {
///     println!("{} of {} is {} of {}", refused.name, refused.upstream, refused.public, refused.owner);
/// }
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct RefusedName {
    /// The public name.
    pub public: String,
    /// Upstream server whose tool or prompt is refused.
    pub upstream: String,
    /// Name at that server.
    pub name: String,
    /// Upstream server whose tool or prompt has the public name.
    pub owner: String,
}

/// Lists that clients of the gateway receive.
#[derive(Debug, Default)]
pub(crate) struct Catalog {
    pub(crate) tools: MergedList<ToolInfo>,
    pub(crate) prompts: MergedList<PromptInfo>,
    pub(crate) resources: MergedList<ResourceInfo>,
    pub(crate) templates: MergedList<TemplateInfo>,
    pub(crate) refused: BTreeSet<RefusedName>,
    /// False if the lists of no server are offered.
    pub(crate) has_upstream: bool,
}

/// Merged list, with the key of each item for cursors.
#[derive(Debug)]
pub(crate) struct MergedList<T> {
    pub(crate) keys: Vec<String>,
    pub(crate) body: Arc<PageBody<T>>,
    pub(crate) hint: CacheHint,
}

impl<T> Default for MergedList<T> {
    fn default() -> Self {
        let body = Arc::new(PageBody::new(Vec::new()));
        MergedList { keys: Vec::new(), body, hint: CacheHint::default() }
    }
}

/// Names that were given, for the life of the gateway.
#[derive(Debug, Default)]
pub(crate) struct GivenNames {
    pub(crate) tools: Lock<NameTable>,
    pub(crate) prompts: Lock<NameTable>,
    /// True once two servers have declared resources: URIs have prefixes from then on.
    rewrites: AtomicBool,
}

impl GivenNames {
    /// Returns how URIs of this server are rewritten.
    pub(crate) fn rewrite(&self, server: &ManagedServer) -> UriRewrite {
        let is_rewritten = self.rewrites.load(Ordering::Relaxed);
        UriRewrite { prefix: is_rewritten.then(|| server.uri_prefix.clone()) }
    }
}

impl Catalog {
    /// Merges the lists of the servers, in their order.
    pub(crate) fn of(
        servers: &[Arc<ManagedServer>],
        names: &GivenNames,
        rules: &NameRules,
    ) -> Self {
        let snapshots: Vec<(&Arc<ManagedServer>, Option<Arc<Snapshot>>)> =
            servers.iter().map(|server| (server, server.visible())).collect();
        let declares = |it: &Snapshot| it.discovery.capabilities.resources.is_some();
        let with_resources = |server: &&Arc<ManagedServer>| {
            server.state.borrow().snapshot.as_deref().is_some_and(declares)
        };
        if servers.iter().filter(with_resources).count() > 1 {
            names.rewrites.store(true, Ordering::Relaxed);
        }
        let merger = Merger { servers, snapshots: &snapshots, names, rules };
        let mut refused = BTreeSet::new();
        Catalog {
            tools: merger.tools(&mut refused),
            prompts: merger.prompts(&mut refused),
            resources: merger.merge(
                |it| &it.resources,
                |server, resource| {
                    let mut public = resource.clone();
                    public.uri = names.rewrite(server).public(&resource.uri);
                    Some((public.uri.clone(), public))
                },
            ),
            templates: merger.merge(
                |it| &it.templates,
                |server, template| {
                    let mut public = template.clone();
                    public.uri_template = names.rewrite(server).public(&template.uri_template);
                    Some((public.uri_template.clone(), public))
                },
            ),
            refused,
            has_upstream: snapshots.iter().any(|(_, snapshot)| snapshot.is_some()),
        }
    }
}

struct Merger<'a> {
    servers: &'a [Arc<ManagedServer>],
    snapshots: &'a [(&'a Arc<ManagedServer>, Option<Arc<Snapshot>>)],
    names: &'a GivenNames,
    rules: &'a NameRules,
}

impl Merger<'_> {
    fn tools(&self, refused: &mut BTreeSet<RefusedName>) -> MergedList<ToolInfo> {
        let mut table = self.names.tools.lock();
        let list = self.merge(
            |it| &it.tools,
            |server, tool| {
                if !server.options.filter.includes(tool) {
                    return None;
                }
                let mut public = tool.clone();
                public.name = self.claim(&mut table, refused, server, &tool.name)?;
                Some((public.name.clone(), public))
            },
        );
        table.trim(|name| list.keys.iter().any(|key| key == name));
        list
    }

    fn prompts(&self, refused: &mut BTreeSet<RefusedName>) -> MergedList<PromptInfo> {
        let mut table = self.names.prompts.lock();
        let list = self.merge(
            |it| &it.prompts,
            |server, prompt| {
                let mut public = prompt.clone();
                public.name = self.claim(&mut table, refused, server, &prompt.name)?;
                Some((public.name.clone(), public))
            },
        );
        table.trim(|name| list.keys.iter().any(|key| key == name));
        list
    }

    /// Returns the public name, unless it is refused.
    fn claim(
        &self,
        table: &mut NameTable,
        refused: &mut BTreeSet<RefusedName>,
        server: &ManagedServer,
        name: &str,
    ) -> Option<String> {
        let public = self.rules.public(&server.prefix, name);
        let owner = NameOwner { upstream: server.index, name: name.into() };
        let Err(present) = table.claim(&public, &owner) else { return Some(public) };
        let owner = self.servers.get(present.upstream)?.name.clone();
        let (upstream, name) = (server.name.clone(), name.to_owned());
        refused.insert(RefusedName { public, upstream, name, owner });
        None
    }

    fn merge<T>(
        &self,
        list_of: impl Fn(&Snapshot) -> &CachedList<T>,
        mut publish: impl FnMut(&ManagedServer, &T) -> Option<(String, T)>,
    ) -> MergedList<T> {
        let (mut keys, mut seen, mut items) = (Vec::new(), BTreeSet::new(), Vec::new());
        let mut hint: Option<CacheHint> = None;
        let mut is_complete = true;
        for (server, snapshot) in self.snapshots {
            is_complete &= server.state.borrow().outage.is_none();
            let Some(list) = snapshot.as_deref().map(&list_of) else {
                is_complete = false;
                continue;
            };
            is_complete &= !list.failed;
            hint = match (hint, list.hint) {
                (Some(hint), Some(other)) => Some(stricter(hint, other)),
                (hint, other) => hint.or(other),
            };
            for (key, item) in list.items.iter().filter_map(|it| publish(server, it)) {
                // A server may list a name twice; without prefixes, servers may have the same URI.
                if seen.insert(key.clone()) {
                    keys.push(key);
                    items.push(Arc::new(item));
                }
            }
        }
        let mut hint = hint.unwrap_or_default();
        if !is_complete {
            hint.ttl_ms = 0;
        }
        MergedList { keys, body: Arc::new(PageBody::new(items)), hint }
    }
}
