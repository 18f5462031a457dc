//! Complete flow, metadata, and configuration errors.

use http::{HeaderMap, Method, header};
use serde_json::json;
use wharf_auth::proxy::{OAuthProxy, Provider, Upstream};
use wharf_model::{Authenticator, Error};

use wharf_testbed::{
    fake_idp::{Idp, IdpBehavior},
    redis_server::RedisServer,
};

use crate::proxy::browser_and_client::*;

#[tokio::test]
async fn complete_flow() {
    let (idp, node) = setup().await;
    let client = node.client("Crane", REDIRECT).await;
    let mut browser = Browser::default();
    let page = browser.get(&node, &authorize(&client, &[("scope", "files:read nothing")])).await;
    for shown in ["<b>Crane</b>", "<b>app.example.com</b>", "<li>files:read</li>", "127.0.0.1"] {
        assert!(page.text.contains(shown), "{shown}: {}", page.text);
    }
    assert!(!page.text.contains("files:write"), "only what is asked for is shown");

    let signing_in = browser.answer(&node, &page, "allow").await.link();
    assert!(signing_in.as_str().starts_with(&idp.url));
    assert_eq!(parameter(&signing_in, "redirect_uri").unwrap(), format!("{PUBLIC}/callback"));
    assert_eq!(parameter(&signing_in, "scope").unwrap(), "openid profile email");

    let back = idp.sign_in(&signing_in, "alice");
    let back = browser.get(&node, &target(&back)).await.location();
    assert!(back.as_str().starts_with("https://app.example.com/cb?code="));
    assert_eq!(parameter(&back, "state").unwrap(), "client's state");
    assert_eq!(parameter(&back, "iss").unwrap(), PUBLIC);

    let code = parameter(&back, "code").unwrap();
    let page = node.redeem(&client, &code).await;
    assert_eq!(page.headers[header::CACHE_CONTROL], "no-store");
    let tokens = page.json();
    assert_eq!((&tokens["token_type"], &tokens["scope"]), (&json!("Bearer"), &json!("files:read")));
    assert_eq!(tokens["expires_in"], 3600);

    let pass = node.call(&text(&tokens, "access_token")).await.unwrap();
    assert!(pass.principal.id().contains("alice"), "{:?}", pass.principal);
    assert_eq!(pass.principal.scopes().collect::<Vec<_>>(), ["files:read"]);
    let user = pass.extensions.get::<Upstream>().unwrap();
    assert_eq!(user.identity().email(), Some("alice@example.com"));
    let upstream = user.token().await.unwrap();
    assert!(upstream.secret().starts_with("upstream-"));
    // The provider's token is neither passed on nor logged.
    assert!(!tokens.to_string().contains("upstream-"));
    assert!(!format!("{user:?} {upstream:?} {pass:?}").contains("upstream-"));
}

#[tokio::test]
async fn metadata_documents_are_served() {
    let (_idp, node) = setup().await;
    let page = node.get("/.well-known/oauth-authorization-server").await;
    assert_eq!(page.headers[header::ACCESS_CONTROL_ALLOW_ORIGIN], "*");
    let said = page.json();
    assert_eq!(said["issuer"], PUBLIC);
    assert_eq!(said["authorization_endpoint"], format!("{PUBLIC}/authorize"));
    assert_eq!(said["registration_endpoint"], format!("{PUBLIC}/register"));
    assert_eq!(said["code_challenge_methods_supported"], json!(["S256"]));
    assert_eq!(said["authorization_response_iss_parameter_supported"], true);
    assert_eq!(said["client_id_metadata_document_supported"], true);
    for path in ["", "/mcp"] {
        let said = node.get(&format!("/.well-known/oauth-protected-resource{path}")).await.json();
        assert_eq!(said["resource"], format!("{PUBLIC}/mcp"));
        assert_eq!(said["authorization_servers"], json!([PUBLIC]));
        assert_eq!(said["scopes_supported"], json!(["files:read", "files:write"]));
    }
    for path in node.0.paths() {
        assert_ne!(node.get(&path).await.status, 404, "{path}");
    }
    assert_eq!(node.get("/.well-known/oauth-protected-resource/other").await.status, 404);
    assert_eq!(node.send(Method::DELETE, "/authorize", &[], "").await.status, 405);
}

