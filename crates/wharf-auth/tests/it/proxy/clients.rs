//! Client registration and client ID metadata documents.

use std::net::SocketAddr;

use http::{Method, header};
use serde_json::{Value, json};
use wharf_auth::proxy::{OAuthProxy, Provider};

use wharf_testbed::fake_idp::Idp;

use crate::proxy::browser_and_client::*;

#[tokio::test]
async fn registrations_are_validated() {
    let (_idp, node) = setup().await;
    let with = |name: &str, value: Value| {
        let mut metadata = json!({"client_name": "Crane", "redirect_uris": [REDIRECT]});
        metadata[name] = value;
        metadata
    };
    for (metadata, error) in [
        (json!({}), "invalid_redirect_uri"),
        (json!([]), "invalid_client_metadata"),
        (with("redirect_uris", json!([])), "invalid_redirect_uri"),
        (with("redirect_uris", json!("https://a.example")), "invalid_client_metadata"),
        (with("redirect_uris", json!(vec![REDIRECT; 11])), "invalid_redirect_uri"),
        (with("redirect_uris", json!([REDIRECT, "http://a.example/cb"])), "invalid_redirect_uri"),
        (with("redirect_uris", json!(["javascript:alert(1)"])), "invalid_redirect_uri"),
        (with("redirect_uris", json!(["com.example.app:/cb"])), "invalid_redirect_uri"),
        (with("redirect_uris", json!(["https://a.example/#x"])), "invalid_redirect_uri"),
        (with("client_name", json!("x".repeat(201))), "invalid_client_metadata"),
        (with("token_endpoint_auth_method", json!("tls_client_auth")), "invalid_client_metadata"),
        (with("grant_types", json!(["client_credentials"])), "invalid_client_metadata"),
        (with("response_types", json!(["token"])), "invalid_client_metadata"),
    ] {
        let page = node.register(metadata.clone()).await;
        assert_eq!((u16::from(page.status), page.error()), (400, error.into()), "{metadata}");
    }
    let page = node.register(with("logo_uri", json!("x".repeat(20_000)))).await;
    assert_eq!(page.status, 413);
    let garbage = node.send(Method::POST, "/register", &[], "{").await;
    assert_eq!(garbage.error(), "invalid_client_metadata");

    let page = node.register(with("scope", json!("files:read"))).await;
    assert_eq!(
        (u16::from(page.status), &page.headers[header::CACHE_CONTROL]),
        (201, &"no-store".parse().unwrap())
    );
    let said = page.json();
    assert_eq!(said["token_endpoint_auth_method"], "client_secret_basic");
    assert_eq!(said["redirect_uris"], json!([REDIRECT]));
    assert!(text(&said, "client_secret").len() >= 43);
}

#[tokio::test]
async fn application_schemes_need_permission_of_the_operator() {
    let idp = Idp::start().await;
    let proxy = proxy(&idp).redirect_scheme("com.example.app").client(
        "crane-desktop",
        "Crane",
        ["com.example.app:/cb"],
    );
    let node = ProxyNode::new(proxy, &wharf_store::memory_stores());
    let client = node.client("Crane", "com.example.app:/cb").await;
    for client in [&*client, "crane-desktop"] {
        let page = node.get(&authorize(client, &[("redirect_uri", "com.example.app:/cb")])).await;
        assert!(page.text.contains("Access goes to <b>com.example.app:</b>"), "{}", page.text);
    }
}

