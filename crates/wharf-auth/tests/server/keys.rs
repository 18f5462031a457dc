//! Issuer keys: discovery, cache, rotation, floods and outages.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;
use tokio::time::{advance, sleep};
use wharf_auth::{jose::SigningKey, server::Jwt};

use crate::bed::{ISSUER, Issuer, SERVER, UserAgentSession, good, invalid_token};

async fn enters(issuer: &Issuer, authority: &Jwt) -> bool {
    UserAgentSession::bearer(&issuer.good_token()).request(authority).await.is_ok()
}

fn unknown_key(kid: &str) -> String {
    SigningKey::generate().unwrap().sign(&json!({"kid": kid}), &good()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn metadata_is_looked_for_in_order() {
    let issuer = Issuer::default();
    issuer.turn("one");
    let tenant = "https://id.example/tenant";
    let authority = || Jwt::issuer(tenant).audience(SERVER).download(issuer.clone());
    let token = issuer.token_with("iss", json!(tenant));
    let asked = [
        "https://id.example/.well-known/oauth-authorization-server/tenant",
        "https://id.example/.well-known/openid-configuration/tenant",
        "https://id.example/tenant/.well-known/openid-configuration",
    ];
    let denied = UserAgentSession::bearer(&token).request(&authority()).await.unwrap_err();
    assert_eq!((denied.status, issuer.asked()), (503, asked.map(str::to_owned).to_vec()));
    assert_eq!(denied.headers["retry-after"], "5");
    assert!(!denied.headers.contains_key("www-authenticate"));
    // The last location is sufficient.
    issuer.says(asked[2], json!({"issuer": tenant, "jwks_uri": "https://id.example/keys"}));
    assert!(UserAgentSession::bearer(&token).request(&authority()).await.is_ok());
    // Metadata of another issuer is rejected.
    issuer.says(
        asked[2],
        json!({"issuer": "https://id.example", "jwks_uri": "https://id.example/keys"}),
    );
    assert_eq!(UserAgentSession::bearer(&token).request(&authority()).await.unwrap_err().status, 503);
    // A configured JWKS URL needs no discovery.
    let authority = authority().keys_at("https://id.example/own/keys");
    assert!(UserAgentSession::bearer(&token).request(&authority).await.is_ok());
    assert_eq!(issuer.asked().last().unwrap(), "https://id.example/own/keys");
}

#[tokio::test(start_paused = true)]
async fn keys_turn_without_a_gap() {
    let issuer = Issuer::new();
    let authority = issuer.jwt();
    assert!(enters(&issuer, &authority).await);
    // Rotation is noticed even right after a fetch for an unknown key.
    let verdict = UserAgentSession::bearer(&unknown_key("?")).challenge(&authority).await;
    assert_eq!(verdict, invalid_token("The token is signed with an unknown key"));
    let old = issuer.good_token();
    issuer.turn("two");
    assert!(enters(&issuer, &authority).await);
    // A withdrawn key is rejected, unless the token is cached.
    assert!(UserAgentSession::bearer(&old).request(&authority).await.is_err());
    assert_eq!(issuer.fetches(), 4, "each of the three that were unknown was asked for");
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_unknown_keys_is_not_passed_on() {
    let issuer = Issuer::new();
    let authority = issuer.jwt();
    assert!(enters(&issuer, &authority).await);
    for number in 0..500 {
        let token = unknown_key(&number.to_string());
        if number < 4 {
            let verdict = UserAgentSession::bearer(&token).challenge(&authority).await;
            assert_eq!(verdict, invalid_token("The token is signed with an unknown key"));
            continue;
        }
        // The key may exist, so the client must not discard its token.
        let denied = UserAgentSession::bearer(&token).request(&authority).await.unwrap_err();
        assert_eq!((denied.status, denied.headers.get("www-authenticate")), (503, None));
    }
    assert_eq!(issuer.fetches(), 5, "so many at once");
    // Known keys keep working, and rotation is noticed soon.
    assert!(enters(&issuer, &authority).await);
    issuer.turn("two");
    advance(Duration::from_secs(11)).await;
    for number in 0..100 {
        let _ = UserAgentSession::bearer(&unknown_key(&number.to_string())).request(&authority).await;
    }
    assert!(enters(&issuer, &authority).await);
    assert_eq!(issuer.fetches(), 6);
    // For an hour.
    for minute in 0..60 {
        advance(Duration::from_secs(60)).await;
        for number in 0..20 {
            let token = unknown_key(&format!("{minute}-{number}"));
            let _ = UserAgentSession::bearer(&token).request(&authority).await;
        }
    }
    assert!(issuer.fetches() <= 6 + 6 * 60, "{}", issuer.fetches());
}

#[tokio::test(start_paused = true)]
async fn those_who_wait_for_the_same_keys_wait_together() {
    let issuer = Issuer::new();
    issuer.takes(500);
    let authority = issuer.jwt();
    let tokens: Vec<String> = (0..200).map(|_| issuer.good_token()).collect();
    let visitors: Vec<UserAgentSession> =
        tokens.iter().map(|token| UserAgentSession::bearer(token)).collect();
    let verdicts = join_all(visitors.iter().map(|session| session.request(&authority))).await;
    assert!(verdicts.iter().all(Result::is_ok));
    assert_eq!(issuer.fetches(), 1);
    // The first caller may go away.
    issuer.turn("two");
    let session = UserAgentSession::bearer(&issuer.good_token());
    {
        let impatient = session.request(&authority);
        tokio::select! { biased; _ = impatient => panic!(), () = sleep(Duration::from_millis(1)) => {} }
    }
    assert!(enters(&issuer, &authority).await);
    assert_eq!(issuer.fetches(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_outage_is_survived_for_a_while() {
    let issuer = Issuer::new();
    let authority = issuer.jwt();
    assert!(enters(&issuer, &authority).await);
    issuer.breaks(true);
    // Fresh, then stale.
    for _ in 0..6 {
        advance(Duration::from_secs(600)).await;
        assert!(enters(&issuer, &authority).await);
    }
    assert!(issuer.fetches() <= 7, "{}", issuer.fetches());
    // Not without end.
    advance(Duration::from_secs(600)).await;
    let denied =
        UserAgentSession::bearer(&issuer.good_token()).request(&authority).await.unwrap_err();
    assert_eq!(denied.status, 503);
    for _ in 0..50 {
        let denied =
            UserAgentSession::bearer(&issuer.good_token()).request(&authority).await.unwrap_err();
        assert_eq!(denied.status, 503);
    }
    assert!(issuer.asked().len() < 30, "{}", issuer.asked().len());
    issuer.breaks(false);
    advance(Duration::from_secs(11)).await;
    assert!(enters(&issuer, &authority).await);
}

#[tokio::test(start_paused = true)]
async fn keys_are_fetched_again_when_they_are_old() {
    let issuer = Issuer::new();
    let authority = issuer.jwt();
    let old = issuer.good_token();
    assert!(UserAgentSession::bearer(&old).request(&authority).await.is_ok());
    issuer.turn("two");
    advance(Duration::from_secs(301)).await;
    // Accepted once more during the refresh.
    assert!(UserAgentSession::bearer(&old).request(&authority).await.is_ok());
    sleep(Duration::from_secs(61)).await;
    let verdict = UserAgentSession::bearer(&old).challenge(&authority).await;
    assert_eq!(verdict, invalid_token("The token is signed with an unknown key"));
}

#[tokio::test(start_paused = true)]
async fn a_token_without_a_key_id_is_tried() {
    let issuer = Issuer::new();
    issuer.add("two");
    let key = issuer.add("three");
    let authority = issuer.jwt();
    let token = key.sign(&json!({}), &good()).unwrap();
    assert!(UserAgentSession::bearer(&token).request(&authority).await.is_ok());
    let foreign = SigningKey::generate().unwrap().sign(&json!({}), &good()).unwrap();
    let verdict = UserAgentSession::bearer(&foreign).challenge(&authority).await;
    assert_eq!(verdict, invalid_token("The token's signature is wrong"));
    assert_eq!(issuer.fetches(), 1, "{ISSUER} has keys that fit");
}

#[tokio::test(start_paused = true)]
async fn an_unknown_key_is_asked_for_once() {
    let issuer = Issuer::new();
    let authority = issuer.jwt();
    assert!(enters(&issuer, &authority).await);
    let before = issuer.fetches();
    assert!(UserAgentSession::bearer(&unknown_key("?")).request(&authority).await.is_err());
    sleep(Duration::from_secs(1)).await;
    assert_eq!(issuer.fetches() - before, 1);
}

#[tokio::test(start_paused = true)]
async fn an_audience_may_be_anything() {
    let issuer = Issuer::new();
    let authority = issuer.jwt();
    for audience in ["x://", "://", "", "https://", "x:///"] {
        let token = issuer.token_with("aud", json!(audience));
        let verdict = UserAgentSession::bearer(&token).challenge(&authority).await;
        assert_eq!(verdict, invalid_token("The token is for another audience"), "{audience}");
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_elsewhere_says_what_is_on_this_machine() {
    let issuer = Issuer::default();
    issuer.turn("one");
    let at = "https://id.example/.well-known/oauth-authorization-server";
    let authority = || Jwt::issuer("https://id.example").audience(SERVER).download(issuer.clone());
    let token = issuer.token_with("iss", json!("https://id.example"));
    for (keys, works) in [
        ("http://127.0.0.1:8080/keys", false),
        ("http://localhost/keys", false),
        ("https://[::1]/keys", false),
        ("https://id.example/keys", true),
    ] {
        issuer.says(at, json!({"issuer": "https://id.example", "jwks_uri": keys}));
        let verdict = UserAgentSession::bearer(&token).request(&authority()).await;
        assert_eq!(verdict.is_ok(), works, "{keys}");
        assert!(works || !issuer.asked().contains(&keys.to_owned()), "{keys}");
    }
}
