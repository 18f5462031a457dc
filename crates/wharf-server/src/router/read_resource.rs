//! `resources/read`: finds the resource or template, and calls its handler. Also decides who may subscribe to a URI.

use std::sync::Arc;

use wharf_model::{BoxFuture, Error, ErrorKind, Outbox, Outcome, Principal, Request};

use crate::router::{dispatch::call, match_template::find_template};
use crate::{
    handler::{extract::CallInput, now},
    router::{
        catalog::{CatalogLists, ListedItem},
        state::ServerState,
    },
};

/// Reads a resource, or one that a template matches.
pub(crate) fn read_resource(
    server: &Arc<ServerState>,
    lists: &CatalogLists,
    request: Request,
    outbox: Outbox,
) -> BoxFuture<Outcome> {
    let uri = request.target().into_owned();
    if uri.len() > server.limits.uri {
        let text = format!("The URI has {} bytes; {} is the limit", uri.len(), server.limits.uri);
        return now(Error::new(ErrorKind::UriTooLong).with_message(text).into());
    }
    if let Some(resource) = lists.resources.get(&uri) {
        // A hidden resource must not become readable through a template.
        if !server.allows(&request, resource.info.item()) {
            return now(Error::resource_not_found(&uri).into());
        }
        if let Some(error) = server.missing_scopes(&request, &resource.scopes) {
            return now(error.into());
        }
        return call(server, resource, request, outbox, CallInput::Resource(&[], &resource.extra));
    }
    match find_template(server, lists, request.principal(), &uri) {
        Some((template, pairs)) => {
            if let Some(error) = server.missing_scopes(&request, &template.scopes) {
                return now(error.into());
            }
            let input = CallInput::Resource(&pairs, &template.extra.metadata);
            call(server, template, request, outbox, input)
        }
        None => now(Error::resource_not_found(&uri).into()),
    }
}

/// Returns whether the caller may receive updates of a resource. False for resources that exist but
/// are hidden from the caller.
pub(crate) fn may_subscribe(
    server: &ServerState,
    principal: Option<&Principal>,
    uri: &str,
) -> bool {
    let catalog = server.catalog.load();
    let lists = &catalog.lists;
    if server.access.is_none() && !lists.resources.is_scoped() && !lists.templates.is_scoped() {
        return true;
    }
    // An unauthenticated caller is local, or scopes protect only contents: a notification reveals
    // no more than a change of a URI that the caller has already.
    let has = |scopes: &[String]| {
        principal.is_none_or(|caller| scopes.iter().all(|scope| caller.has_scope(scope)))
    };
    if let Some(resource) = lists.resources.get(uri) {
        let access = server.access.as_ref();
        return access.is_none_or(|access| access.allows(principal, resource.info.item()))
            && has(&resource.scopes);
    }
    match find_template(server, lists, principal, uri) {
        Some((template, _)) => has(&template.scopes),
        None => {
            let mut templates = lists.templates.entries().iter();
            !templates.any(|entry| entry.extra.template.matches(uri).is_some())
        }
    }
}
