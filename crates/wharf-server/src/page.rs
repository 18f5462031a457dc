//! Lists, page by page.

use std::sync::Arc;

use wharf_model::{CacheHint, CacheScope, Error, ErrorKind, Outcome, Page, PageBody, Request};

use crate::{
    core::Core,
    snapshot::{Entry, List, Listed},
};

/// One page that everybody sees.
pub(crate) struct Sheet<I> {
    body: Arc<PageBody<I>>,
    next: Option<String>,
}

/// Answers a list request.
pub(crate) fn list<I: Listed>(core: &Core, list: &List<I>, request: &Request) -> Outcome {
    let context = cursor_context::<I>(core, request);
    let after = match request.json(request.parts().cursor) {
        None | Some("null") => Some(0),
        Some(_) => request.cursor().and_then(|cursor| open(core, &context, &cursor)),
    };
    let Some(after) = after else { return Error::new(ErrorKind::InvalidCursor).into() };
    let most = core.limits.page.max(1);
    let wanted = request.limit().and_then(|limit| usize::try_from(limit).ok());
    let size = wanted.map_or(most, |wanted| wanted.clamp(1, most));
    let start = list.entries().partition_point(|entry| entry.order <= after);
    let sheet = match &core.access {
        None if size == most && start.is_multiple_of(size) => {
            let sheets = list.sheets.get_or_init(|| sheets(core, list, &context, size));
            sheets
                .get(start / size)
                .map(|it| Sheet { body: it.body.clone(), next: it.next.clone() })
        }
        _ => None,
    };
    let sheet = sheet.unwrap_or_else(|| {
        let rest = list.entries()[start..].iter();
        cut(core, rest.filter(|entry| core.allows(request, entry.info.item())), &context, size)
    });
    let Sheet { body, next } = sheet;
    I::reply(Page { body, next, cache: hint(core), meta: None }).into()
}

/// What everybody sees may be shared by everybody, and nothing else.
fn hint(core: &Core) -> CacheHint {
    match core.access {
        None => core.cache,
        Some(_) => CacheHint { scope: CacheScope::Private, ..core.cache },
    }
}

fn sheets<I: Listed>(core: &Core, list: &List<I>, context: &[u8], size: usize) -> Vec<Sheet<I>> {
    let entries = list.entries();
    let starts = (0..entries.len().max(1)).step_by(size);
    starts.map(|start| cut(core, entries[start..].iter(), context, size)).collect()
}

/// The first `size` entries, and a cursor if there are more.
fn cut<'a, I: Listed>(
    core: &Core,
    mut entries: impl Iterator<Item = &'a Arc<Entry<I>>>,
    context: &[u8],
    size: usize,
) -> Sheet<I> {
    let here: Vec<&Arc<Entry<I>>> = entries.by_ref().take(size).collect();
    let last = here.last().map(|entry| entry.order);
    let next = last.filter(|_| entries.next().is_some());
    Sheet {
        body: Arc::new(PageBody::new(here.into_iter().map(|entry| entry.info.clone()).collect())),
        next: next.map(|order| core.seal.seal(context, &order.to_be_bytes())),
    }
}

/// A cursor is good for one list, and where callers see different lists, for one caller.
fn cursor_context<I: Listed>(core: &Core, request: &Request) -> Vec<u8> {
    let view = match (&core.access, request.principal()) {
        (None, _) => "everybody\0",
        (Some(_), None) => "nobody\0",
        (Some(_), Some(principal)) => &format!("principal\0{}", principal.id()),
    };
    format!("cursor\0{}\0{view}", I::LIST.name()).into_bytes()
}

fn open(core: &Core, context: &[u8], cursor: &str) -> Option<u64> {
    let plain = core.seal.open(context, cursor)?;
    Some(u64::from_be_bytes(plain.try_into().ok()?))
}
