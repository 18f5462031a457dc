//! `wharf inspect --card`: discovery, rules, and the comparison with the server.

use std::net::SocketAddr;

use serde_json::json;
use wharf::{
    Endpoint, Server,
    http::{Http, PublicDocument},
    server_card::ServerCard,
};

use crate::cli::sandbox::Sandbox;

/// Server in this process, until the runtime is dropped.
struct CardServer {
    origin: String,
    _runtime: tokio::runtime::Runtime,
}

impl CardServer {
    /// Serves what `server` makes of its URL.
    fn start(server: impl FnOnce(&str) -> Server) -> CardServer {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let listener = runtime.block_on(Endpoint::listen_http("127.0.0.1:0")).unwrap();
        let address: SocketAddr = listener.local_addr().unwrap();
        let origin = format!("http://{address}");
        let endpoint = server(&format!("{origin}/mcp")).build().unwrap();
        runtime.spawn(async move { endpoint.serve_http_on(listener).await });
        CardServer { origin, _runtime: runtime }
    }
}

fn weather(url: &str) -> Server {
    let server = Server::new("weather", "1.0.2").description("Forecasts for every harbour.");
    server.card(ServerCard::new("com.example/weather").remote(url))
}

#[test]
fn a_card_is_found_by_origin_endpoint_and_url() {
    let sandbox = Sandbox::new("card");
    let server = CardServer::start(weather);
    let CardServer { origin, .. } = &server;
    let host = origin.trim_start_matches("http://");
    for word in [host, origin, &format!("{origin}/mcp"), &format!("{origin}/mcp/server-card")] {
        let report = sandbox.run(&["inspect", "--card", word]).json();
        let card = &report["cards"][0];
        assert_eq!(card["card"]["name"], "com.example/weather", "{word}");
        assert_eq!(card["url"], format!("{origin}/mcp/server-card"));
        assert_eq!(card["compared"], format!("{origin}/mcp"));
        assert_eq!((&card["problems"], &card["differences"]), (&json!([]), &json!([])));
    }
    let report = sandbox.run(&["inspect", "--card", origin]).json();
    assert_eq!(report["catalog"], format!("{origin}/.well-known/ai-catalog.json"));
}

#[test]
fn a_card_that_differs_from_its_server_fails() {
    let sandbox = Sandbox::new("card-differs");
    let server = CardServer::start(|url| {
        let card = ServerCard::new("com.example/forecast").version("1.0.1").remote(url);
        let described = Server::new("weather", "1.0.2").description("Forecasts.");
        described.card(card.title("Other"))
    });
    let output = sandbox.run(&["inspect", "--card", &server.origin]);
    let error = output.printed_error(5);
    assert_eq!(error["kind"], "server_card");
    let report: serde_json::Value = serde_json::from_str(&output.out).unwrap();
    let differences = &report["cards"][0]["differences"];
    let expected = json!([{"field": "name", "card": "forecast", "server": "weather"},
        {"field": "version", "card": "1.0.1", "server": "1.0.2"}]);
    assert_eq!(*differences, expected);
}

#[test]
fn a_card_is_compared_with_the_named_server() {
    let sandbox = Sandbox::new("card-target");
    let one = CardServer::start(weather);
    let other = CardServer::start(|url| {
        let other = Server::new("weather", "2.0.0").description("Forecasts for every harbour.");
        other.card(ServerCard::new("com.example/weather").remote(url))
    });
    let target = format!("{}/mcp", other.origin);
    let output = sandbox.run(&["inspect", &target, "--card", &one.origin]);
    output.printed_error(5);
    let report: serde_json::Value = serde_json::from_str(&output.out).unwrap();
    let card = &report["cards"][0];
    assert_eq!(
        (&card["compared"], &card["differences"][0]["server"]),
        (&json!(target), &json!("2.0.0"))
    );
}

