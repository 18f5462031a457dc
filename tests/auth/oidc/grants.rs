//! Client credentials grant, and client authentication at the token endpoint.

use serde_json::{Value, json};
use wharf::{Client, args};
use wharf_auth::client::Auth;
use wharf_auth::jose::SigningKey;

use super::start;
use crate::support::authorization::AuthorizationServer;
use crate::support::protected::Protected;
use crate::support::user::TestUser;

mod tests {
    crate::oidc::tests! {
        a_program_with_a_secret a_program_with_a_key a_user_authorizes_a_client_with_a_key
        a_client_secret_is_sent_only_to_its_issuer
    }
}

async fn who(server: &Protected, auth: Auth) -> String {
    let client = Client::builder().auth(auth).connect(server.resource.as_str()).await.unwrap();
    client.call_as("whoami", args! {}).await.unwrap()
}

async fn a_program_with_a_secret() {
    let (issuer, server) = start().await;
    issuer
        .register_client(json!({
            "client_id": "tug",
            "client_secret": "a secret: with % and +",
            "token_endpoint_auth_method": "client_secret_basic",
            "grant_types": ["client_credentials"],
            "redirect_uris": [],
            "response_types": [],
        }))
        .await;
    let auth = Auth::client_credentials("tug", "a secret: with % and +").issuer(&issuer.issuer);
    assert_eq!(who(&server, auth.scopes(["files:read"])).await, "tug: files:read");
    let [exchange] = &issuer.seen_at_token().await[..] else { panic!("one exchange") };
    assert_eq!(exchange.params["grant_type"], "client_credentials");
    assert_eq!(exchange.params["resource"], server.resource);
    assert_eq!(exchange.authorization.as_deref(), Some("Basic"));
}

/// Registers a client with this key and the settings in `more`.
async fn register_client(issuer: &AuthorizationServer, key: &SigningKey, more: Value) {
    let mut client = json!({
        "client_id": "tug",
        "token_endpoint_auth_method": "private_key_jwt",
        "jwks": {"keys": [key.public_jwk()]},
    });
    for (name, value) in more.as_object().unwrap() {
        client[name] = value.clone();
    }
    issuer.register_client(client).await;
}

async fn a_program_with_a_key() {
    let (issuer, server) = start().await;
    let key = SigningKey::generate().unwrap();
    let may =
        json!({"grant_types": ["client_credentials"], "redirect_uris": [], "response_types": []});
    register_client(&issuer, &key, may).await;
    let auth = Auth::client_credentials_key("tug", key).issuer(&issuer.issuer);
    assert_eq!(who(&server, auth.scopes(["files:write"])).await, "tug: files:write");
    let [exchange] = &issuer.seen_at_token().await[..] else { panic!("one exchange") };
    let kind = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
    assert_eq!(exchange.params["client_assertion_type"], kind);
    assert!(exchange.params.get("client_secret").is_none());
}

async fn a_user_authorizes_a_client_with_a_key() {
    let (issuer, server) = start().await;
    let key = SigningKey::generate().unwrap();
    let back = "http://127.0.0.1:7/callback";
    register_client(
        &issuer,
        &key,
        json!({"grant_types": ["authorization_code"], "redirect_uris": [back]}),
    )
    .await;
    let auth = Auth::code(TestUser::at(&issuer))
        .client_key("tug", key)
        .scopes(["files:read"])
        .issuer(&issuer.issuer);
    assert_eq!(who(&server, auth).await, "ada: files:read");
    // A registered client does not register again.
    assert!(issuer.seen().await.iter().all(|it| it.path != "/reg"));
}

async fn a_client_secret_is_sent_only_to_its_issuer() {
    let (issuer, server) = start().await;
    let auth = Auth::client_credentials("tug", "secret").issuer("https://id.example");
    let refused = Client::builder().auth(auth).connect(server.resource.as_str()).await;
    let error = refused.err().unwrap().to_string();
    assert!(error.contains("https://id.example"), "{error}");
    assert!(!error.contains("secret\""), "{error}");
    assert!(issuer.seen_at_token().await.is_empty());
}
