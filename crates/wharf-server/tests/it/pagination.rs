//! Pagination, cursors, and access to list items.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use crate::support::*;
use proptest::prelude::*;
use wharf_model::{
    CacheHint, CacheScope, ErrorKind, Method, Outcome, Page, Principal, Reply, Request,
    RequestBuilder, StateCipher, ToolInfo,
};
use wharf_server::{CallLimits, Item, KeyRing, Prompt, Resource, Router, RouterBuilder, Tool};

fn tools(count: usize) -> RouterBuilder {
    (0..count)
        .fold(Router::builder(), |builder, n| builder.add(Tool::new(format!("t{n}"), async || ())))
}

fn paged(count: usize, page: usize) -> Router {
    tools(count).limits(CallLimits::default().page(page)).build().unwrap()
}

fn ask(cursor: Option<&str>, limit: Option<u64>) -> Request {
    let mut request = RequestBuilder::new(Method::ListTools);
    if let Some(cursor) = cursor {
        request = request.cursor(cursor);
    }
    if let Some(limit) = limit {
        request = request.limit(limit);
    }
    request.build()
}

fn page(outcome: Outcome) -> Page<ToolInfo> {
    match outcome {
        Outcome::Complete(Reply::Tools(page)) => page,
        other => panic!("not a page of tools: {other:?}"),
    }
}

fn names(page: &Page<ToolInfo>) -> Vec<&str> {
    page.items().iter().map(|tool| tool.name.as_str()).collect()
}

/// Reads all pages.
fn walk(router: &Router, limit: Option<u64>, principal: Option<&str>) -> Vec<Vec<String>> {
    let (mut pages, mut cursor) = (Vec::new(), None);
    loop {
        let mut request = ask(cursor.as_deref(), limit);
        if let Some(name) = principal {
            request = by(request, name);
        }
        let page = page(now(router, request));
        pages.push(names(&page).into_iter().map(str::to_owned).collect());
        cursor = page.next;
        if cursor.is_none() {
            return pages;
        }
    }
}

#[test]
fn lists_come_in_the_order_of_registration_page_by_page() {
    assert_eq!(walk(&paged(5, 2), None, None), [vec!["t0", "t1"], vec!["t2", "t3"], vec!["t4"]]);
}

#[test]
fn the_page_size_is_limited() {
    assert_eq!(walk(&paged(3, 3), None, None).len(), 1);
    assert_eq!(walk(&paged(4, 3), None, None), [vec!["t0", "t1", "t2"], vec!["t3"]]);
    let router = tools(1001).build().unwrap();
    let sizes: Vec<_> = walk(&router, None, None).iter().map(Vec::len).collect();
    assert_eq!(sizes, [1000, 1], "the default");
}

#[test]
fn a_requested_limit_is_capped() {
    let router = paged(5, 3);
    let sizes = |limit| walk(&router, Some(limit), None).iter().map(Vec::len).collect::<Vec<_>>();
    assert_eq!(sizes(1), [1, 1, 1, 1, 1]);
    assert_eq!(sizes(3), [3, 2]);
    assert_eq!(sizes(4), [3, 2]);
    assert_eq!(sizes(0), [1, 1, 1, 1, 1]);
    assert_eq!(sizes(u64::MAX), [3, 2]);
}

#[test]
fn all_callers_share_one_encoded_page() {
    let router = paged(3, 2);
    let first = page(now(&router, ask(None, None)));
    assert!(Arc::ptr_eq(&first.body, &page(now(&router, ask(None, None))).body));
    assert!(Arc::ptr_eq(&first.body, &page(now(&router, ask(None, Some(2)))).body));
    assert!(!Arc::ptr_eq(&first.body, &page(now(&router, ask(None, Some(1)))).body));
    let second = ask(first.next.as_deref(), None);
    let again = ask(first.next.as_deref(), None);
    assert!(Arc::ptr_eq(&page(now(&router, second)).body, &page(now(&router, again)).body));
    router.registry().add(Tool::new("late", async || ())).unwrap();
    assert!(!Arc::ptr_eq(&first.body, &page(now(&router, ask(None, None))).body));
}

