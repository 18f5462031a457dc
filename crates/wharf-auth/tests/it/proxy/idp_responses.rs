//! Responses of the identity provider.

use std::{io, net::SocketAddr, time::Duration};

use serde_json::{Value, json};
use wharf_auth::{
    fetch::{Fetch, Resolve},
    proxy::{OAuthProxy, Provider, Upstream},
};
use wharf_model::BoxFuture;

use wharf_testbed::fake_idp::{Idp, IdpBehavior};

use crate::proxy::{browser_and_client::*, client_id_documents::Publisher};

/// Signs in with this behaviour of the provider; returns the final redirect.
async fn redirect_after(
    idp: &Idp,
    node: &ProxyNode,
    behavior: IdpBehavior,
    more: &str,
) -> url::Url {
    idp.behavior(behavior);
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
async fn id_tokens_are_validated() {
    let (idp, node) = setup().await;
    let claims = |claims: Value| IdpBehavior { claims, ..IdpBehavior::default() };
    for behavior in [
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
        IdpBehavior { foreign_key: true, ..IdpBehavior::default() },
    ] {
        let shown = behavior.claims.to_string();
        let end = redirect_after(&idp, &node, behavior, "").await;
        assert_eq!(parameter(&end, "error").as_deref(), Some("server_error"), "{shown}");
        assert_eq!(parameter(&end, "code"), None, "{shown}");
        assert_eq!(parameter(&end, "iss").as_deref(), Some(PUBLIC));
    }
    let fine = claims(json!({"aud": ["the-proxy", "other"], "azp": "the-proxy"}));
    assert!(parameter(&redirect_after(&idp, &node, fine, "").await, "code").is_some());
}

#[tokio::test]
async fn a_response_of_another_issuer_is_not_redeemed() {
    let (idp, node) = setup().await;
    let mixed_up =
        redirect_after(&idp, &node, IdpBehavior::default(), "&iss=https%3A%2F%2Fevil.example")
            .await;
    assert_eq!(parameter(&mixed_up, "error").as_deref(), Some("server_error"));
    assert!(idp.asked().is_empty(), "the code was not sent anywhere");
    let iss: String = url::form_urlencoded::byte_serialize(idp.url.as_bytes()).collect();
    let named = redirect_after(&idp, &node, IdpBehavior::default(), &format!("&iss={iss}")).await;
    assert!(parameter(&named, "code").is_some());

    let (idp, node) = setup().await;
    let behavior = || IdpBehavior { sends_iss: true, ..IdpBehavior::default() };
    let nameless = redirect_after(&idp, &node, behavior(), "").await;
    assert_eq!(parameter(&nameless, "error").as_deref(), Some("server_error"));
    let slash =
        redirect_after(&idp, &node, behavior(), &format!("&iss={}", "http%3A%2F%2F127.0.0.1%2F"))
            .await;
    assert_eq!(parameter(&slash, "error").as_deref(), Some("server_error"));
}

#[tokio::test]
async fn metadata_with_another_issuer_is_rejected() {
    let (idp, node) = setup().await;
    let behavior =
        IdpBehavior { issuer: Some("https://evil.example".into()), ..IdpBehavior::default() };
    let end = redirect_after(&idp, &node, behavior, "").await;
    assert_eq!(parameter(&end, "error").as_deref(), Some("temporarily_unavailable"));
    // The failure is cached, and the provider is asked again later.
    let end = redirect_after(&idp, &node, IdpBehavior::default(), "").await;
    assert_eq!(parameter(&end, "error").as_deref(), Some("temporarily_unavailable"));
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(6)).await;
    tokio::time::resume();
    assert!(
        parameter(&redirect_after(&idp, &node, IdpBehavior::default(), "").await, "code").is_some()
    );
}

#[tokio::test]
async fn provider_errors_are_reported_without_details() {
    let (idp, node) = setup().await;
    let refused = json!({"error": "invalid_client", "error_description": "secret s3cret is wrong"});
    for error in
        [(401, refused.clone()), (200, refused), (500, json!("stack trace")), (200, json!({}))]
    {
        let behavior = IdpBehavior { token_error: Some(error), ..IdpBehavior::default() };
        let end = redirect_after(&idp, &node, behavior, "").await;
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
    let (idp, node) = setup().await;
    assert!(
        parameter(&redirect_after(&idp, &node, IdpBehavior::default(), "").await, "code").is_some()
    );
    idp.rotate();
    assert!(
        parameter(&redirect_after(&idp, &node, IdpBehavior::default(), "").await, "code").is_some()
    );
    // Not for each token; but again after the interval.
    idp.rotate();
    let early = redirect_after(&idp, &node, IdpBehavior::default(), "").await;
    assert_eq!(parameter(&early, "error").as_deref(), Some("server_error"));
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(11)).await;
    tokio::time::resume();
    assert!(
        parameter(&redirect_after(&idp, &node, IdpBehavior::default(), "").await, "code").is_some()
    );
}

