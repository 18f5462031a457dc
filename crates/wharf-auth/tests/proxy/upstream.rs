//! Responses of the identity provider.

use std::{io, net::SocketAddr, time::Duration};

use serde_json::{Value, json};
use wharf_auth::{
    fetch::{Fetch, Resolve},
    proxy::{OAuthProxy, Provider, Upstream},
};
use wharf_model::BoxFuture;

use crate::{
    documents::Publisher,
    idp::{Idp, Mood},
    world::*,
};

/// Signs in with this behaviour of the provider; returns the final redirect.
async fn end_of(idp: &Idp, node: &Node, mood: Mood, more: &str) -> url::Url {
    idp.mood(mood);
    let client = node.client("Crane", REDIRECT).await;
    let mut browser = Browser::default();
    let page = browser.get(node, &authorize(&client, &[])).await;
    let signing_in = browser.answer(node, &page, "allow").await.link();
    if signing_in.as_str().starts_with(REDIRECT) {
        return signing_in;
    }
    let back = idp.sign_in(&signing_in, "alice");
    browser.get(node, &format!("{}{more}", target(&back))).await.location()
}

#[tokio::test]
async fn an_id_token_is_for_us_from_there_of_now_and_of_this_sign_in() {
    let (idp, node) = world().await;
    let claims = |claims: Value| Mood { claims, ..Mood::default() };
    for mood in [
        claims(json!({"iss": "https://evil.example"})),
        claims(json!({"iss": null})),
        claims(json!({"aud": "another-client"})),
        claims(json!({"aud": ["another-client"]})),
        claims(json!({"aud": ["the-proxy", "another-client"]})),
        claims(json!({"azp": "another-client"})),
        claims(json!({"exp": 1_000_000})),
        claims(json!({"exp": null})),
        claims(json!({"iat": 99_999_999_999_u64})),
        claims(json!({"nonce": "of another sign-in"})),
        claims(json!({"nonce": null})),
        claims(json!({"sub": null})),
        claims(json!({"sub": ""})),
        Mood { foreign_key: true, ..Mood::default() },
    ] {
        let shown = mood.claims.to_string();
        let end = end_of(&idp, &node, mood, "").await;
        assert_eq!(parameter(&end, "error").as_deref(), Some("server_error"), "{shown}");
        assert_eq!(parameter(&end, "code"), None, "{shown}");
        assert_eq!(parameter(&end, "iss").as_deref(), Some(PUBLIC));
    }
    let fine = claims(json!({"aud": ["the-proxy", "other"], "azp": "the-proxy"}));
    assert!(parameter(&end_of(&idp, &node, fine, "").await, "code").is_some());
}

#[tokio::test]
async fn an_answer_of_another_issuer_is_not_redeemed() {
    let (idp, node) = world().await;
    let mixed_up = end_of(&idp, &node, Mood::default(), "&iss=https%3A%2F%2Fevil.example").await;
    assert_eq!(parameter(&mixed_up, "error").as_deref(), Some("server_error"));
    assert!(idp.asked().is_empty(), "the code was not sent anywhere");
    let iss: String = url::form_urlencoded::byte_serialize(idp.url.as_bytes()).collect();
    let named = end_of(&idp, &node, Mood::default(), &format!("&iss={iss}")).await;
    assert!(parameter(&named, "code").is_some());

    let (idp, node) = world().await;
    let mood = || Mood { names_itself: true, ..Mood::default() };
    let nameless = end_of(&idp, &node, mood(), "").await;
    assert_eq!(parameter(&nameless, "error").as_deref(), Some("server_error"));
    let slash = end_of(&idp, &node, mood(), &format!("&iss={}", "http%3A%2F%2F127.0.0.1%2F")).await;
    assert_eq!(parameter(&slash, "error").as_deref(), Some("server_error"));
}

