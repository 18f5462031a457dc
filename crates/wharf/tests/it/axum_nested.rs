//! Server nested below a prefix in an axum application: clients request its metadata at the root of the origin.

use axum::{
    Router,
    body::{Body, to_bytes},
    http::Request,
};
use serde_json::{Value, json};
use tower::ServiceExt;
use wharf::{
    Endpoint, Server,
    auth::{
        Authenticator,
        proxy::{OAuthProxy, Provider},
        server::Jwt,
    },
    http::Http,
};

const ORIGIN: &str = "https://mcp.example";

fn nested(authority: impl Authenticator) -> (Endpoint, Router) {
    let http = Http::new().host("mcp.example");
    let endpoint = Server::new("harbour", "1.0.0").http(http).auth(authority).build().unwrap();
    let app = Router::new().nest("/api", endpoint.axum()).merge(endpoint.axum_pages());
    (endpoint, app)
}

/// Response of the application at a URL: status, challenge and body.
async fn ask(app: &Router, verb: &str, url: &str, body: Value) -> (u16, String, Value) {
    let path = url.strip_prefix(ORIGIN).unwrap_or_else(|| panic!("{url} is elsewhere"));
    let request = Request::builder().method(verb).uri(path).header("host", "mcp.example");
    let request = request.header("content-type", "application/json");
    let response = app.clone().oneshot(request.body(Body::from(body.to_string())).unwrap()).await;
    let (head, body) = response.unwrap().into_parts();
    let challenge = head.headers.get("www-authenticate").map(|it| it.to_str().unwrap().to_owned());
    let body = to_bytes(body, 1 << 20).await.unwrap();
    let said = serde_json::from_slice(&body).unwrap_or_default();
    (head.status.as_u16(), challenge.unwrap_or_default(), said)
}

/// Discovers the metadata from the endpoint, as a client does.
async fn metadata(app: &Router) -> Value {
    let (status, challenge, _) = ask(app, "POST", "https://mcp.example/api/mcp", json!({})).await;
    assert_eq!(status, 401);
    let (_, url) = challenge.split_once("resource_metadata=\"").unwrap();
    let (status, _, said) = ask(app, "GET", url.trim_end_matches('"'), json!({})).await;
    assert_eq!(status, 200, "{url}");
    assert_eq!(said["resource"], "https://mcp.example/api/mcp");
    said
}

#[tokio::test]
async fn the_metadata_is_where_clients_look_for_it() {
    let jwt = Jwt::issuer("https://id.example").audience("https://mcp.example/api/mcp");
    let (_endpoint, app) = nested(jwt);
    assert_eq!(metadata(&app).await["authorization_servers"], json!(["https://id.example"]));
}

#[tokio::test]
async fn oauth_proxy_pages_are_at_the_metadata_urls() {
    let github = Provider::github("an id", "a secret");
    let (_endpoint, app) = nested(OAuthProxy::new("https://mcp.example/api", github));
    let issuer = metadata(&app).await["authorization_servers"][0].clone();
    assert_eq!(issuer, "https://mcp.example/api");
    let url = "https://mcp.example/.well-known/oauth-authorization-server/api";
    let (status, _, said) = ask(&app, "GET", url, json!({})).await;
    assert_eq!((status, &said["issuer"]), (200, &issuer));
    let client = json!({"redirect_uris": ["https://app.example.com/cb"]});
    let register = said["registration_endpoint"].as_str().unwrap();
    assert_eq!(ask(&app, "POST", register, client).await.0, 201);
    for page in ["authorization_endpoint", "token_endpoint", "revocation_endpoint"] {
        let (status, ..) = ask(&app, "POST", said[page].as_str().unwrap(), json!({})).await;
        assert!(matches!(status, 400 | 405), "{page}: {status}");
    }
}
