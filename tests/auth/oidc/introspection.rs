//! Token introspection: opaque tokens, which the issuer can revoke.

use std::time::Duration;

use http::HeaderMap;
use serde_json::json;
use wharf::{Client, args};
use wharf_auth::client::Auth;
use wharf_auth::fetch::Fetch;
use wharf_auth::server::Introspection;

use crate::support::authorization::AuthorizationServer;
use crate::support::protected::{BoundAddress, Protected, challenge, tool_text};
use crate::support::user::TestUser;

mod tests {
    crate::oidc::tests! { a_revoked_token_is_rejected a_user_with_an_opaque_token }
}

/// Authorization server with opaque tokens, and a server that introspects them.
async fn start() -> (AuthorizationServer, Protected) {
    let issuer = AuthorizationServer::start().await;
    issuer.set(json!({"format": "opaque"})).await;
    issuer
        .register_client(json!({
            "client_id": "harbour",
            "client_secret": "secret of the harbour",
            "grant_types": ["client_credentials"],
            "redirect_uris": [],
            "response_types": [],
        }))
        .await;
    let address = BoundAddress::take().await;
    let authority = Introspection::at(format!("{}/token/introspection", issuer.issuer))
        .client("harbour", "secret of the harbour")
        .issuer(&issuer.issuer)
        .audience(&address.resource)
        // Without a cache each request is introspected: a token is rejected right after its revocation.
        .cache_ttl(Duration::ZERO);
    let server = address.serve(authority);
    (issuer, server)
}

async fn a_revoked_token_is_rejected() {
    let (issuer, server) = start().await;
    let token = issuer.token(&server.resource, "files:read").await;
    assert!(!token.contains('.'), "the token is opaque");
    assert_eq!(tool_text(&server.call_with("whoami", &token).await), "machine: files:read");

    let fields = [
        ("token", token.as_str()),
        ("client_id", "machine"),
        ("client_secret", "secret of a machine"),
    ];
    let url = format!("{}/token/revocation", issuer.issuer);
    let answer = Fetch::new().post_form(&url, HeaderMap::new(), &fields).await.unwrap();
    assert_eq!(answer.status, 200);
    let answer = server.call_with("whoami", &token).await;
    assert_eq!(answer.status, 401);
    assert!(challenge(&answer).contains(r#"error="invalid_token""#), "{}", challenge(&answer));

    // An active token for another audience.
    let other = issuer.token(&server.resource.replace("/mcp", "/other"), "files:read").await;
    assert_eq!(server.call_with("whoami", &other).await.status, 401);
}

async fn a_user_with_an_opaque_token() {
    let (issuer, server) = start().await;
    let auth = Auth::code(TestUser::at(&issuer)).scopes(["files:read"]);
    let client = Client::builder().auth(auth).connect(server.resource.as_str()).await.unwrap();
    let tool_text: String = client.call_as("whoami", args! {}).await.unwrap();
    assert_eq!(tool_text, "ada: files:read");
}