#[tokio::test]
async fn a_provider_that_calls_itself_something_else_is_not_asked() {
    let (idp, node) = world().await;
    let mood = Mood { issuer: Some("https://evil.example".into()), ..Mood::default() };
    let end = end_of(&idp, &node, mood, "").await;
    assert_eq!(parameter(&end, "error").as_deref(), Some("temporarily_unavailable"));
    // The failure is cached, and the provider is asked again later.
    let end = end_of(&idp, &node, Mood::default(), "").await;
    assert_eq!(parameter(&end, "error").as_deref(), Some("temporarily_unavailable"));
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(6)).await;
    tokio::time::resume();
    assert!(parameter(&end_of(&idp, &node, Mood::default(), "").await, "code").is_some());
}

#[tokio::test]
async fn what_goes_wrong_there_is_told_without_details() {
    let (idp, node) = world().await;
    let refused = json!({"error": "invalid_client", "error_description": "secret s3cret is wrong"});
    for error in
        [(401, refused.clone()), (200, refused), (500, json!("stack trace")), (200, json!({}))]
    {
        let mood = Mood { token_error: Some(error), ..Mood::default() };
        let end = end_of(&idp, &node, mood, "").await;
        assert_eq!(parameter(&end, "error").as_deref(), Some("server_error"));
        assert!(!end.as_str().contains("s3cret") && !end.as_str().contains("stack"), "{end}");
    }
    let client = node.client("Crane", REDIRECT).await;
    for (theirs, ours) in [
        ("access_denied", "access_denied"),
        ("invalid_scope", "server_error"),
        ("<script>", "server_error"),
    ] {
        let mut browser = Browser::default();
        let page = browser.get(&node, &authorize(&client, &[])).await;
        let signing_in = browser.answer(&node, &page, "allow").await.link();
        let state = parameter(&signing_in, "state").unwrap();
        let query =
            form(&[("error", theirs), ("error_description", "inner secrets"), ("state", &state)]);
        let end = browser.get(&node, &format!("/callback?{query}")).await.location();
        assert_eq!(parameter(&end, "error").as_deref(), Some(ours));
        assert!(!end.as_str().contains("inner"), "{end}");
    }
}

#[tokio::test]
async fn keys_that_change_are_fetched_again() {
    let (idp, node) = world().await;
    assert!(parameter(&end_of(&idp, &node, Mood::default(), "").await, "code").is_some());
    idp.rotate();
    assert!(parameter(&end_of(&idp, &node, Mood::default(), "").await, "code").is_some());
    // Not for each token; but again after the interval.
    idp.rotate();
    let early = end_of(&idp, &node, Mood::default(), "").await;
    assert_eq!(parameter(&early, "error").as_deref(), Some("server_error"));
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(11)).await;
    tokio::time::resume();
    assert!(parameter(&end_of(&idp, &node, Mood::default(), "").await, "code").is_some());
}

#[tokio::test]
async fn tokens_of_the_provider_are_renewed_by_one_for_all() {
    let idp = Idp::start().await;
    let stores = wharf_store::memory_stores();
    let [one, two] = [(), ()].map(|()| Node::new(proxy(&idp), &stores));
    idp.mood(Mood { expires_in: Some(10), ..Mood::default() });
    let client = one.client("Crane", REDIRECT).await;
    let tokens = one.sign_in(&idp, &client, "alice").await;
    let access = text(&tokens, "access_token");
    let user = async |node: &Node| {
        node.call(&access).await.unwrap().extensions.get::<Upstream>().unwrap().clone()
    };
    idp.mood(Mood { expires_in: Some(3600), ..Mood::default() });
    let users = [user(&one).await, user(&two).await, user(&one).await, user(&two).await];
    let all = users.map(|user| tokio::spawn(async move { user.token().await.unwrap() }));
    let mut seen = Vec::new();
    for token in all {
        seen.push(token.await.unwrap().secret().to_owned());
    }
    assert!(seen.iter().all(|token| *token == seen[0]), "all have the same, new one");
    let renewals = idp.asked().iter().filter(|it| it["grant_type"] == "refresh_token").count();
    assert_eq!(renewals, 1);
    // The next call uses it at once, and the client's own tokens are unchanged.
    assert_eq!(user(&two).await.token().await.unwrap().secret(), seen[0]);
    assert_eq!(one.refresh(&client, &text(&tokens, "refresh_token")).await.status, 200);
}

