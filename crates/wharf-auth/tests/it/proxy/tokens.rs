//! Codes, tokens and grants: single use, expiry, revocation.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use http::header;
use serde_json::{Value, json};
use wharf_model::{Authenticator, StateCipher};
use wharf_server::KeyRing;

use wharf_testbed::fake_idp::Idp;

use crate::proxy::browser_and_client::*;

#[tokio::test]
async fn reuse_of_a_code_revokes_the_grant() {
    let (idp, node) = setup().await;
    let client = node.client("Crane", REDIRECT).await;
    let code = node.code(&idp, &client, "alice").await;
    let tokens = node.redeem(&client, &code).await.json();
    assert!(node.call(&text(&tokens, "access_token")).await.is_ok());
    assert_eq!(node.redeem(&client, &code).await.error(), "invalid_grant");
    assert!(node.call(&text(&tokens, "access_token")).await.is_err());
    let page = node.refresh(&client, &text(&tokens, "refresh_token")).await;
    assert_eq!(page.error(), "invalid_grant");
}

#[tokio::test]
async fn concurrent_redemptions_yield_at_most_one_grant() {
    let (idp, node) = setup().await;
    let client = node.client("Crane", REDIRECT).await;
    let code = node.code(&idp, &client, "alice").await;
    let tries = (0..8).map(|_| {
        let (node, client, code) = (node.clone(), client.clone(), code.clone());
        tokio::spawn(async move { node.redeem(&client, &code).await })
    });
    let mut given = 0;
    for page in tries.collect::<Vec<_>>() {
        given += usize::from(page.await.unwrap().status == 200);
    }
    assert!(given <= 1);
}

#[tokio::test]
async fn a_code_is_bound_to_client_redirect_uri_and_verifier() {
    let (idp, node) = setup().await;
    let client = node.client("Crane", REDIRECT).await;
    let other = node.client("Other", REDIRECT).await;
    let code = node.code(&idp, &client, "alice").await;
    let fields = |client, redirect, verifier| {
        [
            ("grant_type", "authorization_code"),
            ("client_id", client),
            ("code", &*code),
            ("redirect_uri", redirect),
            ("code_verifier", verifier),
        ]
    };
    let challenge = wharf_auth::jose::b64(wharf_auth::jose::sha256(VERIFIER.as_bytes()));
    for wrong in [
        fields(&other, REDIRECT, VERIFIER),
        fields("https://app.example.com/client.json", REDIRECT, VERIFIER),
        fields(&client, "https://app.example.com/cb/", VERIFIER),
        fields(&client, REDIRECT, "another-verifier-that-is-quite-as-long-as-it"),
        fields(&client, REDIRECT, &challenge),
        fields(&client, REDIRECT, "short"),
    ] {
        assert_eq!(node.token(&wrong).await.error(), "invalid_grant", "{wrong:?}");
    }
    let good = fields(&client, REDIRECT, VERIFIER);
    assert_eq!(node.token(&good[..4]).await.error(), "invalid_request", "no verifier");
    assert_eq!(node.token(&fields(&client, REDIRECT, "")).await.error(), "invalid_request");
    let mut elsewhere = good.to_vec();
    elsewhere.push(("resource", "https://other.example.com/mcp"));
    assert_eq!(node.token(&elsewhere).await.error(), "invalid_target");
    let mut twice = good.to_vec();
    twice.push(("code", "x"));
    assert_eq!(node.token(&twice).await.error(), "invalid_request");
    assert_eq!(
        node.token(&[("client_id", &client), ("grant_type", "password")]).await.error(),
        "unsupported_grant_type"
    );
    let json = node
        .send(http::Method::POST, "/token", &[("content-type", "application/json")], "{}")
        .await;
    assert_eq!(json.error(), "invalid_request");
    // None of these attempts consumed the code.
    let mut right = good.to_vec();
    right.push(("resource", "https://harbour.example.com/mcp"));
    assert_eq!(node.token(&right).await.status, 200);
}

