//! Handling of the OAuth proxy's pages as in a browser. The conformance suite's user agent includes this file too.

use http::{HeaderMap, header};
use wharf::auth::fetch::{Fetch, FetchResponse};

/// Result of a submitted consent page.
pub(crate) struct Decided {
    /// Text of the page.
    pub(crate) page: String,
    /// URL to which the browser is redirected, and the cookies to send.
    pub(crate) onward: String,
    pub(crate) cookies: HeaderMap,
}

/// Loads the consent page at `url` and submits `decision`.
pub(crate) async fn decide(url: &str, decision: &str) -> Decided {
    let fetch = Fetch::new();
    let asked = fetch.get(url, HeaderMap::new()).await.unwrap();
    let page = text(&asked);
    let host = url.find("://").unwrap() + 3;
    let (origin, _) = url.split_at(host + url[host..].find('/').unwrap());
    let action = format!("{origin}{}", between(&page, "action=\""));
    let mut headers = cookies(&asked);
    headers.insert(header::ORIGIN, origin.parse().unwrap());
    let fields = [("ticket", between(&page, "name=ticket value=\"")), ("decision", decision)];
    let decided = fetch.post_form(&action, headers, &fields).await.unwrap();
    let onward = between(&text(&decided), "<a href=\"").replace("&amp;", "&");
    Decided { onward, cookies: cookies(&decided), page }
}

/// Loads the callback URL `location`; returns the proxy's redirect.
pub(crate) async fn come_back(location: &str, cookies: HeaderMap) -> String {
    let page = Fetch::new().get(location, cookies).await.unwrap();
    assert_eq!(page.status, 303, "{}", text(&page));
    page.location().unwrap().to_owned()
}

/// Cookies that a page set, as a browser sends them back.
fn cookies(page: &FetchResponse) -> HeaderMap {
    let set = page.headers.get_all(header::SET_COOKIE).iter();
    let pairs: Vec<_> = set.map(|it| it.to_str().unwrap().split(';').next().unwrap()).collect();
    HeaderMap::from_iter([(header::COOKIE, pairs.join("; ").parse().unwrap())])
}

fn text(page: &FetchResponse) -> String {
    String::from_utf8(page.body.to_vec()).unwrap()
}

/// Text between `before` and the next quote.
fn between<'a>(text: &'a str, before: &str) -> &'a str {
    let rest = text.split_once(before).unwrap_or_else(|| panic!("{before} in {text}")).1;
    rest.split_once('"').unwrap().0
}