#[tokio::test]
async fn one_process_renews_upstream_tokens_for_all() {
    let idp = Idp::start().await;
    let stores = wharf_store::memory_stores();
    let [one, two] = [(), ()].map(|()| ProxyNode::new(proxy(&idp), &stores));
    idp.behavior(IdpBehavior { expires_in: Some(10), ..IdpBehavior::default() });
    let client = one.client("Crane", REDIRECT).await;
    let tokens = one.sign_in(&idp, &client, "alice").await;
    let access = text(&tokens, "access_token");
    let user = async |node: &ProxyNode| {
        node.call(&access).await.unwrap().extensions.get::<Upstream>().unwrap().clone()
    };
    idp.behavior(IdpBehavior { expires_in: Some(3600), ..IdpBehavior::default() });
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
async fn lost_upstream_access_is_reported() {
    let (idp, node) = setup().await;
    idp.behavior(IdpBehavior { expires_in: Some(10), ..IdpBehavior::default() });
    let client = node.client("Crane", REDIRECT).await;
    let tokens = node.sign_in(&idp, &client, "alice").await;
    let pass = node.call(&text(&tokens, "access_token")).await.unwrap();
    let user = pass.extensions.get::<Upstream>().unwrap();
    idp.behavior(IdpBehavior {
        token_error: Some((400, json!({"error": "invalid_grant"}))),
        ..IdpBehavior::default()
    });
    let error = user.token().await.unwrap_err();
    assert!(error.message.contains("sign in again"), "{error}");
}

/// Truncated claims must not decide about access.
#[tokio::test]
async fn oversized_claims_are_rejected() {
    let (idp, node) = setup().await;
    let behavior =
        IdpBehavior { claims: json!({"groups": "x".repeat(17_000)}), ..IdpBehavior::default() };
    let end = redirect_after(&idp, &node, behavior, "").await;
    assert_eq!(parameter(&end, "error").as_deref(), Some("server_error"));
}

#[tokio::test]
async fn only_verified_email_addresses_are_returned() {
    let (idp, node) = setup().await;
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
        idp.behavior(IdpBehavior { claims, ..IdpBehavior::default() });
        let tokens = node.sign_in(&idp, &client, "alice").await;
        let pass = node.call(&text(&tokens, "access_token")).await.unwrap();
        let user = pass.extensions.get::<Upstream>().unwrap();
        assert_eq!(user.identity().email().is_some(), counts, "{verified}");
    }
}

/// A user without access at the provider loses access here.
#[tokio::test]
async fn a_grant_ends_with_access_at_the_provider() {
    let (idp, node) = setup().await;
    idp.behavior(IdpBehavior { expires_in: Some(3600), ..IdpBehavior::default() });
    let client = node.client("Crane", REDIRECT).await;
    let tokens = node.sign_in(&idp, &client, "alice").await;
    let says = |status: u16, error: &str| IdpBehavior {
        token_error: Some((status, json!({"error": error}))),
        ..IdpBehavior::default()
    };
    // A failing provider does not revoke access.
    idp.behavior(says(503, "temporarily_unavailable"));
    let tokens = node.refresh(&client, &text(&tokens, "refresh_token")).await.json();
    assert!(node.call(&text(&tokens, "access_token")).await.is_ok(), "{tokens}");
    idp.behavior(says(400, "invalid_grant"));
    let page = node.refresh(&client, &text(&tokens, "refresh_token")).await;
    assert_eq!(page.error(), "invalid_grant");
    assert!(node.call(&text(&tokens, "access_token")).await.is_err());
    // The error code of GitHub.
    idp.behavior(IdpBehavior { expires_in: Some(3600), ..IdpBehavior::default() });
    let tokens = node.sign_in(&idp, &client, "alice").await;
    idp.behavior(says(200, "bad_refresh_token"));
    let page = node.refresh(&client, &text(&tokens, "refresh_token")).await;
    assert_eq!(page.error(), "invalid_grant");
    assert!(node.call(&text(&tokens, "access_token")).await.is_err());
}

/// A client may refresh often without flooding the provider.
#[tokio::test]
async fn refreshes_do_not_flood_the_provider() {
    let (idp, node) = setup().await;
    idp.behavior(IdpBehavior { expires_in: Some(3600), ..IdpBehavior::default() });
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
async fn upstream_returns_the_newest_token() {
    let (idp, node) = setup().await;
    idp.behavior(IdpBehavior { expires_in: Some(3600), ..IdpBehavior::default() });
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
struct LoopbackResolver;

impl Resolve for LoopbackResolver {
    fn resolve(&self, _: &str, port: u16) -> BoxFuture<io::Result<Vec<SocketAddr>>> {
        Box::pin(async move { Ok(vec![SocketAddr::from(([127, 0, 0, 1], port))]) })
    }
}

/// Metadata of a remote provider must not lead to loopback (SSRF), nor the browser to an unencrypted page.
#[tokio::test]
async fn a_remote_provider_cannot_point_to_loopback() {
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
        let fetch =
            Fetch::new().allow_private().resolver(LoopbackResolver).trust_pem(&site.pem).unwrap();
        let provider = Provider::oidc(&issuer, "id", "secret");
        let proxy = OAuthProxy::new(PUBLIC, provider).fetch(fetch);
        let node = ProxyNode::new(proxy, &wharf_store::memory_stores());
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
