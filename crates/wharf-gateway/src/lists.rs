//! Lists of the gateway, answered from memory.

use std::{sync::Arc, time::Duration};

use wharf_model::{
    Error, ErrorKind, Method, Outcome, Page, PageBody, Reply, Request, ServerCapabilities,
};

use crate::{
    catalog::MergedList, gateway::GatewayState, snapshot::Snapshot, unavailable::all_unavailable,
    upstream::now,
};

/// Age at which the lists of a server that reports changes are read again nevertheless.
const MAX_AGE: Duration = Duration::from_secs(300);

/// Returns a page of a merged list. Only the first request waits for servers that were not tried yet.
pub(crate) async fn list(gateway: Arc<GatewayState>, request: Request) -> Outcome {
    gateway.settled(Duration::MAX).await;
    revalidate(&gateway);
    let catalog = gateway.catalog();
    if !catalog.has_upstream {
        return all_unavailable();
    }
    let size = gateway.page_size;
    let page = match request.method {
        Method::ListTools => page(&catalog.tools, &request, size).map(Reply::Tools),
        Method::ListPrompts => page(&catalog.prompts, &request, size).map(Reply::Prompts),
        Method::ListResources => page(&catalog.resources, &request, size).map(Reply::Resources),
        _ => page(&catalog.templates, &request, size).map(Reply::Templates),
    };
    page.map_or_else(Outcome::from, Outcome::from)
}

/// Returns the page after the cursor, which is the key of the last item before it.
fn page<T>(list: &MergedList<T>, request: &Request, size: usize) -> Result<Page<T>, Error> {
    let first = match request.cursor() {
        None => 0,
        Some(cursor) => match list.keys.iter().position(|key| *key == cursor) {
            Some(last) => last + 1,
            None => return Err(Error::new(ErrorKind::InvalidCursor)),
        },
    };
    let size = request
        .limit()
        .map_or(size, |limit| usize::try_from(limit).unwrap_or(usize::MAX).clamp(1, size));
    let end = list.keys.len().min(first.saturating_add(size));
    if (first, end) == (0, list.keys.len()) {
        return Ok(Page::new(list.body.clone()).cache(list.hint));
    }
    let body = Arc::new(PageBody::new(list.body.items[first..end].to_vec()));
    let is_last = end == list.keys.len();
    let next = list.keys[..end].last().filter(|_| !is_last).cloned();
    Ok(Page::new(body).next(next).cache(list.hint))
}

/// Asks for new lists of the servers whose lists are older than their lifetime. This request does not wait for them.
fn revalidate(gateway: &GatewayState) {
    for server in &gateway.servers {
        let snapshot = server.state.borrow().snapshot.clone();
        let Some(snapshot) = snapshot else { continue };
        if is_stale(&snapshot) && !std::mem::replace(&mut *snapshot.revalidates.lock(), true) {
            server.recheck.notify_one();
        }
    }
}

fn is_stale(snapshot: &Snapshot) -> bool {
    let Some(read_at) = snapshot.read_at else { return true };
    let Snapshot { tools, prompts, resources, templates, .. } = snapshot;
    let hints = [tools.hint, prompts.hint, resources.hint, templates.hint];
    let lifetime = hints.into_iter().flatten().map(|hint| hint.ttl_ms).min().unwrap_or(0);
    let mut lifetime = Duration::from_millis(lifetime);
    if reports_changes(&snapshot.discovery.capabilities) {
        lifetime = lifetime.max(MAX_AGE);
    }
    now().saturating_duration_since(read_at) >= lifetime
}

/// Returns whether the server reports changes of all lists that it has.
fn reports_changes(capabilities: &ServerCapabilities) -> bool {
    let lists = [&capabilities.tools, &capabilities.prompts];
    lists.into_iter().flatten().all(|it| it.list_changed)
        && capabilities.resources.iter().all(|it| it.list_changed)
}
