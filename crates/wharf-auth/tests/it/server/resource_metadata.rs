//! Protected resource metadata.

use bytes::Bytes;
use http::Request;
use serde_json::{Value, json};
use wharf_auth::server::{Dpop, Introspection, Jwt, StaticToken};
use wharf_model::{Authenticator, Principal};

use wharf_testbed::fake_issuer::{ISSUER, SERVER};

async fn page(
    authenticator: &impl Authenticator,
    method: &str,
    path: &str,
) -> http::Response<Bytes> {
    let request = Request::builder().method(method).uri(path).body(Bytes::new()).unwrap();
    authenticator.page(request).await
}

#[tokio::test]
async fn metadata_is_served_at_the_well_known_paths() {
    let authenticator = Jwt::issuer(ISSUER).audience(SERVER);
    let path = "/.well-known/oauth-protected-resource/mcp";
    assert_eq!(authenticator.paths(), [path, "/.well-known/oauth-protected-resource"]);
    let root = Jwt::issuer(ISSUER).audience("https://mcp.example");
    assert_eq!(root.paths(), ["/.well-known/oauth-protected-resource"]);
    let response = page(&authenticator, "GET", path).await;
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
    assert_eq!(page(&authenticator, "OPTIONS", path).await.status(), 204);
    let refused = page(&authenticator, "POST", path).await;
    assert_eq!(
        (refused.status().as_u16(), &refused.headers()["allow"]),
        (405, &"GET, HEAD, OPTIONS".parse().unwrap())
    );
}

#[tokio::test]
async fn metadata_contains_the_settings() {
    let authenticator = Introspection::at("https://id.example/introspect")
        .issuer(ISSUER)
        .audience(SERVER)
        .scope("mcp")
        .scopes_supported(["files:read", "mcp"])
        .name("Harbour")
        .documentation("https://mcp.example/docs")
        .certificate_bound()
        .dpop(Dpop::required());
    let response = page(&authenticator, "GET", "/").await;
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
fn without_a_resource_nothing_is_published() {
    let authenticator = StaticToken::new("s", Principal::new("alice"));
    assert!(authenticator.paths().is_empty() && authenticator.problems().is_empty());
}