#[tokio::test]
async fn challenges_name_the_metadata() {
    let (_idp, node) = setup().await;
    let denied = node.authenticate(&HeaderMap::new()).await.unwrap_err();
    assert_eq!(denied.status, 401);
    assert_eq!(
        denied.headers[header::WWW_AUTHENTICATE],
        "Bearer scope=\"files:read files:write\", resource_metadata=\
         \"https://harbour.example.com/.well-known/oauth-protected-resource/mcp\""
    );
    let malformed = HeaderMap::from_iter([(header::AUTHORIZATION, "Bearer".parse().unwrap())]);
    assert_eq!(node.authenticate(&malformed).await.unwrap_err().status, 400);
    let token = "wharf_at_x.y";
    for value in ["Bearer x", "Bearer wharf_at_", "bearer wharf_at_x.y", "DPoP wharf_at_x.y"] {
        let value = value.parse().unwrap();
        let headers = HeaderMap::from_iter([(header::AUTHORIZATION, value)]);
        let denied = node.authenticate(&headers).await.unwrap_err();
        let challenge = denied.headers[header::WWW_AUTHENTICATE].to_str().unwrap();
        assert!(challenge.starts_with("Bearer error=\"invalid_token\""), "{token}: {challenge}");
    }
    let error = Error::insufficient_scope(["files:write"]);
    let (uri, scope, headers) =
        ("/mcp".parse().unwrap(), wharf_model::RequestExtensions::new(), HeaderMap::new());
    let request = wharf_model::AuthRequest::new(&Method::POST, &uri, &headers, &scope);
    let who = wharf_model::Principal::new("x").with_scope("files:read");
    let challenge = &node.0.denied(&error, &request, &who)[0];
    let challenge = challenge.to_str().unwrap();
    assert!(challenge.contains("error=\"insufficient_scope\""), "{challenge}");
    assert!(challenge.contains("scope=\"files:read files:write\""), "{challenge}");
}

#[tokio::test]
async fn a_provider_without_openid_uses_userinfo() {
    let idp = Idp::start().await;
    let at = |path: &str| format!("{}{path}", idp.url);
    let provider = Provider::oauth(
        at("/authorize"),
        at("/token"),
        at("/userinfo"),
        "the-proxy",
        "s3cret:with/odd chars",
    )
    .subject("id")
    .scopes(["repo"]);
    let node = ProxyNode::new(OAuthProxy::new(PUBLIC, provider), &wharf_store::memory_stores());
    let client = node.client("Crane", REDIRECT).await;
    let tokens = node.sign_in(&idp, &client, "alice").await;
    let pass = node.call(&text(&tokens, "access_token")).await.unwrap();
    assert!(pass.principal.id().ends_with(" 7"));
    let user = pass.extensions.get::<Upstream>().unwrap();
    assert_eq!(user.identity().claim("login"), Some("alice"));

    idp.behavior(IdpBehavior {
        userinfo: Some(json!({"login": "alice"})),
        ..IdpBehavior::default()
    });
    let mut browser = Browser::default();
    let page = browser.get(&node, &authorize(&client, &[])).await;
    let back = idp.sign_in(&browser.answer(&node, &page, "allow").await.link(), "alice");
    let page = browser.get(&node, &target(&back)).await;
    assert_eq!(page.parameter("error").unwrap(), "server_error");
}

/// A file that is removed after the test.
struct TempFile(std::path::PathBuf);

impl TempFile {
    fn new(name: &str) -> Self {
        TempFile(std::env::temp_dir().join(format!("wharf-proxy-{name}-{}.db", std::process::id())))
    }

    fn url(&self) -> String {
        format!("sqlite:{}", self.0.display())
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        for suffix in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(format!("{}{suffix}", self.0.display()));
        }
    }
}

#[tokio::test]
async fn two_processes_on_one_store_are_one_proxy() {
    let (file, redis) = (TempFile::new("two"), RedisServer::start());
    for url in ["memory:", &file.url(), &redis.url("two")] {
        let idp = Idp::start().await;
        let stores = wharf_store::open(url).await.unwrap();
        // On Redis, each process has its own connection.
        let other = match url.starts_with("redis:") {
            true => wharf_store::open(url).await.unwrap(),
            false => stores.clone(),
        };
        let (one, two) =
            (ProxyNode::new(proxy(&idp), &stores), ProxyNode::new(proxy(&idp), &other));
        let client = one.client("Crane", REDIRECT).await;
        let mut browser = Browser::default();
        let page = browser.get(&two, &authorize(&client, &[])).await;
        let allowed = browser.answer(&one, &page, "allow").await;
        assert_eq!(browser.answer(&two, &page, "allow").await.status, 403, "answered already");
        let back = idp.sign_in(&allowed.link(), "alice");
        let mut again = browser.clone();
        let code = browser.get(&two, &target(&back)).await.parameter("code").unwrap();
        assert!(again.get(&one, &target(&back)).await.is_dead_end());
        let tokens = one.redeem(&client, &code).await.json();
        assert!(two.call(&text(&tokens, "access_token")).await.is_ok());
        // Codes are valid once for all processes.
        assert_eq!(two.redeem(&client, &code).await.error(), "invalid_grant");
        assert!(one.call(&text(&tokens, "access_token")).await.is_err());

        let tokens = one.sign_in(&idp, &client, "alice").await;
        let refresh = text(&tokens, "refresh_token");
        let newer = two.refresh(&client, &refresh).await.json();
        assert!(one.call(&text(&newer, "access_token")).await.is_ok());
        assert_eq!(one.refresh(&client, &refresh).await.error(), "invalid_grant");
        assert!(two.call(&text(&newer, "access_token")).await.is_err());
    }
}

