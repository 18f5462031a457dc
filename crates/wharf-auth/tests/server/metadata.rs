//! Protected resource metadata.

use bytes::Bytes;
use http::Request;
use serde_json::{Value, json};
use wharf_auth::server::{Dpop, Introspection, Jwt, StaticToken};
use wharf_model::{Authenticator, Principal};

use crate::bed::{ISSUER, SERVER};

async fn page(authority: &impl Authenticator, method: &str, path: &str) -> http::Response<Bytes> {
    let request = Request::builder().method(method).uri(path).body(Bytes::new()).unwrap();
    authority.page(request).await
}

#[tokio::test]
async fn the_description_is_where_clients_look() {
    let authority = Jwt::issuer(ISSUER).audience(SERVER);
    let path = "/.well-known/oauth-protected-resource/mcp";
    assert_eq!(authority.paths(), [path, "/.well-known/oauth-protected-resource"]);
    let root = Jwt::issuer(ISSUER).audience("https://mcp.example");
    assert_eq!(root.paths(), ["/.well-known/oauth-protected-resource"]);
    let response = page(&authority, "GET", path).await;
    assert_eq!(response.headers()["content-type"], "application/json");
    assert_eq!(response.headers()["access-control-allow-origin"], "*");
    assert!(!response.headers().contains_key("access-control-allow-credentials"));
    let body: Value = serde_json::from_slice(response.body()).unwrap();
    assert_eq!(
        body,
        json!({
            "resource": SERVER,
            "authorization_servers": [ISSUER],
            "bearer_methods_supported": ["header"],
        })
    );
    assert_eq!(page(&authority, "OPTIONS", path).await.status(), 204);
    let refused = page(&authority, "POST", path).await;
    assert_eq!(
        (refused.status().as_u16(), &refused.headers()["allow"]),
        (405, &"GET, HEAD, OPTIONS".parse().unwrap())
    );
}

#[tokio::test]
async fn it_says_what_the_server_was_told() {
    let authority = Introspection::at("https://id.example/introspect")
        .issuer(ISSUER)
        .audience(SERVER)
        .scope("mcp")
        .scopes_supported(["files:read", "mcp"])
        .name("Harbour")
        .documentation("https://mcp.example/docs")
        .certificate_bound()
        .dpop(Dpop::required());
    let response = page(&authority, "GET", "/").await;
    let body: Value = serde_json::from_slice(response.body()).unwrap();
    assert_eq!(body["scopes_supported"], json!(["mcp", "files:read"]));
    assert_eq!(body["resource_name"], "Harbour");
    assert_eq!(body["resource_documentation"], "https://mcp.example/docs");
    assert_eq!(body["dpop_bound_access_tokens_required"], true);
    assert_eq!(body["tls_client_certificate_bound_access_tokens"], true);
    assert_eq!(
        body["dpop_signing_alg_values_supported"],
        json!(["ES256", "ES384", "EdDSA", "PS256", "RS256"])
    );
}

#[test]
fn who_has_no_url_publishes_nothing() {
    let authority = StaticToken::new("s", Principal::new("alice"));
    assert!(authority.paths().is_empty() && authority.problems().is_empty());
}
