//! DPoP: tokens bound to a key of the client.

use serde_json::json;
use wharf::{Client, args};
use wharf_auth::client::{Auth, MemoryTokenStore, TokenStore};
use wharf_auth::server::Dpop;

use super::{start, start_with};
use crate::support::protected::challenge;
use crate::support::user::TestUser;

mod tests {
    crate::oidc::tests! { a_bound_token_with_nonces_on_both_sides a_bound_token_is_worth_nothing_without_its_key }
}

async fn a_bound_token_with_nonces_on_both_sides() {
    let (issuer, server) = start_with(|it| it.dpop(Dpop::required().nonces())).await;
    issuer.set(json!({"nonce": true})).await;
    // The client is not configured for DPoP: the server announces that proofs are required.
    let auth = Auth::code(TestUser::at(&issuer)).scopes(["files:read"]);
    let client = Client::builder().auth(auth).connect(server.resource.as_str()).await.unwrap();
    let tool_text: String = client.call_as("whoami", args! {}).await.unwrap();
    assert_eq!(tool_text, "ada: files:read");
    let exchanges = issuer.seen_at_token().await;
    let statuses: Vec<_> = exchanges.iter().map(|it| (it.status, it.error.as_deref())).collect();
    assert_eq!(statuses, [(400, Some("use_dpop_nonce")), (200, None)]);
    assert!(exchanges.iter().all(|it| it.dpop));
}

async fn a_bound_token_is_worth_nothing_without_its_key() {
    let (issuer, server) = start().await;
    let vault = MemoryTokenStore::default();
    let auth =
        Auth::code(TestUser::at(&issuer)).scopes(["files:read"]).dpop().token_store(vault.clone());
    let login = auth.login(&server.resource).await.unwrap();
    let stolen = login.tokens.unwrap();
    assert!(stolen.bound);
    let answer = server.call_with("whoami", &stolen.access).await;
    assert_eq!(answer.status, 401);
    assert!(challenge(&answer).contains("DPoP"), "{}", challenge(&answer));
    let named = format!("DPoP {}", stolen.access);
    let answer = server.call("whoami", &[("authorization", &named)]).await;
    assert_eq!(answer.status, 401);
    assert!(challenge(&answer).contains("invalid_dpop_proof"), "{}", challenge(&answer));
    assert_eq!(vault.list().await.unwrap().len(), 1);
}
