//! Authorization of Wharf's client at Wharf's server through the OAuth proxy, with an identity provider that has no
//! dynamic client registration: over real HTTP, with a user agent that reads the pages.

mod pages;
mod user_agent;

use std::sync::{Arc, atomic::Ordering};

use http::{HeaderMap, HeaderName, HeaderValue, header};
use serde_json::json;
use wharf::{
    Client, Endpoint, Server, ToolError,
    auth::{
        client::Auth,
        fetch::Fetch,
        proxy::{OAuthProxy, Provider, Upstream},
    },
    http::Http,
    prelude::*,
};

use wharf_testbed::fake_idp::{ID, Idp, SECRET};

use self::user_agent::TestUserAgent;

/// Returns the caller's id, here and at the identity provider.
#[tool(scope = "files:read")]
async fn whoami(
    principal: Principal,
    Extension(user): Extension<Upstream>,
) -> Result<String, ToolError> {
    let token = user.token().await?;
    assert!(token.secret().starts_with("upstream-"));
    let email = user.identity().email().unwrap_or_default();
    Ok(format!("{} {email}", principal.id()))
}

/// Requires a scope that a client does not get at its first login.
#[tool(scope = "files:write")]
async fn write() -> &'static str {
    "written"
}

/// Starts a server on its own port; returns its URL.
async fn serve(idp: &Idp) -> String {
    serve_with(idp, |server| server).await
}

/// Starts the same server with changes.
async fn serve_with(idp: &Idp, more: impl FnOnce(Server) -> Server) -> String {
    let listener = Endpoint::listen_http("127.0.0.1:0").await.unwrap();
    let public = format!("http://{}", listener.local_addr().unwrap());
    let proxy = OAuthProxy::new(&public, Provider::oidc(&idp.url, ID, SECRET))
        .scopes(["files:read", "files:write"])
        .first_scopes(["files:read"]);
    let keys: wharf::server::KeyRing = "00".repeat(32).parse().unwrap();
    let server = Server::new("harbour", "1.0.0").auth(proxy).state_cipher(keys);
    let endpoint = more(server).tool::<whoami>().tool::<write>().build().unwrap();
    tokio::spawn(async move { endpoint.serve_http_on(listener).await });
    public
}

#[tokio::test]
async fn a_client_logs_in_and_requests_missing_scopes() {
    for pin in ["2025-06-18", "2026-07-28"] {
        let idp = Idp::start().await;
        let public = serve(&idp).await;
        let person = Arc::new(TestUserAgent::new(&idp, "alice"));
        let auth = Auth::code(person.clone()).name("Tug");
        let client = Client::builder().protocol_version(pin.parse().unwrap()).auth(auth);
        let client = client.connect(format!("{public}/mcp")).await.unwrap();
        let who = client.call("whoami", ()).await.unwrap();
        let who = serde_json::to_value(&who).unwrap()["content"][0]["text"].clone();
        assert_eq!(who, json!(format!("{} alice alice@example.com", idp.url)));
        assert_eq!(person.visits.load(Ordering::SeqCst), 1);
        assert!(person.last_page().contains("<b>Tug</b>"), "{}", person.last_page());
        assert!(!person.last_page().contains("files:write"));

        client.call("write", ()).await.unwrap();
        assert_eq!(person.visits.load(Ordering::SeqCst), 2, "asked once more, for more");
        assert!(person.last_page().contains("<li>files:write</li>"));
        client.call("whoami", ()).await.unwrap();
        assert_eq!(person.visits.load(Ordering::SeqCst), 2);
    }
}

#[tokio::test]
async fn a_login_without_consent_is_rejected() {
    let idp = Idp::start().await;
    let public = serve(&idp).await;
    let client = Client::builder().connect(format!("{public}/mcp")).await;
    assert!(client.is_err());
    let person = Arc::new(TestUserAgent::new(&idp, "alice").denying_consent());
    let client = Client::builder().auth(Auth::code(person.clone()));
    let error = client.connect(format!("{public}/mcp")).await.unwrap_err();
    assert_eq!(person.visits.load(Ordering::SeqCst), 1);
    assert!(error.to_string().contains("access_denied"), "{error}");
    assert!(idp.asked().is_empty());
}

/// Behind a reverse proxy on loopback every connection comes from loopback. With `Http::trusted_proxies` the rate limit
/// of registrations uses the client's own address.
#[tokio::test]
async fn registrations_are_counted_by_the_address_that_a_trusted_proxy_names() {
    let idp = Idp::start().await;
    let http = Http::new().trusted_proxies(["127.0.0.1"]).unwrap();
    let public = serve_with(&idp, |server| server.http(http)).await;
    let url = format!("{public}/register");
    let register = async |client: &str| {
        let body = json!({"redirect_uris": ["http://127.0.0.1:33418/callback"]}).to_string();
        let headers = HeaderMap::from_iter([
            (header::CONTENT_TYPE, HeaderValue::from_static("application/json")),
            (HeaderName::from_static("x-forwarded-for"), client.parse().unwrap()),
        ]);
        u16::from(Fetch::new().post(&url, headers, body.into()).await.unwrap().status)
    };
    let mut statuses = Vec::new();
    while statuses.last() != Some(&429) {
        // Addresses that the client claims are ignored: the last one is the trusted proxy's.
        let forged = format!("198.51.100.{}, 203.0.113.7", statuses.len() % 250);
        statuses.push(register(&forged).await);
        assert!(statuses.len() <= 1000, "a flood is stemmed some time");
    }
    assert!(statuses.len() > 60 && statuses[..60].iter().all(|it| *it == 201), "{statuses:?}");
    assert_eq!(register("203.0.113.8").await, 201);
}
