//! DPoP-bound tokens.

use std::sync::Arc;

use serde_json::json;
use wharf_auth::jose::{Algorithm, Claims, Jwk, UnverifiedToken, b64, sha256};

use crate::stage::{Asked, Knocker, Person, Said, Stage, Tweak, as_usual, refuse, say};

fn bound() -> Said {
    say(json!({"access_token": "bound", "token_type": "DPoP", "refresh_token": "next"}))
}

/// An issuer that requires a proof with this nonce.
fn wanting(nonce: Option<&'static str>) -> Tweak {
    Arc::new(move |asked| {
        if asked.path != "/token" {
            return None;
        }
        let (claims, _) = proof(asked.header("dpop")?);
        if claims.text("nonce") == nonce {
            return Some(bound());
        }
        let (status, mut headers, body) = refuse(400, "use_dpop_nonce");
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

async fn shown(client: &Knocker) -> (Claims, Jwk) {
    let (headers, _) = client.shown().await;
    assert_eq!(headers["authorization"], "DPoP bound");
    proof(&headers["dpop"])
}

fn token(stage: &Stage) -> Asked {
    stage.issuer.at("/token").last().unwrap().clone()
}

#[tokio::test]
async fn every_request_proves_that_the_key_is_ours() {
    let stage = Stage::with(as_usual(), wanting(None), Person::agrees()).await;
    let client = stage.client();
    assert_eq!(client.refused("DPoP algs=\"ES256\"").await, Ok(true));
    let (claims, key) = proof(token(&stage).header("dpop").unwrap());
    assert_eq!(claims.text("htm"), Some("POST"));
    assert_eq!(claims.text("htu"), Some(&*format!("{}/token", stage.issuer.origin)));
    assert_eq!(claims.text("ath"), None);
    assert_eq!(stage.person.query(0)["dpop_jkt"], key.thumbprint());

    let [(one, first), (two, second)] = [shown(&client).await, shown(&client).await];
    assert_eq!((first.thumbprint(), second.thumbprint()), (key.thumbprint(), key.thumbprint()));
    assert_ne!(one.text("jti"), two.text("jti"));
    assert_eq!(one.text("htu"), Some(&*stage.url()));
    assert_eq!(one.text("ath"), Some(&*b64(sha256(b"bound"))));
    // The key is stored with the token.
    let (_, later) = shown(&stage.client()).await;
    assert_eq!(later.thumbprint(), key.thumbprint());
}

#[tokio::test]
async fn nonces_are_kept_for_each_origin() {
    let stage = Stage::with(as_usual(), wanting(Some("issuers")), Person::agrees()).await;
    let client = stage.client();
    assert_eq!(client.refused("DPoP").await, Ok(true));
    assert_eq!(stage.issuer.at("/token").len(), 2);
    assert_eq!(shown(&client).await.0.text("nonce"), None);

    // The server requires a nonce too: the same token is sent again with a new proof.
    let (_, mark) = client.shown().await;
    client.credentials.on_response(mark, 401, Some("servers"));
    let challenge = "DPoP error=\"use_dpop_nonce\"";
    let rebuff = crate::stage::rebuff(401, challenge, mark, 0);
    assert_eq!(client.credentials.on_auth_failure(rebuff).await, Ok(true));
    assert_eq!(shown(&client).await.0.text("nonce"), Some("servers"));
    // The nonce may change with every response.
    client.credentials.on_response(mark, 200, Some("next"));
    assert_eq!(shown(&client).await.0.text("nonce"), Some("next"));
    // A refresh uses the issuer's nonce.
    assert_eq!(client.refused("DPoP error=\"invalid_token\"").await, Ok(true));
    let (claims, _) = proof(token(&stage).header("dpop").unwrap());
    assert_eq!(claims.text("nonce"), Some("issuers"));
    assert_eq!(token(&stage).field("grant_type"), "refresh_token");
    assert_eq!(stage.issuer.at("/token").len(), 3);
}

#[tokio::test]
async fn an_issuer_that_is_never_content_with_a_nonce_is_given_up() {
    let never: Tweak = Arc::new(|asked| {
        let (status, mut headers, body) = refuse(400, "use_dpop_nonce");
        headers.push(("DPoP-Nonce".into(), format!("{}", asked.head.len())));
        (asked.path == "/token").then_some((status, headers, body))
    });
    let stage = Stage::with(as_usual(), never, Person::agrees()).await;
    let client = stage.client();
    assert!(client.refused("DPoP").await.is_err());
    assert_eq!(stage.issuer.at("/token").len(), 2);

    let stage = Stage::with(as_usual(), wanting(None), Person::agrees()).await;
    let client = stage.client();
    client.refused("DPoP").await.unwrap();
    let times = client.insists(401, |_| "DPoP error=\"use_dpop_nonce\"".into()).await;
    assert!(times <= 3, "{times}");
    assert_eq!(stage.issuer.at("/token").len(), 1);
}

#[tokio::test]
async fn one_can_bind_tokens_although_nobody_asks_for_it() {
    let stage = Stage::with(as_usual(), wanting(None), Person::agrees()).await;
    let client = stage.knocker(stage.auth().dpop());
    assert_eq!(client.refused("Bearer").await, Ok(true));
    shown(&client).await;
}

#[tokio::test]
async fn a_token_that_wants_proofs_nobody_asked_for_is_not_used() {
    let tweak: Tweak = Arc::new(|asked| (asked.path == "/token").then(bound));
    let stage = Stage::with(as_usual(), tweak, Person::agrees()).await;
    let error = stage.client().refused("Bearer").await.unwrap_err();
    assert!(error.message.contains("DPoP"), "{error}");
}

#[tokio::test]
async fn a_token_that_is_not_bound_as_it_has_to_be_is_not_used() {
    let stage = Stage::upright().await;
    let error = stage.knocker(stage.auth().dpop()).refused("Bearer").await.unwrap_err();
    assert!(error.message.contains("DPoP"), "{error}");
}
