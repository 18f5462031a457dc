//! Pagination of lists.

use std::sync::Arc;

use wharf_model::{CacheHint, Error, ErrorKind, Outcome, Page, PageBody, Request};

use crate::router::{
    catalog::{CatalogEntry, ItemList, ListedItem},
    state::ServerState,
};

/// One page, and the position of its last entry if more follow. The cursor is encrypted anew for
/// each response, because a cipher may rotate its keys.
pub(crate) struct ListPage<I> {
    body: Arc<PageBody<I>>,
    last: Option<u64>,
}

/// Handles a list request.
pub(crate) fn list<I: ListedItem>(
    server: &ServerState,
    list: &ItemList<I>,
    request: &Request,
) -> Outcome {
    let context = cursor_context(server, list, request);
    let after = match request.json(request.parts().cursor) {
        None | Some("null") => Some(0),
        Some(_) => request.cursor().and_then(|cursor| decode_cursor(server, &context, &cursor)),
    };
    let Some(after) = after else { return Error::new(ErrorKind::InvalidCursor).into() };
    let most = server.limits.page.max(1);
    let wanted = request.limit().and_then(|limit| usize::try_from(limit).ok());
    let size = wanted.map_or(most, |wanted| wanted.clamp(1, most));
    let start = list.entries().partition_point(|entry| entry.order <= after);
    let page = match &server.access {
        None if !list.is_scoped() && size == most && start.is_multiple_of(size) => {
            let pages = list.pages.get_or_init(|| pages(list, size));
            pages.get(start / size).map(|it| ListPage { body: it.body.clone(), last: it.last })
        }
        _ => None,
    };
    let page = page.unwrap_or_else(|| {
        let rest = list.entries()[start..].iter();
        take_page(rest.filter(|entry| server.is_visible(request, entry)), size)
    });
    let ListPage { body, last } = page;
    let next = last.map(|order| server.state_cipher.seal(&context, &order.to_be_bytes()));
    I::reply(Page::new(body).next(next).cache(cache_hint(server, list))).into()
}

/// Returns the cache hint: `public` only if all callers see the same list, otherwise `private`.
fn cache_hint<I: ListedItem>(server: &ServerState, list: &ItemList<I>) -> CacheHint {
    match server.access {
        None if !list.is_scoped() => server.cache,
        _ => CacheHint::private(server.cache.ttl_ms),
    }
}

fn pages<I: ListedItem>(list: &ItemList<I>, size: usize) -> Vec<ListPage<I>> {
    let entries = list.entries();
    let starts = (0..entries.len().max(1)).step_by(size);
    starts.map(|start| take_page(entries[start..].iter(), size)).collect()
}

/// Builds a page of the first `size` entries.
fn take_page<'a, I: ListedItem>(
    mut entries: impl Iterator<Item = &'a Arc<CatalogEntry<I>>>,
    size: usize,
) -> ListPage<I> {
    let here: Vec<&Arc<CatalogEntry<I>>> = entries.by_ref().take(size).collect();
    let last = here.last().map(|entry| entry.order);
    let last = last.filter(|_| entries.next().is_some());
    let items = here.into_iter().map(|entry| entry.info.clone()).collect();
    ListPage { body: Arc::new(PageBody::new(items)), last }
}

/// Returns the binding of a cursor: it is valid for one list, and where callers see different
/// lists, for one caller.
fn cursor_context<I: ListedItem>(
    server: &ServerState,
    list: &ItemList<I>,
    request: &Request,
) -> Vec<u8> {
    let differs = server.access.is_some() || list.is_scoped();
    let view = match request.principal() {
        _ if !differs => "everybody\0",
        None => "nobody\0",
        Some(principal) => &format!("principal\0{}", principal.id()),
    };
    format!("cursor\0{}\0{view}", I::LIST.name()).into_bytes()
}

fn decode_cursor(server: &ServerState, context: &[u8], cursor: &str) -> Option<u64> {
    let plain = server.state_cipher.open(context, cursor)?;
    Some(u64::from_be_bytes(plain.try_into().ok()?))
}