#[tokio::test]
async fn registrations_are_rate_limited() {
    let (_idp, node) = setup().await;
    let body = json!({"redirect_uris": [REDIRECT]}).to_string();
    let flood = async |address: &dyn Fn(u32) -> Option<SocketAddr>| {
        let mut taken = 0;
        for number in 0..300 {
            let (from, body) = (address(number), body.clone());
            let page = node.send_from(from, Method::POST, "/register", &[], body).await;
            match u16::from(page.status) {
                201 => taken += 1,
                429 => assert_eq!(page.headers[header::RETRY_AFTER], "5"),
                other => panic!("{other}"),
            }
        }
        taken
    };
    let one = flood(&|_| Some("203.0.113.7:1000".parse().unwrap())).await;
    assert!((60..100).contains(&one), "{one}");
    // An IPv6 client has a whole network.
    let many = |it| Some(format!("[2001:db8:1:2:{it:x}::1]:1000").parse().unwrap());
    let many = flood(&many).await;
    assert!((60..100).contains(&many), "{many}");
    // Behind a reverse proxy on this machine, all requests have the same address.
    assert_eq!(flood(&|_| Some("127.0.0.1:1000".parse().unwrap())).await, 300);
    assert_eq!(flood(&|_| None).await, 300);
}

/// A flood of registrations neither blocks other clients nor removes registrations in use.
#[tokio::test]
async fn the_oldest_unused_registration_goes_first() {
    let (idp, node) = setup().await;
    let used = node.client("Crane", REDIRECT).await;
    node.sign_in(&idp, &used, "alice").await;
    let first = node.client("Crane", REDIRECT).await;
    let mut last = String::new();
    for _ in 0..10_050 {
        last = node.client("Flood", REDIRECT).await;
    }
    assert_eq!(node.get(&authorize(&first, &[])).await.status, 400);
    for client in [&used, &last] {
        assert_eq!(node.get(&authorize(client, &[])).await.status, 200);
    }
}

/// A user with many registrations evicts only those that they were the first to use.
#[tokio::test]
async fn a_user_with_many_registrations_evicts_their_own() {
    let (idp, node) = setup().await;
    let is_known = async |client: &str| node.get(&authorize(client, &[])).await.status == 200;
    let bobs = node.client("Crane", REDIRECT).await;
    node.sign_in(&idp, &bobs, "bob").await;
    let (mut clients, mut tokens) = (Vec::new(), Vec::new());
    let more = async |clients: &mut Vec<String>| {
        clients.push(node.client("Crane", REDIRECT).await);
        node.sign_in(&idp, clients.last().unwrap(), "alice").await
    };
    for _ in 0..64 {
        tokens.push(more(&mut clients).await);
    }
    for client in &clients {
        assert!(is_known(client).await);
    }
    // Of her own registrations, one without a grant goes first, however recently it was used.
    let ended = [("client_id", &*clients[30]), ("token", &*text(&tokens[30], "refresh_token"))];
    assert_eq!(node.post("/revoke", &[], &ended).await.status, 200);
    more(&mut clients).await;
    assert!(!is_known(&clients[30]).await && is_known(&clients[0]).await);
    // A registration that others use as well is evicted later than those that only she uses.
    node.sign_in(&idp, &clients[0], "bob").await;
    more(&mut clients).await;
    assert!(is_known(&clients[0]).await && !is_known(&clients[1]).await);
    // Revoking her own grant does not evict it.
    let hers = node.sign_in(&idp, &clients[0], "alice").await;
    let ended = [("client_id", &*clients[0]), ("token", &*text(&hers, "refresh_token"))];
    assert_eq!(node.post("/revoke", &[], &ended).await.status, 200);
    more(&mut clients).await;
    assert!(is_known(&clients[0]).await && !is_known(&clients[2]).await);
    // Of the others, the least recently used goes.
    node.sign_in(&idp, &clients[3], "alice").await;
    more(&mut clients).await;
    assert!(is_known(&clients[3]).await && !is_known(&clients[4]).await);
    assert!(is_known(&bobs).await && is_known(clients.last().unwrap()).await);
}

