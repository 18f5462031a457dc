//! Server card and catalog of a server, over real HTTP and in an axum application.

use std::collections::HashMap;

use axum::{Router, body::Body, http::Request};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tower::ServiceExt;
use wharf::{
    Endpoint, Era, Server,
    auth::{AuthDecision, AuthRejection, AuthRequest, Authenticator, server::Jwt},
    http::{Http, PublicDocument},
    model::Icon,
    server_card::{CardInput, CardRemote, ServerCard},
};

const CARD: &str = "/mcp/server-card";
const CATALOG: &str = "/.well-known/ai-catalog.json";
const ALIAS: &str = "/.well-known/mcp/server-card.json";

fn weather() -> Server {
    let server = Server::new("weather", "1.0.2").title("Weather").website("https://example.com");
    server
        .description("Forecasts for every harbour.")
        .icon(Icon::new("https://example.com/icon.png"))
        .http(Http::new().host("mcp.example.com"))
}

fn card() -> ServerCard {
    ServerCard::new("com.example/weather").remote("https://mcp.example.com/mcp")
}

/// Response over a socket: status, headers in lower case, body.
struct Reply {
    status: u16,
    headers: HashMap<String, String>,
    body: String,
}

impl Reply {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

/// Server that listens on a free port.
struct Listening {
    endpoint: Endpoint,
    address: std::net::SocketAddr,
}

impl Listening {
    async fn start(server: Server) -> Listening {
        let endpoint = server.build().unwrap();
        let listener = Endpoint::listen_http("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let served = endpoint.clone();
        tokio::spawn(async move { served.serve_http_on(listener).await });
        Listening { endpoint, address }
    }

    /// Sends a request without `Accept`, unless it is among `headers`.
    async fn send(&self, method: &str, path: &str, headers: &str) -> Reply {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let host = if headers.contains("Host:") { "" } else { "Host: mcp.example.com\r\n" };
        let head = format!("{method} {path} HTTP/1.1\r\n{host}{headers}Connection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let mut lines = head.lines();
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let headers = lines.filter_map(|line| line.split_once(": "));
        let headers = headers.map(|(name, value)| (name.to_lowercase(), value.to_owned()));
        Reply { status, headers: headers.collect(), body: body.to_owned() }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.endpoint.shutdown();
    }
}

/// Rejects every request.
struct Closed;

impl Authenticator for Closed {
    fn admit(&self, _: &AuthRequest<'_>) -> AuthDecision {
        AuthDecision::Now(Err(AuthRejection::new(401, "Log in")))
    }
}

/// Problems of a server that cannot be built.
fn problems(server: Server) -> Vec<String> {
    let error = server.build().expect_err("it has problems");
    error.problems().iter().map(|it| format!("{}: {}", it.item, it.text)).collect()
}

#[tokio::test]
async fn the_card_has_the_identity_of_the_server_and_no_lists() {
    let server =
        Listening::start(weather().card(card().repository("https://github.com/a/b"))).await;
    let reply = server.send("GET", CARD, "").await;
    assert_eq!(
        (reply.status, reply.header("content-type")),
        (200, "application/mcp-server-card+json")
    );
    let versions = ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
    let expected = json!({
        "$schema": "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json",
        "name": "com.example/weather", "version": "1.0.2", "title": "Weather",
        "description": "Forecasts for every harbour.", "websiteUrl": "https://example.com",
        "icons": [{"src": "https://example.com/icon.png"}],
        "repository": {"url": "https://github.com/a/b", "source": "github"},
        "remotes": [{"type": "streamable-http", "url": "https://mcp.example.com/mcp",
            "supportedProtocolVersions": versions}],
    });
    assert_eq!(reply.json(), expected);

    let catalog = server.send("GET", CATALOG, "").await;
    assert_eq!(catalog.header("content-type"), "application/ai-catalog+json");
    let entry = json!({"identifier": "urn:air:example.com:mcp:weather", "displayName": "Weather",
        "type": "application/mcp-server-card+json",
        "url": "https://mcp.example.com/mcp/server-card"});
    assert_eq!(catalog.json(), json!({"specVersion": "1.0", "entries": [entry]}));
    assert_eq!(server.send("GET", ALIAS, "").await.status, 404, "only on demand");
}

#[tokio::test]
async fn documents_have_the_headers_of_the_specification() {
    let server = Listening::start(weather().card(card().scanner_alias())).await;
    for path in [CARD, CATALOG, ALIAS] {
        // A page of any origin may read it.
        let reply = server.send("GET", path, "Origin: https://evil.example\r\n").await;
        assert_eq!(reply.status, 200, "{path}");
        for (name, value) in [
            ("access-control-allow-origin", "*"),
            ("access-control-allow-methods", "GET"),
            ("access-control-allow-headers", "Content-Type, If-None-Match"),
            ("access-control-expose-headers", "ETag"),
            ("cache-control", "public, max-age=3600"),
        ] {
            assert_eq!(reply.header(name), value, "{path} {name}");
        }
        let etag = reply.header("etag").to_owned();
        assert!(etag.starts_with('"') && etag.ends_with('"') && etag.len() > 10, "{etag}");
        for sent in [&*etag, "*", &format!("\"other\", W/{etag}")] {
            let again = server.send("GET", path, &format!("If-None-Match: {sent}\r\n")).await;
            assert_eq!((again.status, &*again.body), (304, ""), "{path} {sent}");
            assert_eq!(again.header("etag"), etag);
        }
        let other = server.send("GET", path, "If-None-Match: \"other\"\r\n").await;
        assert_eq!(other.status, 200);

        let head = server.send("HEAD", path, "").await;
        let length = reply.body.len().to_string();
        assert_eq!((head.status, &*head.body), (200, ""), "{path}");
        assert_eq!((head.header("content-length"), head.header("etag")), (&*length, &*etag));
        let preflight = "Origin: https://a.example\r\nAccess-Control-Request-Method: GET\r\n";
        let options = server.send("OPTIONS", path, preflight).await;
        assert_eq!((options.status, options.header("access-control-allow-origin")), (204, "*"));
        for method in ["POST", "DELETE", "PUT"] {
            let refused = server.send(method, path, "Content-Length: 0\r\n").await;
            assert_eq!((refused.status, refused.header("allow")), (405, "GET, HEAD, OPTIONS"));
        }
        let foreign = server.send("GET", path, "Host: evil.example\r\n").await;
        assert_eq!(foreign.status, 403, "the Host check applies");
    }
}

#[tokio::test]
async fn the_card_is_public_unless_it_needs_authentication() {
    let server = Listening::start(weather().auth(Closed).card(card())).await;
    assert_eq!(server.send("GET", CARD, "").await.status, 200);
    assert_eq!(server.send("GET", CATALOG, "").await.status, 200);
    assert_eq!(server.send("GET", "/mcp", "Accept: text/event-stream\r\n").await.status, 401);
    let server = Listening::start(weather().auth(Closed).card(card().authenticated())).await;
    assert_eq!(server.send("GET", CARD, "").await.status, 401);
    assert_eq!(server.send("GET", CATALOG, "").await.status, 401);
}

#[tokio::test]
async fn a_document_that_needs_authentication_is_not_served_without_an_authenticator() {
    let all = problems(weather().card(card().authenticated()));
    assert!(all.len() == 1 && all[0].contains("has no authenticator"), "{all:?}");

    let document = PublicDocument::new("/.well-known/secret", "text/plain", "secret").unwrap();
    let http = Http::new().host("mcp.example.com").document(document.authenticated(true));
    let server = Listening::start(weather().http(http)).await;
    for method in ["GET", "HEAD", "OPTIONS", "POST"] {
        let reply = server.send(method, "/.well-known/secret", "Content-Length: 0\r\n").await;
        assert_eq!((reply.status, &*reply.body), (404, ""), "{method}");
    }
}

#[tokio::test]
async fn the_url_may_come_from_the_authenticator() {
    let jwt = Jwt::issuer("https://id.example").audience("https://mcp.example.com/mcp");
    let server = Listening::start(weather().auth(jwt).card("com.example/weather")).await;
    let card = server.send("GET", CARD, "").await.json();
    assert_eq!(card["remotes"][0]["url"], "https://mcp.example.com/mcp");
}

#[tokio::test]
async fn the_card_has_the_versions_of_the_era() {
    for (era, newest, count) in [(Era::Modern, "2026-07-28", 1), (Era::Legacy, "2025-11-25", 4)] {
        let server = Listening::start(weather().only(era).card(card())).await;
        let card = server.send("GET", CARD, "").await.json();
        let versions = card["remotes"][0]["supportedProtocolVersions"].as_array().unwrap();
        assert_eq!((versions[0].as_str(), versions.len()), (Some(newest), count));
    }
}

#[tokio::test]
async fn a_server_without_a_card_has_no_documents() {
    let server = Listening::start(weather()).await;
    for path in [CARD, CATALOG, ALIAS] {
        assert_eq!(server.send("GET", path, "").await.status, 404, "{path}");
    }
}

#[tokio::test]
async fn an_endpoint_with_variables_is_described_in_the_catalog() {
    let remote = CardRemote::new("https://{tenant}.example.com/mcp")
        .variable("tenant", CardInput::new("Your organization").required());
    let card = ServerCard::new("com.example/weather").remote(remote);
    let server = Listening::start(weather().card(card)).await;
    let catalog = server.send("GET", CATALOG, "").await.json();
    assert_eq!(catalog["entries"][0]["data"]["name"], "com.example/weather");
    assert_eq!(catalog["entries"][0].get("url"), None);
}

#[tokio::test]
async fn an_axum_application_serves_the_card_beside_a_nested_endpoint() {
    let endpoint = weather().card(card()).build().unwrap();
    let nested = Router::new().nest("/api", endpoint.axum()).merge(endpoint.axum_pages());
    let whole = weather().card(card()).into_axum().unwrap();
    for (app, path, status) in [
        (&nested, "/api/mcp/server-card", 200),
        (&nested, CATALOG, 200),
        (&nested, CARD, 404),
        (&whole, CARD, 200),
        (&whole, CATALOG, 200),
    ] {
        let request = Request::get(path).header("host", "mcp.example.com");
        let reply = app.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(reply.status().as_u16(), status, "{path}");
        if status == 200 {
            let body = axum::body::to_bytes(reply.into_body(), 1 << 16).await.unwrap();
            assert!(body.starts_with(b"{"), "{path}");
        }
    }
}

#[test]
fn a_card_that_violates_the_rules_is_a_build_error() {
    let long = "x".repeat(101);
    for (server, expected) in [
        (weather().card("weather"), "name \"weather\": write a domain in reverse"),
        (
            weather().card(ServerCard::new("a/b c").remote("https://a.example/mcp")),
            "name \"a/b c\"",
        ),
        (weather().card("com.example/weather"), "needs the URL of the endpoint"),
        (weather().card(card().version("^1.2")), "version \"^1.2\" is a range"),
        (weather().card(card().version("1.x")), "version \"1.x\" is a range"),
        (weather().card(card().description(&long)), "has 101 characters; at most 100"),
        (weather().card(card().title(&long)), "title \"xxx"),
        (Server::new("a", "1").card(card()), "description is missing"),
        (weather().card(card().website("example.com")), "websiteUrl \"example.com\" is not"),
        (
            weather().card(card().remote("ftp://a.example")),
            "remote \"ftp://a.example\": write an http",
        ),
        (
            weather().card(card().remote("https://u:p@a.example/mcp")),
            "***@a.example/mcp: the URL has a user",
        ),
        (weather().card(card().remote("https://{x}.example/mcp")), "the variable {x} is unknown"),
    ] {
        let problems = problems(server);
        assert!(problems.iter().any(|it| it.contains(expected)), "{expected}: {problems:?}");
        assert!(problems[0].starts_with("server card \""), "{problems:?}");
    }
    let all = problems(Server::new("a", "").card("bad"));
    assert!(all.len() >= 4, "all at once: {all:?}");
}
