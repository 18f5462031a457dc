//! Grants without a user.

use std::sync::Arc;

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::json;
use wharf_auth::{
    client::{Assertion, Auth, Enterprise},
    jose::{Algorithm, SigningKey, UnverifiedToken},
};

use crate::client::fake_servers::{
    ResponseOverride, TestSetup, TestUser, at, error_response, json_response, metadata, no_override,
};

async fn supporting(methods: &'static [&'static str]) -> TestSetup {
    let overridden = at("/.well-known/oauth-authorization-server", move |asked| {
        let mut document = metadata(&format!("http://{}", asked.header("host").unwrap()));
        document["token_endpoint_auth_methods_supported"] = json!(methods);
        document["authorization_endpoint"] = serde_json::Value::Null;
        json_response(document)
    });
    // Without a refresh token: the client requests a new token.
    let token = at("/token", |asked| {
        let bearer = json!({"access_token": "t", "token_type": "Bearer"});
        if asked.field("client_secret") == "wrong" {
            error_response(401, "invalid_client")
        } else {
            json_response(bearer)
        }
    });
    let both: ResponseOverride = Arc::new(move |asked| overridden(asked).or_else(|| token(asked)));
    TestSetup::with(no_override(), both, TestUser::consenting()).await
}

#[tokio::test]
async fn a_secret_is_sent_with_a_supported_method() {
    let (id, secret) = ("tug boat", "s:e/c+r%t");
    for (methods, basic) in [
        (&["client_secret_basic", "client_secret_post"][..], true),
        (&["client_secret_post"], false),
        (&["private_key_jwt"], true),
    ] {
        let setup = supporting(methods).await;
        let client =
            setup.client_with(Auth::client_credentials(id, secret).issuer(&setup.issuer.origin));
        assert_eq!(client.rejected("Bearer scope=\"a\"").await, Ok(true));
        let token = setup.issuer.at("/token")[0].clone();
        assert_eq!(token.field("grant_type"), "client_credentials");
        assert_eq!(token.field("scope"), "a");
        assert_eq!(token.field("resource"), setup.url());
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
                    true => error_response(401, "invalid_client"),
                    false => error_response(400, "invalid_request"),
                },
                Some(pair) if pair == right => json_response(json!({"access_token": "t"})),
                _ => error_response(401, "invalid_client"),
            }
        });
        let setup = TestSetup::with(no_override(), token, TestUser::consenting()).await;
        let auth = Auth::client_credentials("tug", secret).issuer(&setup.issuer.origin);
        let got = setup.client_with(auth).rejected("Bearer").await;
        assert_eq!(got.is_ok(), secret == "right", "{got:?}");
        let asked = setup.issuer.at("/token");
        assert_eq!(asked.len(), requests, "{wants_id} {secret}");
        assert!(asked.iter().all(|it| !it.form().contains_key("client_secret")));
    }
}

#[tokio::test]
async fn a_key_signs_for_one_issuer_and_a_short_time() {
    let setup = supporting(&["private_key_jwt"]).await;
    let key = SigningKey::generate().unwrap();
    let public = key.public_jwk();
    let client =
        setup.client_with(Auth::client_credentials_key("tug", key).issuer(&setup.issuer.origin));
    client.rejected("Bearer").await.unwrap();
    let token = setup.issuer.at("/token")[0].clone();
    let assertion = token.field("client_assertion");
    let claims =
        UnverifiedToken::parse(&assertion).unwrap().verify(&public, &[Algorithm::ES256]).unwrap();
    assert_eq!((claims.text("iss"), claims.text("sub")), (Some("tug"), Some("tug")));
    assert_eq!(claims.texts("aud"), [setup.issuer.origin.as_str()]);
    assert_eq!(claims.time("exp").unwrap() - claims.time("iat").unwrap(), 300);
    assert!(claims.text("jti").unwrap().len() > 10);
    assert_eq!(token.header("authorization"), None);
}

#[tokio::test]
async fn client_credentials_tokens_are_replaced_without_refresh() {
    let setup = supporting(&["client_secret_post"]).await;
    let client =
        setup.client_with(Auth::client_credentials("tug", "secret").issuer(&setup.issuer.origin));
    client.rejected("Bearer").await.unwrap();
    client.accepted().await;
    assert_eq!(client.rejected("Bearer").await, Ok(true));
    assert_eq!(client.authorization().await.as_deref(), Some("Bearer t"));
    assert_eq!(setup.issuer.at("/token").len(), 2);
    let wrong =
        setup.client_with(Auth::client_credentials("tug", "wrong").issuer(&setup.issuer.origin));
    let error = wrong.rejected("Bearer").await.unwrap_err();
    assert!(error.message.contains("invalid_client"), "{error}");
}

