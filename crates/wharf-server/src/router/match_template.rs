//! Match of a URI with the resource templates of a server: the first registered one wins.

use std::sync::Arc;

use wharf_model::{Principal, TemplateInfo};

use crate::router::{
    catalog::{CatalogEntry, CatalogLists, ListedItem},
    get_prompt::NamedArgs,
    state::ServerState,
};

/// Finds the first template that matches and that the caller may use.
pub(super) fn find_template<'a>(
    server: &ServerState,
    lists: &'a CatalogLists,
    principal: Option<&Principal>,
    uri: &str,
) -> Option<(&'a Arc<CatalogEntry<TemplateInfo>>, NamedArgs<'a>)> {
    let visible = |entry: &&Arc<CatalogEntry<TemplateInfo>>| match &server.access {
        None => true,
        Some(access) => access.allows(principal, entry.info.item()),
    };
    let matching = |entry: &'a Arc<CatalogEntry<TemplateInfo>>| {
        Some((entry, entry.extra.template.matches(uri)?))
    };
    lists.templates.entries().iter().filter(visible).find_map(matching)
}
