//! Grants without a user.

use std::sync::Arc;

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::json;
use wharf_auth::{
    client::{Assertion, Auth, Enterprise},
    jose::{Algorithm, SigningKey, UnverifiedToken},
};

use crate::stage::{Person, Stage, Tweak, as_usual, at, metadata, refuse, say};

async fn taking(methods: &'static [&'static str]) -> Stage {
    let tweak = at("/.well-known/oauth-authorization-server", move |asked| {
        let mut said = metadata(&format!("http://{}", asked.header("host").unwrap()));
        said["token_endpoint_auth_methods_supported"] = json!(methods);
        said["authorization_endpoint"] = serde_json::Value::Null;
        say(said)
    });
    // Without a refresh token: the client requests a new token.
    let token = at("/token", |asked| {
        let bearer = json!({"access_token": "t", "token_type": "Bearer"});
        if asked.field("client_secret") == "wrong" {
            refuse(401, "invalid_client")
        } else {
            say(bearer)
        }
    });
    let both: Tweak = Arc::new(move |asked| tweak(asked).or_else(|| token(asked)));
    Stage::with(as_usual(), both, Person::agrees()).await
}

#[tokio::test]
async fn a_secret_is_shown_as_the_issuer_takes_it() {
    let (id, secret) = ("tug boat", "s:e/c+r%t");
    for (methods, basic) in [
        (&["client_secret_basic", "client_secret_post"][..], true),
        (&["client_secret_post"], false),
        (&["private_key_jwt"], true),
    ] {
        let stage = taking(methods).await;
        let client =
            stage.knocker(Auth::client_credentials(id, secret).issuer(&stage.issuer.origin));
        assert_eq!(client.refused("Bearer scope=\"a\"").await, Ok(true));
        let token = stage.issuer.at("/token")[0].clone();
        assert_eq!(token.field("grant_type"), "client_credentials");
        assert_eq!(token.field("scope"), "a");
        assert_eq!(token.field("resource"), stage.url());
        assert_eq!(token.field("client_id"), id);
        if basic {
            let pair = format!("Basic {}", STANDARD.encode("tug%20boat:s%3Ae%2Fc%2Br%25t"));
            assert_eq!(token.header("authorization"), Some(&*pair));
            assert!(!token.form().contains_key("client_secret"));
        } else {
            assert_eq!(token.field("client_secret"), secret);
            assert_eq!(token.header("authorization"), None);
        }
    }
}

/// Python's `mcp` requires the client id in the form beside basic authentication; Okta rejects that as two
/// credentials. Both work; the secret is not sent twice, and a wrong secret is not retried.
#[tokio::test]
async fn the_client_id_is_in_the_form_where_the_issuer_takes_it() {
    for (wants_id, secret, requests) in [(true, "right", 1), (false, "right", 2), (true, "no", 1)] {
        let token = at("/token", move |asked| {
            let right = format!("Basic {}", STANDARD.encode("tug:right"));
            match asked.header("authorization") {
                _ if asked.form().contains_key("client_id") != wants_id => match wants_id {
                    true => refuse(401, "invalid_client"),
                    false => refuse(400, "invalid_request"),
                },
                Some(pair) if pair == right => say(json!({"access_token": "t"})),
                _ => refuse(401, "invalid_client"),
            }
        });
        let stage = Stage::with(as_usual(), token, Person::agrees()).await;
        let auth = Auth::client_credentials("tug", secret).issuer(&stage.issuer.origin);
        let got = stage.knocker(auth).refused("Bearer").await;
        assert_eq!(got.is_ok(), secret == "right", "{got:?}");
        let asked = stage.issuer.at("/token");
        assert_eq!(asked.len(), requests, "{wants_id} {secret}");
        assert!(asked.iter().all(|it| !it.form().contains_key("client_secret")));
    }
}

#[tokio::test]
async fn a_key_signs_for_one_issuer_and_a_short_time() {
    let stage = taking(&["private_key_jwt"]).await;
    let key = SigningKey::generate().unwrap();
    let public = key.public_jwk();
    let client =
        stage.knocker(Auth::client_credentials_key("tug", key).issuer(&stage.issuer.origin));
    client.refused("Bearer").await.unwrap();
    let token = stage.issuer.at("/token")[0].clone();
    let assertion = token.field("client_assertion");
    let claims =
        UnverifiedToken::parse(&assertion).unwrap().verify(&public, &[Algorithm::ES256]).unwrap();
    assert_eq!((claims.text("iss"), claims.text("sub")), (Some("tug"), Some("tug")));
    assert_eq!(claims.texts("aud"), [stage.issuer.origin.as_str()]);
    assert_eq!(claims.time("exp").unwrap() - claims.time("iat").unwrap(), 300);
    assert!(claims.text("jti").unwrap().len() > 10);
    assert_eq!(token.header("authorization"), None);
}

