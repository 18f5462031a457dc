//! Authorization server: npm `oidc-provider`, run by `tests/foreign/servers/authorization.mjs`.

use bytes::Bytes;
use http::HeaderMap;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use wharf_auth::fetch::Fetch;

use super::program::Program;

pub(crate) struct AuthorizationServer {
    _program: Program,
    pub(crate) issuer: String,
    /// URL of its control endpoint.
    pub(crate) control: String,
}

/// Request that it received, and its response.
#[derive(Debug, Deserialize)]
pub(crate) struct SeenRequest {
    pub(crate) path: String,
    pub(crate) status: u16,
    pub(crate) params: Value,
    /// True if the request had a DPoP proof.
    pub(crate) dpop: bool,
    /// Scheme of the `Authorization` header.
    pub(crate) authorization: Option<String>,
    pub(crate) error: Option<String>,
}

impl AuthorizationServer {
    pub(crate) async fn start() -> Self {
        let mut program = Program::start("servers/authorization.mjs", &[]);
        let issuer = program.line_after("issuer ").await;
        let control = program.line_after("control ").await;
        program.release_connection();
        Self { _program: program, issuer, control }
    }

    /// Changes settings such as the lifetime and format of access tokens; see the script.
    pub(crate) async fn set(&self, settings: Value) {
        self.control::<Value>("/settings", settings).await;
    }

    /// Rotates the signing key.
    pub(crate) async fn rotate_keys(&self, keep: bool) {
        self.control::<Value>("/keys", json!({"keep": keep})).await;
    }

    /// Registers a client statically.
    pub(crate) async fn register_client(&self, client: Value) {
        self.control::<Value>("/clients", client).await;
    }

    /// Takes the requests since the last call.
    pub(crate) async fn seen(&self) -> Vec<SeenRequest> {
        self.control("/seen", json!({})).await
    }

    /// Takes the requests at the token endpoint since the last call.
    pub(crate) async fn seen_at_token(&self) -> Vec<SeenRequest> {
        let mut seen = self.seen().await;
        seen.retain(|it| it.path == "/token");
        seen
    }

    /// Gets a token with the client credentials grant, for any resource.
    pub(crate) async fn token(&self, resource: &str, scope: &str) -> String {
        self.register_client(json!({
            "client_id": "machine",
            "client_secret": "secret of a machine",
            "token_endpoint_auth_method": "client_secret_post",
            "grant_types": ["client_credentials"],
            "redirect_uris": [],
            "response_types": [],
        }))
        .await;
        let fields = [
            ("grant_type", "client_credentials"),
            ("client_id", "machine"),
            ("client_secret", "secret of a machine"),
            ("resource", resource),
            ("scope", scope),
        ];
        let url = format!("{}/token", self.issuer);
        let answer = Fetch::new().post_form(&url, HeaderMap::new(), &fields).await.unwrap();
        let TokenResponse { access_token } = answer.json().unwrap();
        access_token
    }

    pub(crate) async fn control<T: DeserializeOwned>(&self, path: &str, what: Value) -> T {
        control(&self.control, path, what).await
    }
}

/// Sends a request to the control endpoint of an authorization server.
pub(crate) async fn control<T: DeserializeOwned>(control: &str, path: &str, what: Value) -> T {
    let url = format!("{control}{path}");
    let body = Bytes::from(what.to_string());
    let answer = Fetch::new().post(&url, HeaderMap::new(), body).await.unwrap();
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    assert_eq!(answer.status, 200, "{path}: {text}");
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{path}: {e}: {text}"))
}

#[derive(Deserialize)]
struct TokenResponse {
    access_token: String,
}