#[tokio::test]
async fn a_confidential_client_must_authenticate() {
    let (idp, node) = setup().await;
    let said = node.register(json!({"redirect_uris": [REDIRECT]})).await.json();
    let (client, secret) = (text(&said, "client_id"), text(&said, "client_secret"));
    let basic = |id: &str, secret: &str| {
        let pair = format!("{id}:{secret}");
        format!("Basic {}", base64::Engine::encode(&base64::prelude::BASE64_STANDARD, pair))
    };
    let code = node.code(&idp, &client, "alice").await;
    let good = [
        ("grant_type", "authorization_code"),
        ("code", &*code),
        ("redirect_uri", REDIRECT),
        ("code_verifier", VERIFIER),
    ];
    let mut plain = good.to_vec();
    plain.push(("client_id", &client));
    assert_eq!(node.token(&plain).await.error(), "invalid_client", "no secret");
    let mut wrong = plain.clone();
    wrong.push(("client_secret", "wrong"));
    assert_eq!(node.token(&wrong).await.status, 401);
    let header = basic(&client, "wrong");
    let page = node.post("/token", &[("authorization", &header)], &good).await;
    assert_eq!((u16::from(page.status), page.error()), (401, "invalid_client".into()));
    assert!(page.headers.contains_key(header::WWW_AUTHENTICATE));
    let header = basic(&client, &secret);
    let mut both = plain.clone();
    both.push(("client_secret", &secret));
    let page = node.post("/token", &[("authorization", &header)], &both).await;
    assert_eq!(page.error(), "invalid_request", "both ways at once");
    let mut other = good.to_vec();
    other.push(("client_id", "another"));
    let page = node.post("/token", &[("authorization", &header)], &other).await;
    assert_eq!(page.error(), "invalid_client");
    // None of these attempts consumed the code.
    let page = node.post("/token", &[("authorization", &header)], &good).await;
    assert_eq!(page.status, 200, "{}", page.text);

    let code = node.code(&idp, &client, "alice").await;
    let mut posted = vec![("client_id", &*client), ("client_secret", &*secret)];
    posted.extend([good[0], ("code", &*code), good[2], good[3]]);
    assert_eq!(node.token(&posted).await.status, 200);
    assert_eq!(node.refresh("nobody", "x").await.error(), "invalid_client");
}

#[tokio::test]
async fn documents_of_clients_are_not_fetched_from_inside_or_without_reason() {
    let idp = Idp::start().await;
    let node = ProxyNode::new(proxy(&idp), &wharf_store::memory_stores());
    for id in [
        "https://127.0.0.1/client.json",
        "https://localhost/client.json",
        "https://[::1]/client.json",
        "https://10.0.0.1/client.json",
        "https://169.254.169.254/latest/meta-data",
        "https://app.example.com",
        "https://app.example.com/",
        "https://app.example.com/a/../b",
        "https://user@app.example.com/client.json",
        "https://app.example.com/client.json#x",
        "http://127.0.0.1/client.json",
    ] {
        let page = node.get(&authorize(id, &[])).await;
        assert!(page.status == 400 && page.is_dead_end(), "{id}: {}", page.text);
    }
    let provider = Provider::oidc(&idp.url, "id", "secret");
    let without = OAuthProxy::new(PUBLIC, provider).client_documents(None);
    let node = ProxyNode::new(without, &wharf_store::memory_stores());
    let said = node.get("/.well-known/oauth-authorization-server").await.json();
    assert_eq!(said["client_id_metadata_document_supported"], false);
    let page = node.redeem("https://app.example.com/client.json", "x").await;
    assert_eq!(page.error(), "invalid_client");
}

#[tokio::test]
async fn clients_that_are_web_pages_can_read_what_they_asked_for_and_no_other_page() {
    let (_idp, node) = setup().await;
    let client = node.client("Crane", REDIRECT).await;
    for path in ["/token", "/register", "/revoke"] {
        for method in [Method::OPTIONS, Method::POST] {
            let page = node.send(method, path, &[], "").await;
            assert_eq!(page.headers[header::ACCESS_CONTROL_ALLOW_ORIGIN], "*", "{path}");
            assert!(!page.headers.contains_key(header::ACCESS_CONTROL_ALLOW_CREDENTIALS));
        }
    }
    for target in [&*authorize(&client, &[]), "/callback", "/consent"] {
        for method in [Method::OPTIONS, Method::GET, Method::POST] {
            let page = node.send(method, target, &[], "").await;
            assert!(!page.headers.contains_key(header::ACCESS_CONTROL_ALLOW_ORIGIN), "{target}");
        }
    }
}