#[tokio::test]
async fn a_token_of_a_program_is_replaced_by_another() {
    let stage = taking(&["client_secret_post"]).await;
    let client =
        stage.knocker(Auth::client_credentials("tug", "secret").issuer(&stage.issuer.origin));
    client.refused("Bearer").await.unwrap();
    client.accepted().await;
    assert_eq!(client.refused("Bearer").await, Ok(true));
    assert_eq!(client.authorization().await.as_deref(), Some("Bearer t"));
    assert_eq!(stage.issuer.at("/token").len(), 2);
    let wrong =
        stage.knocker(Auth::client_credentials("tug", "wrong").issuer(&stage.issuer.origin));
    let error = wrong.refused("Bearer").await.unwrap_err();
    assert!(error.message.contains("invalid_client"), "{error}");
}

#[tokio::test]
async fn a_company_says_who_somebody_is() {
    let stage = taking(&["client_secret_basic"]).await;
    let jag = "urn:ietf:params:oauth:token-type:id-jag";
    let idp = crate::stage::issuer(at("/exchange", move |_| {
        say(json!({"access_token": "the-jag", "issued_token_type": jag, "token_type": "N_A"}))
    }))
    .await;
    let company = Enterprise::new(format!("{}/exchange", idp.origin), "at-idp", "the-id-token");
    let auth =
        Auth::enterprise(company).client_secret("tug", "secret").issuer(&stage.issuer.origin);
    assert!(!format!("{auth:?}").contains("the-id-token"));
    assert_eq!(stage.knocker(auth).refused("Bearer").await, Ok(true));
    let exchange = idp.at("/exchange")[0].clone();
    assert_eq!(exchange.field("grant_type"), "urn:ietf:params:oauth:grant-type:token-exchange");
    assert_eq!(exchange.field("requested_token_type"), jag);
    assert_eq!(exchange.field("audience"), stage.issuer.origin);
    assert_eq!(exchange.field("resource"), stage.url());
    assert_eq!(exchange.field("subject_token"), "the-id-token");
    assert_eq!(exchange.field("client_id"), "at-idp");
    let token = stage.issuer.at("/token")[0].clone();
    assert_eq!(token.field("grant_type"), "urn:ietf:params:oauth:grant-type:jwt-bearer");
    assert_eq!(token.field("assertion"), "the-jag");
    assert!(token.header("authorization").unwrap().starts_with("Basic "));
    // Only the provider receives the ID token.
    assert!(!stage.issuer.seen().contains("the-id-token"));
    assert!(!idp.seen().contains("secret"));
}

#[tokio::test]
async fn what_is_no_grant_is_not_handed_on() {
    let stage = taking(&["none"]).await;
    let idp = crate::stage::issuer(as_usual()).await;
    let company = Enterprise::new(format!("{}/token", idp.origin), "at-idp", "the-id-token");
    let auth = Auth::enterprise(company).client("tug").issuer(&stage.issuer.origin);
    let error = stage.knocker(auth).refused("Bearer").await.unwrap_err();
    assert!(error.message.contains("identity assertion"), "{error}");
    assert!(stage.issuer.at("/token").is_empty());
}

#[tokio::test]
async fn a_platform_says_what_a_program_is() {
    let stage = taking(&["none"]).await;
    let file = std::env::temp_dir().join(format!("wharf-assertion-{}", std::process::id()));
    std::fs::write(&file, "eyJ-one\n").unwrap();
    let client =
        stage.knocker(Auth::workload("tug", Assertion::file(&file)).issuer(&stage.issuer.origin));
    assert_eq!(client.refused("Bearer").await, Ok(true));
    client.accepted().await;
    // The file is read each time.
    std::fs::write(&file, "eyJ-two\n").unwrap();
    assert_eq!(client.refused("Bearer").await, Ok(true));
    std::fs::remove_file(&file).unwrap();
    let tokens = stage.issuer.at("/token");
    let assertions: Vec<_> = tokens.iter().map(|it| it.field("assertion")).collect();
    assert_eq!(assertions, ["eyJ-one", "eyJ-two"]);
    assert_eq!(tokens[0].field("client_id"), "tug");
    assert_eq!(tokens[0].field("grant_type"), "urn:ietf:params:oauth:grant-type:jwt-bearer");
}

#[tokio::test]
async fn what_is_refused_is_not_tried_again() {
    let tweak = at("/token", |_| refuse(400, "unauthorized_client"));
    let stage = Stage::with(as_usual(), tweak, Person::agrees()).await;
    let client = stage.knocker(Auth::workload("tug", "eyJ").issuer(&stage.issuer.origin));
    let error = client.refused("Bearer").await.unwrap_err();
    assert!(error.message.contains("unauthorized_client"), "{error}");
    assert!(error.kind.is_authorization_failed(), "{error:?}");
    assert_eq!(stage.issuer.at("/token").len(), 1);
}
