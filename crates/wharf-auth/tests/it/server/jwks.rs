//! Issuer keys: discovery, cache, rotation, floods and outages.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;
use tokio::time::{advance, sleep};
use wharf_auth::{jose::SigningKey, server::Jwt};

use wharf_testbed::fake_issuer::{ISSUER, Issuer, SERVER, TestRequest, good, invalid_token};

async fn is_accepted(issuer: &Issuer, authenticator: &Jwt) -> bool {
    TestRequest::bearer(&issuer.good_token()).authenticate(authenticator).await.is_ok()
}

fn unknown_key(kid: &str) -> String {
    SigningKey::generate().unwrap().sign(&json!({"kid": kid}), &good()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn metadata_is_looked_for_in_order() {
    let issuer = Issuer::default();
    issuer.rotate("one");
    let tenant = "https://id.example/tenant";
    let authenticator = || Jwt::issuer(tenant).audience(SERVER).download(issuer.clone());
    let token = issuer.token_with("iss", json!(tenant));
    let asked = [
        "https://id.example/.well-known/oauth-authorization-server/tenant",
        "https://id.example/.well-known/openid-configuration/tenant",
        "https://id.example/tenant/.well-known/openid-configuration",
    ];
    let denied = TestRequest::bearer(&token).authenticate(&authenticator()).await.unwrap_err();
    assert_eq!((denied.status, issuer.asked()), (503, asked.map(str::to_owned).to_vec()));
    assert_eq!(denied.headers["retry-after"], "5");
    assert!(!denied.headers.contains_key("www-authenticate"));
    // The last location is sufficient.
    issuer.respond_with(asked[2], json!({"issuer": tenant, "jwks_uri": "https://id.example/keys"}));
    assert!(TestRequest::bearer(&token).authenticate(&authenticator()).await.is_ok());
    // Metadata of another issuer is rejected.
    issuer.respond_with(
        asked[2],
        json!({"issuer": "https://id.example", "jwks_uri": "https://id.example/keys"}),
    );
    assert_eq!(
        TestRequest::bearer(&token).authenticate(&authenticator()).await.unwrap_err().status,
        503
    );
    // A configured JWKS URL needs no discovery.
    let authenticator = authenticator().keys_at("https://id.example/own/keys");
    assert!(TestRequest::bearer(&token).authenticate(&authenticator).await.is_ok());
    assert_eq!(issuer.asked().last().unwrap(), "https://id.example/own/keys");
}

#[tokio::test(start_paused = true)]
async fn key_rotation_is_seamless() {
    let issuer = Issuer::new();
    let authenticator = issuer.jwt();
    assert!(is_accepted(&issuer, &authenticator).await);
    // Rotation is noticed even right after a fetch for an unknown key.
    let result = TestRequest::bearer(&unknown_key("?")).challenge(&authenticator).await;
    assert_eq!(result, invalid_token("The token is signed with an unknown key"));
    let old = issuer.good_token();
    issuer.rotate("two");
    assert!(is_accepted(&issuer, &authenticator).await);
    // A withdrawn key is rejected, unless the token is cached.
    assert!(TestRequest::bearer(&old).authenticate(&authenticator).await.is_err());
    assert_eq!(issuer.fetches(), 4, "each of the three that were unknown was asked for");
}

#[tokio::test(start_paused = true)]
async fn fetches_for_unknown_keys_are_rate_limited() {
    let issuer = Issuer::new();
    let authenticator = issuer.jwt();
    assert!(is_accepted(&issuer, &authenticator).await);
    for number in 0..500 {
        let token = unknown_key(&number.to_string());
        if number < 4 {
            let result = TestRequest::bearer(&token).challenge(&authenticator).await;
            assert_eq!(result, invalid_token("The token is signed with an unknown key"));
            continue;
        }
        // The key may exist, so the client must not discard its token.
        let denied = TestRequest::bearer(&token).authenticate(&authenticator).await.unwrap_err();
        assert_eq!((denied.status, denied.headers.get("www-authenticate")), (503, None));
    }
    assert_eq!(issuer.fetches(), 5, "so many at once");
    // Known keys keep working, and rotation is noticed soon.
    assert!(is_accepted(&issuer, &authenticator).await);
    issuer.rotate("two");
    advance(Duration::from_secs(11)).await;
    for number in 0..100 {
        let _ = TestRequest::bearer(&unknown_key(&number.to_string()))
            .authenticate(&authenticator)
            .await;
    }
    assert!(is_accepted(&issuer, &authenticator).await);
    assert_eq!(issuer.fetches(), 6);
    // The rate limit also holds for an hour of unknown keys.
    for minute in 0..60 {
        advance(Duration::from_secs(60)).await;
        for number in 0..20 {
            let token = unknown_key(&format!("{minute}-{number}"));
            let _ = TestRequest::bearer(&token).authenticate(&authenticator).await;
        }
    }
    assert!(issuer.fetches() <= 6 + 6 * 60, "{}", issuer.fetches());
}

#[tokio::test(start_paused = true)]
async fn concurrent_callers_share_one_fetch() {
    let issuer = Issuer::new();
    issuer.set_delay(500);
    let authenticator = issuer.jwt();
    let tokens: Vec<String> = (0..200).map(|_| issuer.good_token()).collect();
    let requests: Vec<TestRequest> =
        tokens.iter().map(|token| TestRequest::bearer(token)).collect();
    let results =
        join_all(requests.iter().map(|request| request.authenticate(&authenticator))).await;
    assert!(results.iter().all(Result::is_ok));
    assert_eq!(issuer.fetches(), 1);
    // The first caller may go away.
    issuer.rotate("two");
    let request = TestRequest::bearer(&issuer.good_token());
    {
        let impatient = request.authenticate(&authenticator);
        tokio::select! { biased; _ = impatient => panic!(), () = sleep(Duration::from_millis(1)) => {} }
    }
    assert!(is_accepted(&issuer, &authenticator).await);
    assert_eq!(issuer.fetches(), 2);
}

#[tokio::test(start_paused = true)]
async fn cached_keys_bridge_an_outage_of_the_issuer() {
    let issuer = Issuer::new();
    let authenticator = issuer.jwt();
    assert!(is_accepted(&issuer, &authenticator).await);
    issuer.set_down(true);
    // The cached keys are fresh at first, then stale.
    for _ in 0..6 {
        advance(Duration::from_secs(600)).await;
        assert!(is_accepted(&issuer, &authenticator).await);
    }
    assert!(issuer.fetches() <= 7, "{}", issuer.fetches());
    // Stale keys are accepted for a limited time.
    advance(Duration::from_secs(600)).await;
    let denied =
        TestRequest::bearer(&issuer.good_token()).authenticate(&authenticator).await.unwrap_err();
    assert_eq!(denied.status, 503);
    for _ in 0..50 {
        let denied = TestRequest::bearer(&issuer.good_token())
            .authenticate(&authenticator)
            .await
            .unwrap_err();
        assert_eq!(denied.status, 503);
    }
    assert!(issuer.asked().len() < 30, "{}", issuer.asked().len());
    issuer.set_down(false);
    advance(Duration::from_secs(11)).await;
    assert!(is_accepted(&issuer, &authenticator).await);
}

#[tokio::test(start_paused = true)]
async fn keys_are_fetched_again_when_they_are_old() {
    let issuer = Issuer::new();
    let authenticator = issuer.jwt();
    let old = issuer.good_token();
    assert!(TestRequest::bearer(&old).authenticate(&authenticator).await.is_ok());
    issuer.rotate("two");
    advance(Duration::from_secs(301)).await;
    // Accepted once more during the refresh.
    assert!(TestRequest::bearer(&old).authenticate(&authenticator).await.is_ok());
    sleep(Duration::from_secs(61)).await;
    let result = TestRequest::bearer(&old).challenge(&authenticator).await;
    assert_eq!(result, invalid_token("The token is signed with an unknown key"));
}

#[tokio::test(start_paused = true)]
async fn a_token_without_a_key_id_is_tried() {
    let issuer = Issuer::new();
    issuer.add("two");
    let key = issuer.add("three");
    let authenticator = issuer.jwt();
    let token = key.sign(&json!({}), &good()).unwrap();
    assert!(TestRequest::bearer(&token).authenticate(&authenticator).await.is_ok());
    let foreign = SigningKey::generate().unwrap().sign(&json!({}), &good()).unwrap();
    let result = TestRequest::bearer(&foreign).challenge(&authenticator).await;
    assert_eq!(result, invalid_token("The token's signature is wrong"));
    assert_eq!(issuer.fetches(), 1, "{ISSUER} has keys that fit");
}

#[tokio::test(start_paused = true)]
async fn an_unknown_key_is_fetched_once() {
    let issuer = Issuer::new();
    let authenticator = issuer.jwt();
    assert!(is_accepted(&issuer, &authenticator).await);
    let before = issuer.fetches();
    assert!(TestRequest::bearer(&unknown_key("?")).authenticate(&authenticator).await.is_err());
    sleep(Duration::from_secs(1)).await;
    assert_eq!(issuer.fetches() - before, 1);
}

#[tokio::test(start_paused = true)]
async fn an_audience_need_not_be_a_url() {
    let issuer = Issuer::new();
    let authenticator = issuer.jwt();
    for audience in ["x://", "://", "", "https://", "x:///"] {
        let token = issuer.token_with("aud", json!(audience));
        let result = TestRequest::bearer(&token).challenge(&authenticator).await;
        assert_eq!(result, invalid_token("The token is for another audience"), "{audience}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_remote_issuer_cannot_point_to_loopback() {
    let issuer = Issuer::default();
    issuer.rotate("one");
    let at = "https://id.example/.well-known/oauth-authorization-server";
    let authenticator =
        || Jwt::issuer("https://id.example").audience(SERVER).download(issuer.clone());
    let token = issuer.token_with("iss", json!("https://id.example"));
    for (keys, works) in [
        ("http://127.0.0.1:8080/keys", false),
        ("http://localhost/keys", false),
        ("https://[::1]/keys", false),
        ("https://id.example/keys", true),
    ] {
        issuer.respond_with(at, json!({"issuer": "https://id.example", "jwks_uri": keys}));
        let result = TestRequest::bearer(&token).authenticate(&authenticator()).await;
        assert_eq!(result.is_ok(), works, "{keys}");
        assert!(works || !issuer.asked().contains(&keys.to_owned()), "{keys}");
    }
}