#[test]
fn an_endpoint_at_another_origin_is_not_called() {
    let sandbox = Sandbox::new("card-elsewhere");
    let server = CardServer::start(|_| weather("https://unreachable.invalid/mcp"));
    let word = format!("{}/mcp/server-card", server.origin);
    let report = sandbox.run(&["inspect", "--card", &word]).json();
    let card = &report["cards"][0];
    assert_eq!(card.get("compared"), None);
    assert!(card["note"].as_str().unwrap().contains("another origin"), "{card}");
}

#[test]
fn headers_go_only_to_an_origin_that_the_user_named() {
    let sandbox = Sandbox::new("card-headers");
    let server = CardServer::start(weather);
    let entry = json!({"identifier": "urn:air:example.com:mcp:weather",
        "type": "application/mcp-server-card+json",
        "url": format!("{}/mcp/server-card", server.origin)});
    let catalog = json!({"specVersion": "1.0", "entries": [entry]}).to_string();
    let path = "/.well-known/ai-catalog.json";
    let document = PublicDocument::new(path, "application/ai-catalog+json", catalog).unwrap();
    let http = Http::new().document(document);
    let domain = CardServer::start(|_| Server::new("a", "1").http(http));
    let report = sandbox.run(&["inspect", "--card", &domain.origin]).json();
    assert_eq!(report["cards"][0]["compared"], format!("{}/mcp", server.origin));
    let words = ["inspect", "--card", &domain.origin, "--header", "Authorization: Bearer secret"];
    let report = sandbox.run(&words).json();
    assert_eq!(report["cards"][0].get("compared"), None, "{report}");
}

#[test]
fn hostile_documents_are_refused() {
    let sandbox = Sandbox::new("card-hostile");
    let large = format!("{{\"name\": \"{}\"}}", "x".repeat(300 << 10));
    for (body, problem) in [
        ("{\"entries\": [], \"specVersion\": \"1.0\"}", "has no entry of a server card"),
        ("not JSON", "is not JSON"),
        ("{\"tools\": []}", "has neither `name` nor `entries`"),
        (&large, "exceeds 262144 bytes"),
    ] {
        let document = PublicDocument::new("/card.json", "application/json", body.to_owned());
        let http = Http::new().document(document.unwrap());
        let server = CardServer::start(|_| Server::new("a", "1").http(http));
        let output = sandbox.run(&["inspect", "--card", &format!("{}/card.json", server.origin)]);
        assert_ne!(output.code, 0, "{output:?}");
        let said = format!("{}{}", output.out, output.err);
        assert!(said.contains(problem), "{problem}: {said}");
    }
    let names = "{\"name\": \"weather\", \"tools\": [], \"version\": \"1.*\"}";
    let document = PublicDocument::new("/card.json", "application/json", names).unwrap();
    let server = CardServer::start(|_| Server::new("a", "1").http(Http::new().document(document)));
    let output = sandbox.run(&["inspect", "--card", &format!("{}/card.json", server.origin)]);
    output.printed_error(5);
    for problem in [
        "$schema",
        "name \\\"weather\\\"",
        "is a range",
        "description is missing",
        "tools does not belong",
    ] {
        assert!(output.out.contains(problem), "{problem}: {}", output.out);
    }
}

#[test]
fn a_domain_without_a_card_and_an_unreachable_one_fail() {
    let sandbox = Sandbox::new("card-none");
    let server = CardServer::start(|_| Server::new("a", "1"));
    let error = sandbox.run(&["inspect", "--card", &server.origin]).error(5);
    assert!(error["message"].as_str().unwrap().contains("answers 404"), "{error}");
    drop(server);
    assert_eq!(sandbox.run(&["inspect", "--card", "127.0.0.1:1"]).code, 4);
    assert_eq!(sandbox.run(&["inspect", "--card", "ftp://a.example"]).code, 1);
    let private = sandbox.run(&["inspect", "--card", "https://10.0.0.1/mcp"]);
    assert_eq!(private.code, 4, "{private:?}");
    assert!(private.err.contains("private network"), "{private:?}");
}
