//! Authorization code grant.

use serde_json::json;
use wharf::{Client, args};
use wharf_auth::client::{Auth, MemoryTokenStore, TokenStore};

use super::start;
use crate::support::authorization::AuthorizationServer;
use crate::support::protected::Protected;
use crate::support::user::TestUser;

mod tests {
    crate::oidc::tests! {
        consent_is_requested_once legacy_revisions_are_authorized missing_scopes_are_requested
        denied_consent_is_an_error an_expired_token_is_renewed_without_a_prompt without_a_refresh_token_consent_is_requested_again
        logins_persist_until_logout
    }
}

/// Client for which the user consents, with this protocol version.
async fn connect(server: &Protected, auth: &Auth, revision: &str) -> Client {
    let builder =
        Client::builder().name("tug", "1.0.0").protocol_version(revision.parse().unwrap());
    builder.auth(auth.clone()).connect(server.resource.as_str()).await.unwrap()
}

async fn text(client: &Client, tool: &str) -> String {
    let called = match tool {
        "whoami" => client.call_as(tool, args! {}).await,
        _ => client.call_as(tool, args! { name: "log" }).await,
    };
    called.unwrap()
}

async fn consent_is_requested_once() {
    let (issuer, server) = start().await;
    authorizes(&issuer, &server, "2026-07-28").await;
}

async fn legacy_revisions_are_authorized() {
    let (issuer, server) = start().await;
    authorizes(&issuer, &server, "2025-06-18").await;
}

async fn authorizes(issuer: &AuthorizationServer, server: &Protected, revision: &str) {
    let ada = TestUser::at(issuer);
    let auth = Auth::code(ada.clone()).scopes(["files:read"]);
    let client = connect(server, &auth, revision).await;
    assert_eq!(text(&client, "whoami").await, "ada: files:read");
    assert_eq!(text(&client, "read_file").await, "log, as ada read it");
    assert_eq!(ada.visits(), 1);
    assert_eq!(ada.asked("resource"), [server.resource.as_str()]);
    assert_eq!(ada.asked("code_challenge_method"), ["S256"]);
    // The authorization server supports `offline_access`, so the client requests it.
    assert_eq!(ada.asked("scope"), ["files:read offline_access"]);
    let names = client.tools().all().await.unwrap().into_iter().map(|tool| tool.name.clone());
    assert_eq!(names.collect::<Vec<_>>(), ["whoami", "read_file"]);

    let seen = issuer.seen().await;
    let registered = seen.iter().find(|it| it.path == "/reg").unwrap();
    assert_eq!((registered.status, &registered.error), (201, &None));
    let [exchange] = &seen.iter().filter(|it| it.path == "/token").collect::<Vec<_>>()[..] else {
        panic!("{seen:#?}")
    };
    assert_eq!(exchange.status, 200);
    assert_eq!(exchange.params["grant_type"], "authorization_code");
    assert_eq!(exchange.params["resource"], server.resource);
    assert!(exchange.params["code_verifier"].as_str().is_some_and(|it| it.len() >= 43));
}

async fn missing_scopes_are_requested() {
    let (issuer, server) = start().await;
    let ada = TestUser::at(&issuer);
    let auth = Auth::code(ada.clone()).scopes(["files:read"]);
    let client = connect(&server, &auth, "2026-07-28").await;
    assert_eq!(text(&client, "read_file").await, "log, as ada read it");
    // The tool is not listed without the scope, but the challenge of a call names the scope, and the client obtains it.
    assert_eq!(text(&client, "write_file").await, "log, as ada wrote it");
    let asked = ["files:read offline_access", "files:read offline_access files:write"];
    assert_eq!(ada.asked("scope"), asked);
    assert_eq!(text(&client, "whoami").await, "ada: files:read files:write");
    assert_eq!(ada.visits(), 2);
}

async fn denied_consent_is_an_error() {
    let (issuer, server) = start().await;
    issuer.set(json!({"deny": true})).await;
    let ada = TestUser::at(&issuer);
    let auth = Auth::code(ada.clone()).scopes(["files:read"]);
    let builder = Client::builder().auth(auth);
    let error = builder.connect(server.resource.as_str()).await.err().unwrap().to_string();
    assert!(error.contains("access_denied") && error.contains("Ada said no"), "{error}");
    assert_eq!(ada.visits(), 1);
    assert!(issuer.seen_at_token().await.is_empty());
}

async fn an_expired_token_is_renewed_without_a_prompt() {
    let (issuer, server) = start().await;
    issuer.set(json!({"ttl": 2})).await;
    let ada = TestUser::at(&issuer);
    let auth = Auth::code(ada.clone()).scopes(["files:read"]);
    let client = connect(&server, &auth, "2026-07-28").await;
    for _ in 0..2 {
        tokio::time::sleep(super::PAST_EXPIRY).await;
        assert_eq!(text(&client, "whoami").await, "ada: files:read");
    }
    assert_eq!(ada.visits(), 1);
    let exchanges = issuer.seen_at_token().await;
    let grants: Vec<_> = exchanges.iter().map(|it| it.params["grant_type"].clone()).collect();
    assert_eq!(grants[..2], ["authorization_code", "refresh_token"]);
    // Each refresh token was used once: a rotated one must not be sent again.
    let mut spent: Vec<_> =
        exchanges.iter().filter_map(|it| it.params["refresh_token"].as_str()).collect();
    let all = spent.len();
    spent.dedup();
    assert_eq!(spent.len(), all);
    assert!(exchanges.iter().all(|it| it.params["resource"] == server.resource));
}

async fn without_a_refresh_token_consent_is_requested_again() {
    let (issuer, server) = start().await;
    issuer.set(json!({"ttl": 1, "refresh": false})).await;
    let ada = TestUser::at(&issuer);
    let client =
        connect(&server, &Auth::code(ada.clone()).scopes(["files:read"]), "2026-07-28").await;
    let before = ada.visits();
    // Longer than the allowed clock skew.
    tokio::time::sleep(super::PAST_EXPIRY).await;
    issuer.set(json!({"ttl": 3600})).await;
    assert!(text(&client, "whoami").await.starts_with("ada: "));
    assert_eq!(ada.visits(), before + 1);
}

async fn logins_persist_until_logout() {
    let (issuer, server) = start().await;
    let (ada, vault) = (TestUser::at(&issuer), MemoryTokenStore::default());
    let auth = Auth::code(ada.clone()).scopes(["files:read"]).token_store(vault.clone());
    for _ in 0..2 {
        let client = connect(&server, &auth, "2026-07-28").await;
        assert!(text(&client, "whoami").await.starts_with("ada: "));
        client.close().await;
    }
    assert_eq!(ada.visits(), 1);
    let [key] = &vault.list().await.unwrap()[..] else { panic!("one login") };
    assert_eq!((key.server.as_str(), key.issuer.as_str()), (&*server.resource, &*issuer.issuer));
    let refresh = vault.load(key).await.unwrap().unwrap().tokens.unwrap().refresh.unwrap();

    issuer.seen().await;
    assert_eq!(auth.logout(&server.resource).await.unwrap(), 1);
    assert!(vault.list().await.unwrap().is_empty());
    let seen = issuer.seen().await;
    let revoked = seen.iter().find(|it| it.params["token"] == refresh.as_str()).unwrap();
    assert_eq!((revoked.path.as_str(), revoked.status), ("/token/revocation", 200));
}