#[tokio::test]
async fn reuse_of_a_refresh_token_revokes_the_grant() {
    let (idp, node) = setup().await;
    let client = node.client("Crane", REDIRECT).await;
    let first = node.sign_in(&idp, &client, "alice").await;
    let second = node.refresh(&client, &text(&first, "refresh_token")).await.json();
    let third = node.refresh(&client, &text(&second, "refresh_token")).await.json();
    for tokens in [&first, &second, &third] {
        assert!(node.call(&text(tokens, "access_token")).await.is_ok(), "until they end");
    }
    // Forged tokens revoke nothing.
    let genuine = text(&third, "refresh_token");
    let (start, _) = genuine.rsplit_once('.').unwrap();
    let (id, _) = start.split_once('.').unwrap();
    let other = node.client("Other", REDIRECT).await;
    for (client, token) in [
        (&client, format!("{id}.AAAAAAAAAAAAAAAAAAAAAA.{}", "A".repeat(43))),
        (&client, "wharf_rt_x.y.z".into()),
        (&client, "wharf_rt_".into()),
        (&client, text(&third, "access_token")),
        (&other, genuine.clone()),
    ] {
        assert_eq!(node.refresh(client, &token).await.error(), "invalid_grant");
    }
    assert!(node.call(&text(&third, "access_token")).await.is_ok());
    // A rotated one does.
    let old = node.refresh(&client, &text(&first, "refresh_token")).await;
    assert_eq!(old.error(), "invalid_grant");
    assert_eq!(node.refresh(&client, &genuine).await.error(), "invalid_grant");
    for tokens in [&first, &second, &third] {
        assert!(node.call(&text(tokens, "access_token")).await.is_err());
    }
}

#[tokio::test]
async fn a_refresh_may_narrow_but_not_widen_the_scopes() {
    let (idp, node) = setup().await;
    let client = node.client("Crane", REDIRECT).await;
    let tokens = node.sign_in(&idp, &client, "alice").await;
    let refresh = text(&tokens, "refresh_token");
    let with = |scope| {
        [
            ("grant_type", "refresh_token"),
            ("client_id", &*client),
            ("refresh_token", &*refresh),
            ("scope", scope),
        ]
    };
    assert_eq!(node.token(&with("files:read admin")).await.error(), "invalid_scope");
    let less = node.token(&with("files:read")).await.json();
    assert_eq!(less["scope"], "files:read");
    let pass = node.call(&text(&less, "access_token")).await.unwrap();
    assert_eq!(pass.principal.scopes().collect::<Vec<_>>(), ["files:read"]);
    let all = node.refresh(&client, &text(&less, "refresh_token")).await.json();
    assert_eq!(all["scope"], "files:read files:write");
}

#[tokio::test]
async fn codes_tokens_and_clients_expire() {
    let (idp, node) = setup().await;
    let client = node.client("Crane", REDIRECT).await;
    let code = node.code(&idp, &client, "alice").await;
    let tokens = node.sign_in(&idp, &client, "alice").await;
    let until = node.call(&text(&tokens, "access_token")).await.unwrap().until.unwrap();
    let left = until.duration_since(std::time::SystemTime::now()).unwrap();
    assert!((3500..=3600).contains(&left.as_secs()), "{left:?}");
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(61)).await;
    assert_eq!(node.redeem(&client, &code).await.error(), "invalid_grant");
    assert!(node.call(&text(&tokens, "access_token")).await.is_ok());
    tokio::time::advance(Duration::from_secs(3540)).await;
    let denied = node.call(&text(&tokens, "access_token")).await.unwrap_err();
    assert!(denied.headers[header::WWW_AUTHENTICATE].to_str().unwrap().contains("invalid_token"));
    let newer = node.refresh(&client, &text(&tokens, "refresh_token")).await.json();
    assert!(node.call(&text(&newer, "access_token")).await.is_ok());
    tokio::time::advance(Duration::from_secs(29 * 24 * 3600)).await;
    let newer = node.refresh(&client, &text(&newer, "refresh_token")).await.json();
    assert!(node.call(&text(&newer, "access_token")).await.is_ok(), "a refresh extends the grant");
    tokio::time::advance(Duration::from_secs(30 * 24 * 3600 + 1)).await;
    let page = node.refresh(&client, &text(&newer, "refresh_token")).await;
    assert_eq!(page.error(), "invalid_grant");
    // The registration lasts longer, and then expires too.
    assert_eq!(node.get(&authorize(&client, &[])).await.status, 200);
    tokio::time::advance(Duration::from_secs(61 * 24 * 3600)).await;
    assert_eq!(node.get(&authorize(&client, &[])).await.status, 400);
}