#[test]
fn pagination_continues_after_a_list_change() {
    let router = paged(6, 2);
    let first = page(now(&router, ask(None, None)));
    router.registry().remove_tool("t0");
    router.registry().remove_tool("t2");
    router.registry().add(Tool::new("t6", async || ())).unwrap();
    let second = page(now(&router, ask(first.next.as_deref(), None)));
    assert_eq!(names(&second), ["t3", "t4"]);
    let third = page(now(&router, ask(second.next.as_deref(), None)));
    assert_eq!(names(&third), ["t5", "t6"]);
}

#[test]
fn a_cursor_past_the_end_gives_an_empty_page() {
    let router = paged(3, 2);
    let first = page(now(&router, ask(None, None)));
    router.registry().remove_tool("t2");
    let rest = page(now(&router, ask(first.next.as_deref(), None)));
    assert!(rest.items().is_empty() && rest.next.is_none());
}

#[test]
fn cursors_are_valid_for_their_own_list_only() {
    let mut builder = tools(2).limits(CallLimits::default().page(1));
    for n in 0..2 {
        builder = builder
            .add(Prompt::new(format!("p{n}"), async || "x"))
            .add(Resource::new(format!("x:{n}"), async || "x"));
    }
    let router = builder.build().unwrap();
    let cursor = page(now(&router, ask(None, None))).next.unwrap();
    for method in [Method::ListPrompts, Method::ListResources, Method::ListTemplates] {
        let request = RequestBuilder::new(method).cursor(&cursor).build();
        assert_eq!(kind(now(&router, request)), ErrorKind::InvalidCursor);
    }
    assert_eq!(kind(now(&paged(2, 1), ask(Some(&cursor), None))), ErrorKind::InvalidCursor);
}

#[test]
fn a_cursor_is_a_string_or_nothing() {
    use wharf_model::{Parts, Span};
    let router = paged(2, 1);
    let with = |cursor: &str| {
        let mut parts = Parts::default();
        parts.cursor = Span::new(0, cursor.len() as u32);
        now(&router, Request::new(Method::ListTools, cursor.into(), parts))
    };
    assert_eq!(names(&page(with("null"))), ["t0"]);
    assert_eq!(kind(with("1")), ErrorKind::InvalidCursor);
    assert_eq!(kind(with("\"\"")), ErrorKind::InvalidCursor);
}

#[test]
fn servers_with_the_same_key_read_each_others_cursors() {
    let keys = Arc::new(KeyRing::random());
    let build = || {
        let limits = CallLimits::default().page(1);
        tools(2).limits(limits).state_cipher(keys.clone()).build().unwrap()
    };
    let cursor = page(now(&build(), ask(None, None))).next.unwrap();
    assert_eq!(names(&page(now(&build(), ask(Some(&cursor), None)))), ["t1"]);
}

proptest! {
    #[test]
    fn invented_and_mutated_cursors_are_rejected(text in ".*", at in 0_usize..60, to in "[A-Za-z0-9_-]") {
        let router = paged(2, 1);
        prop_assert_eq!(kind(now(&router, ask(Some(&text), None))), ErrorKind::InvalidCursor);
        let good = page(now(&router, ask(None, None))).next.unwrap();
        let at = at % good.len();
        let mut bad = good.clone();
        bad.replace_range(at..=at, &to);
        if bad != good {
            prop_assert_eq!(kind(now(&router, ask(Some(&bad), None))), ErrorKind::InvalidCursor);
        }
    }
}

#[test]
fn each_caller_sees_its_own_list() {
    let router = tools(6)
        .limits(CallLimits::default().page(2))
        .cache(CacheHint::public(60_000))
        .access(|principal: Option<&Principal>, item: Item<'_>| {
            let number: u32 = item.name()[1..].parse().unwrap();
            match principal.map(Principal::id) {
                Some("root") => true,
                Some("even") => number.is_multiple_of(2),
                _ => false,
            }
        })
        .build()
        .unwrap();
    assert_eq!(walk(&router, None, Some("root")).concat().len(), 6);
    assert_eq!(walk(&router, None, Some("even")), [vec!["t0", "t2"], vec!["t4"]]);
    assert_eq!(walk(&router, None, None), [Vec::<String>::new()]);
    let first = page(now(&router, by(ask(None, None), "root")));
    assert_eq!(first.cache, CacheHint::private(60_000));
    for other in [Some("even"), None] {
        let mut request = ask(first.next.as_deref(), None);
        if let Some(name) = other {
            request = by(request, name);
        }
        assert_eq!(
            kind(now(&router, request)),
            ErrorKind::InvalidCursor,
            "a cursor of another caller"
        );
    }
}

