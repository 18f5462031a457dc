//! Metadata that is kept with a login: a token refresh is one request.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
};

use serde_json::json;
use wharf_auth::client::TokenStore;

use crate::client::fake_servers::{
    PRM, ResponseOverride, TestClient, TestSetup, TestUser, at, error_response, json_response,
    metadata, no_override,
};

const AS_METADATA: &str = "/.well-known/oauth-authorization-server";

/// A client that has logged in once.
async fn logged_in(setup: &TestSetup) -> TestClient {
    let client = setup.client();
    assert_eq!(client.rejected("Bearer").await, Ok(true));
    client.accepted().await;
    setup.mcp.clear_requests();
    setup.issuer.clear_requests();
    client
}

/// Paths of all requests since the login, those to the server first.
fn requests(setup: &TestSetup) -> Vec<String> {
    [setup.mcp.paths(), setup.issuer.paths()].concat()
}

#[tokio::test]
async fn a_refresh_is_one_request() {
    let setup = TestSetup::default_setup().await;
    let client = logged_in(&setup).await;
    // As with real servers, the challenge names the metadata URL that the client has stored.
    let hint = format!("Bearer resource_metadata=\"{}{PRM}\"", setup.mcp.origin);
    for challenge in ["Bearer", hint.as_str()] {
        assert_eq!(client.rejected(challenge).await, Ok(true));
        assert_eq!(requests(&setup), ["/token"], "{challenge}");
        setup.issuer.clear_requests();
        client.accepted().await;
    }
    // Another process finds the metadata in the store.
    let other = setup.client();
    other.accepted().await;
    assert_eq!(other.rejected("Bearer").await, Ok(true));
    assert_eq!(requests(&setup), ["/token"]);
}

#[tokio::test]
async fn a_challenge_with_other_metadata_is_followed() {
    let setup = TestSetup::default_setup().await;
    let client = logged_in(&setup).await;
    let elsewhere = format!("Bearer resource_metadata=\"{}/other\"", setup.mcp.origin);
    assert!(client.rejected(&elsewhere).await.is_err());
    assert_eq!(requests(&setup), ["/other"]);
}

#[tokio::test]
async fn metadata_that_is_out_of_date_is_discovered_again_once() {
    let moved = Arc::new(AtomicBool::new(false));
    let has_moved = moved.clone();
    let overridden: ResponseOverride = Arc::new(move |asked| {
        let origin = format!("http://{}", asked.header("host").unwrap_or_default());
        match (has_moved.load(SeqCst), asked.path.as_str()) {
            (true, "/token") => Some(error_response(404, "")),
            (true, "/token/v2") => Some(json_response(json!({
                "access_token": "second", "token_type": "Bearer", "refresh_token": "next",
            }))),
            (true, AS_METADATA) => {
                let mut document = metadata(&origin);
                document["token_endpoint"] = format!("{origin}/token/v2").into();
                Some(json_response(document))
            }
            _ => None,
        }
    });
    let setup = TestSetup::with(no_override(), overridden, TestUser::consenting()).await;
    let client = logged_in(&setup).await;
    moved.store(true, SeqCst);
    assert_eq!(client.rejected("Bearer").await, Ok(true));
    assert_eq!(requests(&setup), [PRM, "/token", AS_METADATA, "/token/v2"]);
    assert_eq!(client.authorization().await.as_deref(), Some("Bearer second"));
    assert_eq!(setup.user.authorizations().len(), 1);
    // The new metadata is stored.
    client.accepted().await;
    setup.mcp.clear_requests();
    setup.issuer.clear_requests();
    assert_eq!(client.rejected("Bearer").await, Ok(true));
    assert_eq!(requests(&setup), ["/token/v2"]);
}