#[tokio::test]
async fn a_token_of_another_resource_is_rejected() {
    let idp = Idp::start().await;
    let stores = wharf_store::memory_stores();
    let here = ProxyNode::new(proxy(&idp), &stores);
    let there = ProxyNode::new(proxy(&idp).resource("https://harbour.example.com/other"), &stores);
    let client = here.client("Crane", REDIRECT).await;
    let tokens = here.sign_in(&idp, &client, "alice").await;
    let token = text(&tokens, "access_token");
    assert!(here.call(&token).await.is_ok());
    assert!(there.call(&token).await.is_err(), "one store, two resources");
    let (grant, _) = token.split_once('.').unwrap();
    assert!(
        here.call(&format!("{grant}.{}", "A".repeat(43))).await.is_err(),
        "grant id without its secret"
    );
    let upstream = "upstream-token-of-the-provider";
    assert!(here.call(upstream).await.is_err(), "nothing is passed through");
    assert!(here.call(&text(&tokens, "refresh_token")).await.is_err());
}

#[tokio::test]
async fn a_client_can_revoke_its_tokens() {
    let (idp, node) = setup().await;
    let client = node.client("Crane", REDIRECT).await;
    let other = node.client("Other", REDIRECT).await;
    let tokens = node.sign_in(&idp, &client, "alice").await;
    let (access, refresh) = (text(&tokens, "access_token"), text(&tokens, "refresh_token"));
    let revoke = async |client: &str, token: &str| {
        node.post("/revoke", &[], &[("client_id", client), ("token", token)]).await.status
    };
    assert_eq!(revoke(&other, &access).await, 200);
    assert_eq!(revoke(&other, &refresh).await, 200);
    assert_eq!(revoke(&client, "unknown").await, 200);
    assert!(node.call(&access).await.is_ok(), "other clients cannot revoke it");
    assert_eq!(revoke("nobody", &access).await, 401);

    assert_eq!(revoke(&client, &access).await, 200);
    assert!(node.call(&access).await.is_err());
    let newer = node.refresh(&client, &refresh).await.json();
    assert!(node.call(&text(&newer, "access_token")).await.is_ok());
    assert_eq!(revoke(&client, &text(&newer, "refresh_token")).await, 200);
    assert!(node.call(&text(&newer, "access_token")).await.is_err());
    assert_eq!(
        node.refresh(&client, &text(&newer, "refresh_token")).await.error(),
        "invalid_grant"
    );
}

#[tokio::test]
async fn grants_per_user_are_limited() {
    let (idp, node) = setup().await;
    let client = node.client("Crane", REDIRECT).await;
    let first = node.sign_in(&idp, &client, "alice").await;
    let bob = node.sign_in(&idp, &client, "bob").await;
    for _ in 0..64 {
        node.sign_in(&idp, &client, "alice").await;
    }
    assert!(node.call(&text(&first, "access_token")).await.is_err(), "the oldest ended");
    assert!(node.call(&text(&bob, "access_token")).await.is_ok());
}