#[tokio::test]
async fn enterprise_managed_authorization() {
    let setup = supporting(&["client_secret_basic"]).await;
    let jag = "urn:ietf:params:oauth:token-type:id-jag";
    let idp = crate::client::fake_servers::issuer(at("/exchange", move |_| {
        json_response(
            json!({"access_token": "the-jag", "issued_token_type": jag, "token_type": "N_A"}),
        )
    }))
    .await;
    let company = Enterprise::new(format!("{}/exchange", idp.origin), "at-idp", "the-id-token");
    let auth =
        Auth::enterprise(company).client_secret("tug", "secret").issuer(&setup.issuer.origin);
    assert!(!format!("{auth:?}").contains("the-id-token"));
    assert_eq!(setup.client_with(auth).rejected("Bearer").await, Ok(true));
    let exchange = idp.at("/exchange")[0].clone();
    assert_eq!(exchange.field("grant_type"), "urn:ietf:params:oauth:grant-type:token-exchange");
    assert_eq!(exchange.field("requested_token_type"), jag);
    assert_eq!(exchange.field("audience"), setup.issuer.origin);
    assert_eq!(exchange.field("resource"), setup.url());
    assert_eq!(exchange.field("subject_token"), "the-id-token");
    assert_eq!(exchange.field("client_id"), "at-idp");
    let token = setup.issuer.at("/token")[0].clone();
    assert_eq!(token.field("grant_type"), "urn:ietf:params:oauth:grant-type:jwt-bearer");
    assert_eq!(token.field("assertion"), "the-jag");
    assert!(token.header("authorization").unwrap().starts_with("Basic "));
    // Only the provider receives the ID token.
    assert!(!setup.issuer.received_text().contains("the-id-token"));
    assert!(!idp.received_text().contains("secret"));
}

#[tokio::test]
async fn a_response_without_assertion_is_not_forwarded() {
    let setup = supporting(&["none"]).await;
    let idp = crate::client::fake_servers::issuer(no_override()).await;
    let company = Enterprise::new(format!("{}/token", idp.origin), "at-idp", "the-id-token");
    let auth = Auth::enterprise(company).client("tug").issuer(&setup.issuer.origin);
    let error = setup.client_with(auth).rejected("Bearer").await.unwrap_err();
    assert!(error.message.contains("identity assertion"), "{error}");
    assert!(setup.issuer.at("/token").is_empty());
}

#[tokio::test]
async fn workload_identity() {
    let setup = supporting(&["none"]).await;
    let file = std::env::temp_dir().join(format!("wharf-assertion-{}", std::process::id()));
    std::fs::write(&file, "eyJ-one\n").unwrap();
    let client = setup
        .client_with(Auth::workload("tug", Assertion::file(&file)).issuer(&setup.issuer.origin));
    assert_eq!(client.rejected("Bearer").await, Ok(true));
    client.accepted().await;
    // The file is read each time.
    std::fs::write(&file, "eyJ-two\n").unwrap();
    assert_eq!(client.rejected("Bearer").await, Ok(true));
    std::fs::remove_file(&file).unwrap();
    let tokens = setup.issuer.at("/token");
    let assertions: Vec<_> = tokens.iter().map(|it| it.field("assertion")).collect();
    assert_eq!(assertions, ["eyJ-one", "eyJ-two"]);
    assert_eq!(tokens[0].field("client_id"), "tug");
    assert_eq!(tokens[0].field("grant_type"), "urn:ietf:params:oauth:grant-type:jwt-bearer");
}

#[tokio::test]
async fn a_rejected_grant_is_not_retried() {
    let overridden = at("/token", |_| error_response(400, "unauthorized_client"));
    let setup = TestSetup::with(no_override(), overridden, TestUser::consenting()).await;
    let client = setup.client_with(Auth::workload("tug", "eyJ").issuer(&setup.issuer.origin));
    let error = client.rejected("Bearer").await.unwrap_err();
    assert!(error.message.contains("unauthorized_client"), "{error}");
    assert!(error.kind.is_authorization_failed(), "{error:?}");
    assert_eq!(setup.issuer.at("/token").len(), 1);
}