#[tokio::test]
async fn grants_survive_a_restart() {
    let (file, idp) = (TempFile::new("outlives"), Idp::start().await);
    let node = ProxyNode::new(proxy(&idp), &wharf_store::open(&file.url()).await.unwrap());
    let client = node.client("Crane", REDIRECT).await;
    let tokens = node.sign_in(&idp, &client, "alice").await;
    drop(node);
    let next = ProxyNode::new(proxy(&idp), &wharf_store::open(&file.url()).await.unwrap());
    assert!(next.call(&text(&tokens, "access_token")).await.is_ok());
    assert_eq!(next.refresh(&client, &text(&tokens, "refresh_token")).await.status, 200);
    assert_eq!(next.get(&authorize(&client, &[])).await.status, 200);
}

#[tokio::test]
async fn stored_records_are_encrypted() {
    let idp = Idp::start().await;
    let stores = wharf_store::memory_stores();
    let node = ProxyNode::new(proxy(&idp), &stores);
    let client = node.client("Crane", REDIRECT).await;
    let tokens = node.sign_in(&idp, &client, "alice").await;
    let mut all = String::new();
    let of_alice = |kind: &str| {
        let named = format!("{}\0alice", idp.url);
        format!("{kind}.{}", wharf_auth::jose::b64(wharf_auth::jose::sha256(named.as_bytes())))
    };
    for owner in [&*of_alice("client"), "code.all", &of_alice("grant")] {
        let records = stores.grants.list(owner, None, 9).await.unwrap();
        assert_eq!(records.len(), 1, "{owner}");
        assert!(records[0].expires.is_some(), "records expire");
        all += &format!("{} {}", records[0].id, String::from_utf8_lossy(&records[0].body));
    }
    let access = text(&tokens, "access_token");
    let secret = access.split_once('.').unwrap().1;
    for told in ["upstream-", "alice", "Crane", "app.example.com", &client, secret] {
        assert!(!all.contains(told), "{told}");
    }
}

#[tokio::test]
async fn configuration_errors_are_reported() {
    let idp = Idp::start().await;
    let provider = || Provider::oidc(&idp.url, "id", "very secret");
    let configure = |proxy: OAuthProxy| proxy.configure(&wharf_store::memory_stores(), keys());
    for public in [
        "http://harbour.example.com",
        "harbour.example.com",
        "https://h.example.com/?x",
        "https://H.example.com",
    ] {
        assert!(configure(OAuthProxy::new(public, provider())).is_err(), "{public}");
    }
    assert!(
        configure(OAuthProxy::new(PUBLIC, provider()).resource("https://other.example.com/mcp"))
            .is_err()
    );
    assert!(configure(OAuthProxy::new(PUBLIC, provider()).redirect_scheme("javascript")).is_err());
    assert!(
        configure(OAuthProxy::new(PUBLIC, provider()).client("a", "A", ["http://a.example"]))
            .is_err()
    );
    assert!(configure(OAuthProxy::new("http://127.0.0.1:8000", provider())).is_ok());
    // A random key in a shared store.
    let mut stores = wharf_store::memory_stores();
    stores.sharing = wharf_model::Sharing::Cluster;
    let random = std::sync::Arc::new(wharf_server::KeyRing::random());
    assert!(
        OAuthProxy::new(PUBLIC, provider())
            .configure(&stores, random)
            .unwrap_err()
            .contains("WHARF_STATE_KEY")
    );
    let shown = format!("{:?}", OAuthProxy::new(PUBLIC, provider()));
    assert!(!shown.contains("very secret"), "{shown}");
}