#[tokio::test]
async fn the_grant_function_of_the_operator_decides_about_access() {
    use std::sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    };
    let idp = Idp::start().await;
    let fired = Arc::new(AtomicBool::new(false));
    let is_fired = fired.clone();
    let proxy = proxy(&idp).grant(move |who, asked| {
        let is_here = who.subject == "alice" && !is_fired.load(Ordering::SeqCst);
        // Scopes beyond the request are not granted.
        is_here.then(|| {
            let mut granted = asked.clone();
            granted.remove("files:write");
            granted.insert("admin".into());
            granted
        })
    });
    let node = ProxyNode::new(proxy, &wharf_store::memory_stores());
    let client = node.client("Crane", REDIRECT).await;
    let tokens = node.sign_in(&idp, &client, "alice").await;
    assert_eq!(tokens["scope"], "files:read");

    let mut browser = Browser::default();
    let page = browser.get(&node, &authorize(&client, &[])).await;
    let back = idp.sign_in(&browser.answer(&node, &page, "allow").await.link(), "mallory");
    let page = browser.get(&node, &target(&back)).await;
    assert_eq!(page.parameter("error").as_deref(), Some("access_denied"));
    assert_eq!(page.parameter("code"), None);

    fired.store(true, Ordering::SeqCst);
    let page = node.refresh(&client, &text(&tokens, "refresh_token")).await;
    assert_eq!(page.json()["error"], json!("invalid_grant"));
    assert!(node.call(&text(&tokens, "access_token")).await.is_err());
}

/// The grant lifetime is bounded, however often it is refreshed.
#[tokio::test(start_paused = true)]
async fn a_grant_does_not_last_for_ever() {
    let idp = Idp::start().await;
    let day = std::time::Duration::from_secs(24 * 3600);
    let proxy = proxy(&idp).grant_ttl(day * 2);
    let node = ProxyNode::new(proxy, &wharf_store::memory_stores());
    let client = node.client("Crane", REDIRECT).await;
    let mut tokens = node.sign_in(&idp, &client, "alice").await;
    for hours in [20, 20] {
        tokio::time::advance(std::time::Duration::from_secs(hours * 3600)).await;
        tokens = node.refresh(&client, &text(&tokens, "refresh_token")).await.json();
        assert!(node.call(&text(&tokens, "access_token")).await.is_ok(), "{tokens}");
    }
    tokio::time::advance(std::time::Duration::from_secs(9 * 3600)).await;
    let page = node.refresh(&client, &text(&tokens, "refresh_token")).await;
    assert_eq!(page.error(), "invalid_grant");
}

/// Cipher that removes `since` from records, as in those of older versions.
struct LegacyCipher(Arc<KeyRing>);

impl StateCipher for LegacyCipher {
    fn seal(&self, context: &[u8], plain: &[u8]) -> String {
        self.0.seal(context, plain)
    }

    fn open(&self, context: &[u8], sealed: &str) -> Option<Vec<u8>> {
        let plain = self.0.open(context, sealed)?;
        let mut thing: Value = serde_json::from_slice(&plain).ok()?;
        thing.as_object_mut()?.remove("since");
        serde_json::to_vec(&thing).ok()
    }
}

#[tokio::test]
async fn a_grant_of_an_older_version_is_valid() {
    let idp = Idp::start().await;
    let proxy = proxy(&idp);
    proxy.configure(&wharf_store::memory_stores(), Arc::new(LegacyCipher(keys()))).unwrap();
    let node = ProxyNode(Arc::new(proxy));
    let client = node.client("Crane", REDIRECT).await;
    let tokens = node.sign_in(&idp, &client, "alice").await;
    assert!(node.call(&text(&tokens, "access_token")).await.is_ok());
    let page = node.refresh(&client, &text(&tokens, "refresh_token")).await;
    assert_eq!(page.status, 200, "{}", page.text);
    assert!(node.call(&text(&page.json(), "access_token")).await.is_ok());
}

/// An access token does not outlive its grant.
#[tokio::test]
async fn an_access_token_ends_with_its_grant() {
    let idp = Idp::start().await;
    let short = Duration::from_secs(600);
    for proxy in [proxy(&idp).grant_ttl(short), proxy(&idp).refresh_ttl(short)] {
        let node = ProxyNode::new(proxy, &wharf_store::memory_stores());
        let client = node.client("Crane", REDIRECT).await;
        let tokens = node.sign_in(&idp, &client, "alice").await;
        assert_eq!(tokens["expires_in"], 600);
        let pass = node.call(&text(&tokens, "access_token")).await.unwrap();
        assert!(pass.until.unwrap() <= SystemTime::now() + short);
        let renewed = node.refresh(&client, &text(&tokens, "refresh_token")).await.json();
        assert!(renewed["expires_in"].as_u64().unwrap() <= 600, "{renewed}");
    }
}
