//! Protected Wharf server.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, header};
use serde_json::json;
use tokio::net::TcpListener;
use wharf::Endpoint;
use wharf::auth::Authenticator;
use wharf::prelude::*;
use wharf_auth::fetch::{Fetch, FetchResponse};

/// Returns the caller and its scopes.
#[tool]
async fn whoami(caller: Principal) -> String {
    format!("{}: {}", name(&caller), caller.scopes().collect::<Vec<_>>().join(" "))
}

/// Reads a file.
#[tool(scope = "files:read")]
async fn read_file(name: String, caller: Principal) -> String {
    format!("{name}, as {} read it", self::name(&caller))
}

/// Writes a file.
#[tool(scope = "files:write")]
async fn write_file(name: String, caller: Principal) -> String {
    format!("{name}, as {} wrote it", self::name(&caller))
}

/// Subject of the caller at the authorization server.
fn name(caller: &Principal) -> &str {
    caller.id().rsplit([' ', '\t']).next().unwrap_or_default()
}

/// Protected server that runs until the test ends.
pub(crate) struct Protected {
    /// Resource identifier, which is its URL.
    pub(crate) resource: String,
}

/// Bound address for a server. The audience of tokens is its URL, so the address must be known first.
pub(crate) struct BoundAddress {
    listener: TcpListener,
    pub(crate) resource: String,
}

impl BoundAddress {
    pub(crate) async fn take() -> Self {
        let listener = Endpoint::listen_http("127.0.0.1:0").await.unwrap();
        let resource = format!("http://{}/mcp", listener.local_addr().unwrap());
        Self { listener, resource }
    }

    /// Serves with this authenticator.
    pub(crate) fn serve(self, authority: impl Authenticator) -> Protected {
        self.serve_with(authority, |server| server)
    }

    /// Serves with this authenticator and more features.
    pub(crate) fn serve_with(
        self,
        authority: impl Authenticator,
        more: impl FnOnce(Server) -> Server,
    ) -> Protected {
        let server = Server::new("harbour", "1.0.0")
            .tool::<whoami>()
            .tool::<read_file>()
            .tool::<write_file>()
            .auth(authority);
        let endpoint = more(server).build().unwrap();
        let Self { listener, resource } = self;
        tokio::spawn(async move { endpoint.serve_http_on(listener).await });
        Protected { resource }
    }
}

impl Protected {
    /// Calls a tool like a modern client, with a plain HTTP request.
    pub(crate) async fn call(&self, tool: &str, headers: &[(&str, &str)]) -> FetchResponse {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let arguments = if tool.ends_with("_file") { json!({"name": "log"}) } else { json!({}) };
        let params = json!({"name": tool, "arguments": arguments, "_meta": meta});
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let mut map = HeaderMap::new();
        let always = [
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", "tools/call"),
            ("mcp-name", tool),
        ];
        for (name, value) in always.iter().chain(headers) {
            let name = header::HeaderName::from_bytes(name.as_bytes()).unwrap();
            map.insert(name, HeaderValue::from_str(value).unwrap());
        }
        Fetch::new().post(&self.resource, map, Bytes::from(body.to_string())).await.unwrap()
    }

    /// Calls a tool with this bearer token.
    pub(crate) async fn call_with(&self, tool: &str, token: &str) -> FetchResponse {
        self.call(tool, &[("authorization", &format!("Bearer {token}"))]).await
    }

    /// URL of its metadata.
    pub(crate) fn metadata(&self) -> String {
        self.resource.replace("/mcp", "/.well-known/oauth-protected-resource/mcp")
    }
}

/// Challenge of a response.
pub(crate) fn challenge(answer: &FetchResponse) -> &str {
    answer.headers.get(header::WWW_AUTHENTICATE).map_or("", |it| it.to_str().unwrap())
}

/// Text of the tool result in a response.
pub(crate) fn tool_text(answer: &FetchResponse) -> String {
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    assert_eq!(answer.status, 200, "{text}");
    let body: serde_json::Value = serde_json::from_str(&text).unwrap();
    body["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{body}")).to_owned()
}