#[tokio::test]
async fn who_must_sign_in_again_is_told_so() {
    let (idp, node) = world().await;
    idp.mood(Mood { expires_in: Some(10), ..Mood::default() });
    let client = node.client("Crane", REDIRECT).await;
    let tokens = node.sign_in(&idp, &client, "alice").await;
    let pass = node.call(&text(&tokens, "access_token")).await.unwrap();
    let user = pass.extensions.get::<Upstream>().unwrap();
    idp.mood(Mood {
        token_error: Some((400, json!({"error": "invalid_grant"}))),
        ..Mood::default()
    });
    let error = user.token().await.unwrap_err();
    assert!(error.message.contains("sign in again"), "{error}");
}

/// Truncated claims must not decide about access.
#[tokio::test]
async fn who_is_said_too_much_about_is_not_let_in() {
    let (idp, node) = world().await;
    let mood = Mood { claims: json!({"groups": "x".repeat(17_000)}), ..Mood::default() };
    let end = end_of(&idp, &node, mood, "").await;
    assert_eq!(parameter(&end, "error").as_deref(), Some("server_error"));
}

#[tokio::test]
async fn an_address_counts_only_if_it_was_verified() {
    let (idp, node) = world().await;
    let client = node.client("Crane", REDIRECT).await;
    for (verified, counts) in [
        (json!(true), true),
        (json!("true"), true),
        (json!(false), false),
        (json!("false"), false),
        (json!(1), false),
        (json!(null), false),
    ] {
        let claims = json!({ "email_verified": verified });
        idp.mood(Mood { claims, ..Mood::default() });
        let tokens = node.sign_in(&idp, &client, "alice").await;
        let pass = node.call(&text(&tokens, "access_token")).await.unwrap();
        let user = pass.extensions.get::<Upstream>().unwrap();
        assert_eq!(user.identity().email().is_some(), counts, "{verified}");
    }
}

/// A user without access at the provider loses access here.
#[tokio::test]
async fn a_grant_ends_with_access_at_the_provider() {
    let (idp, node) = world().await;
    idp.mood(Mood { expires_in: Some(3600), ..Mood::default() });
    let client = node.client("Crane", REDIRECT).await;
    let tokens = node.sign_in(&idp, &client, "alice").await;
    let says = |status: u16, error: &str| Mood {
        token_error: Some((status, json!({"error": error}))),
        ..Mood::default()
    };
    // A failing provider does not revoke access.
    idp.mood(says(503, "temporarily_unavailable"));
    let tokens = node.refresh(&client, &text(&tokens, "refresh_token")).await.json();
    assert!(node.call(&text(&tokens, "access_token")).await.is_ok(), "{tokens}");
    idp.mood(says(400, "invalid_grant"));
    let page = node.refresh(&client, &text(&tokens, "refresh_token")).await;
    assert_eq!(page.error(), "invalid_grant");
    assert!(node.call(&text(&tokens, "access_token")).await.is_err());
    // The error code of GitHub.
    idp.mood(Mood { expires_in: Some(3600), ..Mood::default() });
    let tokens = node.sign_in(&idp, &client, "alice").await;
    idp.mood(says(200, "bad_refresh_token"));
    let page = node.refresh(&client, &text(&tokens, "refresh_token")).await;
    assert_eq!(page.error(), "invalid_grant");
    assert!(node.call(&text(&tokens, "access_token")).await.is_err());
}