#[test]
fn without_an_access_hook_lists_are_public() {
    let router = paged(3, 2);
    let mine = page(now(&router, by(ask(None, None), "alice")));
    assert_eq!(mine.cache.scope, CacheScope::Public);
    let theirs = by(ask(mine.next.as_deref(), None), "bob");
    assert_eq!(names(&page(now(&router, theirs))), ["t2"]);
}

#[test]
fn hidden_items_answer_like_unknown_ones() {
    use wharf_model::Error;
    let hide = |principal: Option<&Principal>, item: Item<'_>| {
        principal.is_some() || !item.name().contains("secret")
    };
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Id {
        id: String,
    }
    type Args = wharf_server::Args<Id>;
    let router = Router::builder()
        .add(Tool::new("secret", async || ()))
        .add(Resource::new("x:secret", async || "s"))
        .add(
            Resource::new("y:{id}", async |it: Args| it.0.id)
                .name("secret")
                .complete_from("id", ["a"]),
        )
        .add(Prompt::new("secret", async |it: Args| it.0.id).complete_from("id", ["a"]))
        .access(hide)
        .build()
        .unwrap();
    let both = |request: fn() -> Request, unknown: Error| {
        assert_eq!(error(now(&router, request())), unknown);
        assert!(matches!(now(&router, by(request(), "alice")), Outcome::Complete(_)));
    };
    both(|| call("secret", "{}"), Error::tool_not_found("secret"));
    both(|| read("x:secret"), Error::resource_not_found("x:secret"));
    both(|| read("y:1"), Error::resource_not_found("y:1"));
    both(|| get("secret", r#"{"id":"1"}"#), Error::prompt_not_found("secret"));
    let reference = r#"{"type":"ref/prompt","name":"secret"}"#;
    assert_eq!(
        error(now(&router, complete(reference, "id", ""))),
        Error::prompt_not_found("secret")
    );
    for uri in ["y:{id}", "y:1"] {
        let reference = format!(r#"{{"type":"ref/resource","uri":"{uri}"}}"#);
        let unknown = error(now(&router, complete(&reference.replace("\"y:", "\"z:"), "id", "")));
        let hidden = error(now(&router, complete(&reference, "id", "")));
        assert_eq!(hidden.message.replace("`y", "`z"), unknown.message);
        assert_eq!((hidden.kind, hidden.data), (unknown.kind, unknown.data));
    }
}

/// Cipher whose key is the number of the day: it opens only what it sealed on the same day.
#[derive(Default)]
struct DailyCipher(AtomicU64);

impl StateCipher for DailyCipher {
    fn seal(&self, _context: &[u8], plain: &[u8]) -> String {
        format!("{}:{}", self.0.load(Ordering::SeqCst), plain[7])
    }

    fn open(&self, _context: &[u8], sealed: &str) -> Option<Vec<u8>> {
        let (day, order) = sealed.split_once(':')?;
        let today = day.parse() == Ok(self.0.load(Ordering::SeqCst));
        today.then(|| order.parse::<u64>().map(|it| it.to_be_bytes().to_vec()).ok()).flatten()
    }
}

#[test]
fn lists_can_be_paged_after_a_key_change() {
    let seal = Arc::new(DailyCipher::default());
    let limits = CallLimits::default().page(2);
    let router = tools(3).limits(limits).state_cipher(seal.clone()).build().unwrap();
    for _day in 0..2 {
        assert_eq!(walk(&router, None, None), [vec!["t0", "t1"], vec!["t2"]]);
        seal.0.fetch_add(1, Ordering::SeqCst);
    }
}
