//! OAuth consent: the user who signs in must be the one who consented (CVE-2026-27124), without CSRF by other pages.

use http::{HeaderMap, header};
use serde_json::json;
use wharf::auth::{
    fetch::{Fetch, FetchResponse},
    proxy::{OAuthProxy, Provider},
};

use crate::advisories::harness::Harness;

const EVIL: &str = "https://evil.example/cb";

/// Server with an OAuth proxy whose identity provider is not reachable.
pub async fn harness() -> Harness {
    let nobody = |path: &str| format!("http://127.0.0.1:9{path}");
    let provider =
        Provider::oauth(nobody("/authorize"), nobody("/token"), nobody("/me"), "id", "s");
    Harness::tuned(|server| server.auth(OAuthProxy::new("http://127.0.0.1:8000", provider))).await
}

fn root(harness: &Harness) -> String {
    let url = harness.url();
    url.strip_suffix("/mcp").unwrap_or(&url).to_owned()
}

/// Registers a client of the attacker; returns its id.
async fn register(root: &str) -> String {
    let body = json!({"redirect_uris": [EVIL], "token_endpoint_auth_method": "none"}).to_string();
    let url = format!("{root}/register");
    let registered = Fetch::new().post(&url, HeaderMap::new(), body.into()).await.unwrap();
    let said: serde_json::Value = registered.json().unwrap();
    said["client_id"].as_str().unwrap_or_else(|| panic!("{said}")).to_owned()
}

/// Requests the consent page.
async fn ask(root: &str, client: &str) -> FetchResponse {
    let challenge = "A".repeat(43);
    let url = format!(
        "{root}/authorize?response_type=code&client_id={client}&redirect_uri={EVIL}\
         &code_challenge={challenge}&code_challenge_method=S256"
    );
    Fetch::new().get(&url, HeaderMap::new()).await.unwrap()
}

async fn agree(root: &str, page: &FetchResponse, headers: HeaderMap) -> FetchResponse {
    let text = text(page);
    let fields = [("ticket", between(&text, "name=ticket value=\"")), ("decision", "allow")];
    Fetch::new().post_form(&format!("{root}/consent"), headers, &fields).await.unwrap()
}

fn cookies(page: &FetchResponse) -> HeaderMap {
    let set = page.headers.get_all(header::SET_COOKIE).iter();
    let pairs: Vec<_> = set.map(|it| it.to_str().unwrap().split(';').next().unwrap()).collect();
    HeaderMap::from_iter([(header::COOKIE, pairs.join("; ").parse().unwrap())])
}

fn text(page: &FetchResponse) -> String {
    String::from_utf8_lossy(&page.body).into_owned()
}

fn between<'a>(text: &'a str, before: &str) -> &'a str {
    let rest = text.split_once(before).unwrap_or_else(|| panic!("{before} in {text}")).1;
    rest.split_once('"').unwrap().0
}

#[tokio::test]
async fn the_signed_in_user_must_be_the_consenting_user() {
    let harness = harness().await;
    let root = root(&harness);
    let client = register(&root).await;
    let page = ask(&root, &client).await;
    let agreed = agree(&root, &page, cookies(&page)).await;
    let onward = between(&text(&agreed), "<a href=\"").replace("&amp;", "&");
    let state = onward.split("state=").nth(1).unwrap().split('&').next().unwrap();

    // The attacker sends the authorization URL to a user of the identity provider.
    let back = format!("{root}/callback?code=the-victims&state={state}");
    let victims = cookies(&ask(&root, &client).await);
    for headers in [HeaderMap::new(), victims, cookies(&page)] {
        let answer = Fetch::new().get(&back, headers).await.unwrap();
        assert_eq!(answer.status, 400);
        assert!(!answer.headers.contains_key(header::LOCATION) && !text(&answer).contains(EVIL));
    }
    // The browser that consented passes the check, and fails only because there is no provider.
    let answer = Fetch::new().get(&back, cookies(&agreed)).await.unwrap();
    assert_eq!(answer.status, 303);
    let location = answer.headers[header::LOCATION].to_str().unwrap();
    assert!(location.starts_with("https://evil.example/cb?error=server_error"), "{location}");
}

#[tokio::test]
async fn consent_from_a_foreign_page_is_rejected() {
    let harness = harness().await;
    let root = root(&harness);
    let client = register(&root).await;
    let (attackers, victims) = (ask(&root, &client).await, ask(&root, &client).await);
    for page in [&attackers, &victims] {
        assert_eq!(page.headers[header::X_FRAME_OPTIONS], "DENY");
    }
    // The attacker's form, submitted by the victim's browser, from the attacker's page or the proxy's own.
    for origin in ["https://evil.example", "null", "http://127.0.0.1:8000"] {
        let mut headers = cookies(&victims);
        headers.insert(header::ORIGIN, origin.parse().unwrap());
        let answer = agree(&root, &attackers, headers).await;
        assert_eq!(answer.status, 403, "{origin}");
        assert!(!text(&answer).contains("127.0.0.1:9"), "{origin}");
    }
}

/// Behind a reverse proxy the host may be anything: the origin of the consent page is the server's public URL.
#[tokio::test]
async fn consent_works_behind_any_host() {
    let nobody = |path: &str| format!("http://127.0.0.1:9{path}");
    let provider =
        Provider::oauth(nobody("/authorize"), nobody("/token"), nobody("/me"), "id", "s");
    let proxy = OAuthProxy::new("https://mcp.example.com", provider);
    let http = wharf::http::Http::new().any_host();
    let harness = Harness::tuned(|server| server.auth(proxy).http(http)).await;
    let root = root(&harness);
    let client = register(&root).await;
    let page = ask(&root, &client).await;
    for (origin, status) in [
        ("https://evil.example", 403),
        ("http://mcp.example.com", 403),
        ("https://mcp.example.com", 200),
    ] {
        let mut headers = cookies(&page);
        headers.insert(header::ORIGIN, origin.parse().unwrap());
        let answer = agree(&root, &page, headers).await;
        assert_eq!(answer.status, status, "{origin}");
        assert_eq!(text(&answer).contains("127.0.0.1:9"), status == 200, "{origin}");
    }
}
