//! DPoP-bound tokens.

use std::sync::Arc;

use serde_json::json;
use wharf_auth::jose::{Algorithm, Claims, Jwk, UnverifiedToken, b64, sha256};

use crate::client::fake_servers::{
    CannedResponse, RecordedRequest, ResponseOverride, TestClient, TestSetup, TestUser,
    error_response, json_response, no_override,
};

fn bound() -> CannedResponse {
    json_response(json!({"access_token": "bound", "token_type": "DPoP", "refresh_token": "next"}))
}

/// An issuer that requires a proof with this nonce.
fn requiring_nonce(nonce: Option<&'static str>) -> ResponseOverride {
    Arc::new(move |asked| {
        if asked.path != "/token" {
            return None;
        }
        let (claims, _) = proof(asked.header("dpop")?);
        if claims.text("nonce") == nonce {
            return Some(bound());
        }
        let (status, mut headers, body) = error_response(400, "use_dpop_nonce");
        headers.push(("DPoP-Nonce".into(), nonce.unwrap_or_default().into()));
        Some((status, headers, body))
    })
}

/// Verifies a proof and returns its claims and key.
fn proof(text: &str) -> (Claims, Jwk) {
    let unverified = UnverifiedToken::parse(text).unwrap();
    let head: serde_json::Value =
        serde_json::from_slice(&wharf_auth::jose::unb64(text.split('.').next().unwrap()).unwrap())
            .unwrap();
    assert_eq!(head["typ"], "dpop+jwt");
    assert!(head["jwk"].get("d").is_none());
    let key = Jwk::from_json(&head["jwk"]).unwrap();
    (unverified.verify(&key, &[Algorithm::ES256]).unwrap(), key)
}

async fn attached_proof(client: &TestClient) -> (Claims, Jwk) {
    let (headers, _) = client.attached().await;
    assert_eq!(headers["authorization"], "DPoP bound");
    proof(&headers["dpop"])
}

fn token(setup: &TestSetup) -> RecordedRequest {
    setup.issuer.at("/token").last().unwrap().clone()
}

#[tokio::test]
async fn every_request_has_a_dpop_proof() {
    let setup = TestSetup::with(no_override(), requiring_nonce(None), TestUser::consenting()).await;
    let client = setup.client();
    assert_eq!(client.rejected("DPoP algs=\"ES256\"").await, Ok(true));
    let (claims, key) = proof(token(&setup).header("dpop").unwrap());
    assert_eq!(claims.text("htm"), Some("POST"));
    assert_eq!(claims.text("htu"), Some(&*format!("{}/token", setup.issuer.origin)));
    assert_eq!(claims.text("ath"), None);
    assert_eq!(setup.user.query(0)["dpop_jkt"], key.thumbprint());

    let [(one, first), (two, second)] =
        [attached_proof(&client).await, attached_proof(&client).await];
    assert_eq!((first.thumbprint(), second.thumbprint()), (key.thumbprint(), key.thumbprint()));
    assert_ne!(one.text("jti"), two.text("jti"));
    assert_eq!(one.text("htu"), Some(&*setup.url()));
    assert_eq!(one.text("ath"), Some(&*b64(sha256(b"bound"))));
    // The key is stored with the token.
    let (_, later) = attached_proof(&setup.client()).await;
    assert_eq!(later.thumbprint(), key.thumbprint());
}

#[tokio::test]
async fn nonces_are_kept_for_each_origin() {
    let setup =
        TestSetup::with(no_override(), requiring_nonce(Some("issuers")), TestUser::consenting())
            .await;
    let client = setup.client();
    assert_eq!(client.rejected("DPoP").await, Ok(true));
    assert_eq!(setup.issuer.at("/token").len(), 2);
    assert_eq!(attached_proof(&client).await.0.text("nonce"), None);

    // The server requires a nonce too: the same token is sent again with a new proof.
    let (_, mark) = client.attached().await;
    client.credentials.on_response(mark, 401, Some("servers"));
    let challenge = "DPoP error=\"use_dpop_nonce\"";
    let auth_failure = crate::client::fake_servers::auth_failure(401, challenge, mark, 0);
    assert_eq!(client.credentials.on_auth_failure(auth_failure).await, Ok(true));
    assert_eq!(attached_proof(&client).await.0.text("nonce"), Some("servers"));
    // The nonce may change with every response.
    client.credentials.on_response(mark, 200, Some("next"));
    assert_eq!(attached_proof(&client).await.0.text("nonce"), Some("next"));
    // A refresh uses the issuer's nonce.
    assert_eq!(client.rejected("DPoP error=\"invalid_token\"").await, Ok(true));
    let (claims, _) = proof(token(&setup).header("dpop").unwrap());
    assert_eq!(claims.text("nonce"), Some("issuers"));
    assert_eq!(token(&setup).field("grant_type"), "refresh_token");
    assert_eq!(setup.issuer.at("/token").len(), 3);
}

#[tokio::test]
async fn endless_nonce_requests_end() {
    let never: ResponseOverride = Arc::new(|asked| {
        let (status, mut headers, body) = error_response(400, "use_dpop_nonce");
        headers.push(("DPoP-Nonce".into(), format!("{}", asked.head.len())));
        (asked.path == "/token").then_some((status, headers, body))
    });
    let setup = TestSetup::with(no_override(), never, TestUser::consenting()).await;
    let client = setup.client();
    assert!(client.rejected("DPoP").await.is_err());
    assert_eq!(setup.issuer.at("/token").len(), 2);

    let setup = TestSetup::with(no_override(), requiring_nonce(None), TestUser::consenting()).await;
    let client = setup.client();
    client.rejected("DPoP").await.unwrap();
    let times = client.retry_until_rejected(401, |_| "DPoP error=\"use_dpop_nonce\"".into()).await;
    assert!(times <= 3, "{times}");
    assert_eq!(setup.issuer.at("/token").len(), 1);
}

#[tokio::test]
async fn dpop_can_be_enabled_by_the_client() {
    let setup = TestSetup::with(no_override(), requiring_nonce(None), TestUser::consenting()).await;
    let client = setup.client_with(setup.auth().dpop());
    assert_eq!(client.rejected("Bearer").await, Ok(true));
    attached_proof(&client).await;
}

#[tokio::test]
async fn an_unexpected_bound_token_is_rejected() {
    let overridden: ResponseOverride = Arc::new(|asked| (asked.path == "/token").then(bound));
    let setup = TestSetup::with(no_override(), overridden, TestUser::consenting()).await;
    let error = setup.client().rejected("Bearer").await.unwrap_err();
    assert!(error.message.contains("DPoP"), "{error}");
}

#[tokio::test]
async fn an_unbound_token_is_rejected_if_dpop_is_required() {
    let setup = TestSetup::default_setup().await;
    let error = setup.client_with(setup.auth().dpop()).rejected("Bearer").await.unwrap_err();
    assert!(error.message.contains("DPoP"), "{error}");
}
