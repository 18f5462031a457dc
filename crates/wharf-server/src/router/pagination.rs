//! Lists, page by page.

use std::sync::Arc;

use wharf_model::{CacheHint, CacheScope, Error, ErrorKind, Outcome, Page, PageBody, Request};

use crate::router::{
    catalog::{Entry, List, Listed},
    state::Core,
};

/// One page, and the place of its last entry if there are more after it. A cursor is sealed anew
/// for each answer: seals may change their keys while they run.
pub(crate) struct Sheet<I> {
    body: Arc<PageBody<I>>,
    last: Option<u64>,
}

/// Answers a list request.
pub(crate) fn list<I: Listed>(core: &Core, list: &List<I>, request: &Request) -> Outcome {
    let context = cursor_context(core, list, request);
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
        None if !list.is_scoped() && size == most && start.is_multiple_of(size) => {
            let sheets = list.sheets.get_or_init(|| sheets(list, size));
            sheets.get(start / size).map(|it| Sheet { body: it.body.clone(), last: it.last })
        }
        _ => None,
    };
    let sheet = sheet.unwrap_or_else(|| {
        let rest = list.entries()[start..].iter();
        cut(rest.filter(|entry| core.shows(request, entry)), size)
    });
    let Sheet { body, last } = sheet;
    let next = last.map(|order| core.seal.seal(&context, &order.to_be_bytes()));
    I::reply(Page { body, next, cache: hint(core, list), meta: None }).into()
}

/// What everybody sees may be shared by everybody, and nothing else.
fn hint<I: Listed>(core: &Core, list: &List<I>) -> CacheHint {
    match core.access {
        None if !list.is_scoped() => core.cache,
        _ => CacheHint { scope: CacheScope::Private, ..core.cache },
    }
}

fn sheets<I: Listed>(list: &List<I>, size: usize) -> Vec<Sheet<I>> {
    let entries = list.entries();
    let starts = (0..entries.len().max(1)).step_by(size);
    starts.map(|start| cut(entries[start..].iter(), size)).collect()
}

/// The first `size` entries.
fn cut<'a, I: Listed>(
    mut entries: impl Iterator<Item = &'a Arc<Entry<I>>>,
    size: usize,
) -> Sheet<I> {
    let here: Vec<&Arc<Entry<I>>> = entries.by_ref().take(size).collect();
    let last = here.last().map(|entry| entry.order);
    let last = last.filter(|_| entries.next().is_some());
    let items = here.into_iter().map(|entry| entry.info.clone()).collect();
    Sheet { body: Arc::new(PageBody::new(items)), last }
}

/// A cursor is good for one list, and where callers see different lists, for one caller.
fn cursor_context<I: Listed>(core: &Core, list: &List<I>, request: &Request) -> Vec<u8> {
    let differs = core.access.is_some() || list.is_scoped();
    let view = match request.principal() {
        _ if !differs => "everybody\0",
        None => "nobody\0",
        Some(principal) => &format!("principal\0{}", principal.id()),
    };
    format!("cursor\0{}\0{view}", I::LIST.name()).into_bytes()
}

fn open(core: &Core, context: &[u8], cursor: &str) -> Option<u64> {
    let plain = core.seal.open(context, cursor)?;
    Some(u64::from_be_bytes(plain.try_into().ok()?))
}