/// A client may refresh often without flooding the provider.
#[tokio::test]
async fn the_provider_is_not_asked_each_time_that_a_client_renews() {
    let (idp, node) = world().await;
    idp.mood(Mood { expires_in: Some(3600), ..Mood::default() });
    let client = node.client("Crane", REDIRECT).await;
    let mut tokens = node.sign_in(&idp, &client, "alice").await;
    let before = idp.asked().len();
    let mut renew = async || {
        for _ in 0..5 {
            let page = node.refresh(&client, &text(&tokens, "refresh_token")).await;
            assert_eq!(page.status, 200, "{}", page.text);
            tokens = page.json();
        }
    };
    renew().await;
    assert_eq!(idp.asked().len() - before, 1);
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(31)).await;
    tokio::time::resume();
    renew().await;
    assert_eq!(idp.asked().len() - before, 2);
}

/// Some providers revoke a token when they issue a new one, so older handles return the new one.
#[tokio::test]
async fn who_acts_for_the_user_has_the_newest_token() {
    let (idp, node) = world().await;
    idp.mood(Mood { expires_in: Some(3600), ..Mood::default() });
    let client = node.client("Crane", REDIRECT).await;
    let tokens = node.sign_in(&idp, &client, "alice").await;
    let before = node.call(&text(&tokens, "access_token")).await.unwrap();
    let before = before.extensions.get::<Upstream>().unwrap();
    let old = before.token().await.unwrap();
    let renewed = node.refresh(&client, &text(&tokens, "refresh_token")).await.json();
    let after = node.call(&text(&renewed, "access_token")).await.unwrap();
    let new = after.extensions.get::<Upstream>().unwrap().token().await.unwrap();
    assert_ne!(old, new);
    assert_eq!(before.token().await.unwrap(), new);
}

/// Resolves every name to loopback.
struct Here;

impl Resolve for Here {
    fn resolve(&self, _: &str, port: u16) -> BoxFuture<io::Result<Vec<SocketAddr>>> {
        Box::pin(async move { Ok(vec![SocketAddr::from(([127, 0, 0, 1], port))]) })
    }
}

/// Metadata of a remote provider must not lead to loopback (SSRF), nor the browser to an unencrypted page.
#[tokio::test]
async fn no_provider_elsewhere_says_what_is_on_this_machine() {
    let site = Publisher::called("id.example").await;
    let issuer = site.id.trim_end_matches("/client.json").to_owned();
    let good = json!({
        "issuer": issuer,
        "authorization_endpoint": format!("{issuer}/authorize"),
        "token_endpoint": format!("{issuer}/token"),
        "jwks_uri": format!("{issuer}/jwks"),
    });
    let insecure = format!("{issuer}/authorize").replace("https:", "http:");
    for (changed, works) in [
        (None, true),
        (Some(("authorization_endpoint", "http://127.0.0.1:8080/authorize")), false),
        (Some(("authorization_endpoint", "https://localhost/authorize")), false),
        (Some(("authorization_endpoint", &*insecure)), false),
        (Some(("token_endpoint", "http://localhost:8080/token")), false),
        (Some(("jwks_uri", "https://[::1]/jwks")), false),
    ] {
        let mut said = good.clone();
        if let Some((name, url)) = changed {
            said[name] = json!(url);
        }
        *site.document.lock().unwrap() = said;
        let fetch = Fetch::new().allow_private().resolver(Here).trust_pem(&site.pem).unwrap();
        let provider = Provider::oidc(&issuer, "id", "secret");
        let proxy = OAuthProxy::new(PUBLIC, provider).fetch(fetch);
        let node = Node::new(proxy, &wharf_store::memory_stores());
        let client = node.client("Crane", REDIRECT).await;
        let mut browser = Browser::default();
        let page = browser.get(&node, &authorize(&client, &[])).await;
        let onward = browser.answer(&node, &page, "allow").await.link();
        if works {
            assert!(onward.as_str().starts_with(&format!("{issuer}/authorize?")), "{onward}");
        } else {
            // Back to the client, which may retry later.
            assert!(onward.as_str().starts_with(REDIRECT), "{changed:?}: {onward}");
            let error = parameter(&onward, "error");
            assert_eq!(error.as_deref(), Some("temporarily_unavailable"), "{changed:?}");
        }
    }
}