#[tokio::test]
async fn a_refresh_token_is_not_sent_twice_to_the_same_endpoint() {
    let broken = Arc::new(AtomicBool::new(false));
    let is_broken = broken.clone();
    let overridden: ResponseOverride = Arc::new(move |asked| {
        let origin = format!("http://{}", asked.header("host").unwrap_or_default());
        match (is_broken.load(SeqCst), asked.path.as_str()) {
            (true, "/token") => Some(error_response(503, "temporarily_unavailable")),
            // Metadata fields that a refresh does not use have changed.
            (true, AS_METADATA) => {
                let mut document = metadata(&origin);
                document["scopes_supported"] = json!(["new"]);
                document["revocation_endpoint"] = format!("{origin}/revoke/v2").into();
                Some(json_response(document))
            }
            _ => None,
        }
    });
    let setup = TestSetup::with(no_override(), overridden, TestUser::consenting()).await;
    let client = logged_in(&setup).await;
    broken.store(true, SeqCst);
    assert!(client.rejected("Bearer").await.is_err());
    assert_eq!(requests(&setup), [PRM, "/token", AS_METADATA]);
}

#[tokio::test]
async fn an_issuer_that_was_not_confirmed_is_asked_for_once() {
    let setup = TestSetup::default_setup().await;
    let auth = || setup.auth().client_secret("me", "my-secret");
    let client = setup.client_with(auth().confirm_issuer(|_| async { true }));
    assert_eq!(client.rejected("Bearer").await, Ok(true));
    client.accepted().await;
    // Another process, with the stored login.
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = asked.clone();
    let refusing = auth().confirm_issuer(move |_| {
        counted.fetch_add(1, SeqCst);
        async { false }
    });
    let client = setup.client_with(refusing);
    client.accepted().await;
    setup.issuer.clear_requests();
    let error = client.rejected("Bearer").await.unwrap_err();
    assert!(error.message.contains("not confirmed"), "{error}");
    assert_eq!(asked.load(SeqCst), 1);
    assert_eq!(setup.issuer.at("/token").len(), 0);
}

#[tokio::test]
async fn a_refusal_for_good_leads_to_one_authorization() {
    let overridden: ResponseOverride = Arc::new(|asked| {
        let refresh = asked.body.contains("grant_type=refresh_token");
        refresh.then(|| error_response(400, "unauthorized_client"))
    });
    let setup = TestSetup::with(no_override(), overridden, TestUser::consenting()).await;
    let client = logged_in(&setup).await;
    assert_eq!(client.rejected("Bearer").await, Ok(true));
    // One refresh, one authorization.
    assert_eq!(setup.issuer.at("/token").len(), 2);
    assert_eq!(setup.user.authorizations().len(), 2);
}

#[tokio::test]
async fn logins_without_metadata_or_with_unreadable_metadata_still_work() {
    for discovered in [json!(null), json!({"other": 1}), json!("text")] {
        let setup = TestSetup::default_setup().await;
        logged_in(&setup).await;
        let key = setup.token_store.list().await.unwrap().remove(0);
        let login = setup.token_store.load(&key).await.unwrap().unwrap();
        let mut document = serde_json::to_value(&login).unwrap();
        assert!(document["discovered"].is_object(), "{document}");
        document["discovered"] = discovered;
        let login = serde_json::from_value(document).unwrap();
        setup.token_store.save(&login).await.unwrap();
        let client = setup.client();
        client.accepted().await;
        assert_eq!(client.rejected("Bearer").await, Ok(true));
        assert_eq!(requests(&setup), [PRM, AS_METADATA, "/token"]);
    }
}

#[tokio::test]
async fn long_metadata_is_not_stored() {
    let long: Vec<String> = (0..2_000).map(|n| format!("scope-number-{n}")).collect();
    let overridden = at(AS_METADATA, move |asked| {
        let origin = format!("http://{}", asked.header("host").unwrap_or_default());
        let mut document = metadata(&origin);
        document["scopes_supported"] = json!(long);
        json_response(document)
    });
    let setup = TestSetup::with(no_override(), overridden, TestUser::consenting()).await;
    let client = logged_in(&setup).await;
    assert_eq!(client.rejected("Bearer").await, Ok(true));
    assert_eq!(requests(&setup), [PRM, AS_METADATA, "/token"]);
}
