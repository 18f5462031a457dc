//! Hostile servers, authorization servers and redirects.

use std::{
    io,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use wharf_auth::{
    client::Auth,
    fetch::{Fetch, Resolve},
};
use wharf_model::BoxFuture;

use crate::client::fake_servers::{
    PRM, ResponseOverride, TestSetup, TestUser, at, error_response, json_response, metadata,
    no_override,
};

/// Overrides one field of the issuer's metadata.
fn with_metadata_field(name: &'static str, value: Value) -> ResponseOverride {
    at("/.well-known/oauth-authorization-server", move |asked| {
        let mut document = metadata(&format!("http://{}", asked.header("host").unwrap()));
        document[name] = value.clone();
        json_response(document)
    })
}

#[tokio::test]
async fn metadata_for_another_server_is_rejected() {
    for resource in [
        "https://evil.example/mcp",
        "http://127.0.0.1:1/mcp",
        "http://localhost/mcp",
        "http://127.0.0.1@evil.example/mcp",
        "http://127.0.0.1.evil.example/mcp",
        "",
        "mcp",
    ] {
        let more = json!({"resource": resource});
        let setup =
            TestSetup::with_metadata(more, no_override(), no_override(), TestUser::consenting())
                .await;
        let error = setup.client().rejected("Bearer").await.unwrap_err();
        assert!(error.kind.is_authorization_failed(), "{error:?}");
        assert!(setup.issuer.asked().is_empty() && setup.user.authorizations().is_empty());
    }
    let no_issuers = json!({"authorization_servers": []});
    let setup =
        TestSetup::with_metadata(no_issuers, no_override(), no_override(), TestUser::consenting())
            .await;
    assert!(setup.client().rejected("Bearer").await.is_err());
}

#[tokio::test]
async fn metadata_of_another_issuer_is_rejected() {
    for issuer in ["https://honest.example", "http://127.0.0.1", ""] {
        let overridden = with_metadata_field("issuer", issuer.into());
        let setup = TestSetup::with(no_override(), overridden, TestUser::consenting()).await;
        assert!(setup.client().rejected("Bearer").await.is_err());
        assert_eq!(setup.issuer.paths(), ["/.well-known/oauth-authorization-server"]);
        assert!(setup.user.authorizations().is_empty());
    }
    // Not even a trailing slash may differ.
    let slash = at("/.well-known/oauth-authorization-server", |asked| {
        let origin = format!("http://{}", asked.header("host").unwrap());
        let mut document = metadata(&origin);
        document["issuer"] = format!("{origin}/").into();
        json_response(document)
    });
    let setup = TestSetup::with(no_override(), slash, TestUser::consenting()).await;
    assert!(setup.client().rejected("Bearer").await.is_err());
    assert_eq!(setup.issuer.paths().len(), 1);
}

#[tokio::test]
async fn an_issuer_without_pkce_is_not_used() {
    for methods in [json!(null), json!([]), json!(["plain"])] {
        let overridden = with_metadata_field("code_challenge_methods_supported", methods);
        let setup = TestSetup::with(no_override(), overridden, TestUser::consenting()).await;
        let error = setup.client().rejected("Bearer").await.unwrap_err();
        assert!(error.message.contains("PKCE"), "{error}");
        assert_eq!(setup.issuer.paths(), ["/.well-known/oauth-authorization-server"]);
    }
}

/// CVE-2025-6514 (mcp-remote): the authorization endpoint's URL reached a shell.
#[tokio::test]
async fn only_http_authorization_endpoints_are_opened() {
    for page in [
        "javascript:alert(1)",
        "file:///etc/passwd",
        "data:text/html,x",
        "vbscript:x",
        "ssh://host/$(touch x)",
        "http://evil.example/authorize",
        "http://10.0.0.1/authorize",
        "https://user:password@id.example/",
        "$(id)",
        "https://192.168.1.1/",
        "https://0.0.0.0/",
        "https://[::ffff:127.0.0.1]/",
        "https://id.example/?a=b&state=theirs",
        "https://id.example/?redirect_uri=https://evil.example",
        "https://id.example/?request_uri=x",
        "/authorize",
        "",
    ] {
        let overridden = with_metadata_field("authorization_endpoint", page.into());
        let setup = TestSetup::with(no_override(), overridden, TestUser::consenting()).await;
        let error = setup.client().rejected("Bearer").await.unwrap_err();
        assert!(error.kind.is_authorization_failed(), "{page}: {error:?}");
        assert!(setup.user.authorizations().is_empty(), "{page}");
    }
}

#[tokio::test]
async fn a_code_with_wrong_state_or_iss_is_not_redeemed() {
    type RedirectFn = fn(&str, &str) -> String;
    let cases: [(bool, RedirectFn); 6] = [
        (false, |_, _| "code=stolen&state=guessed".into()),
        (false, |_, _| "code=stolen".into()),
        (false, |state, _| format!("code=c&state={state}&iss=https://evil.example")),
        (true, |state, _| format!("code=c&state={state}")),
        (true, |state, issuer| format!("code=c&state={state}&iss={issuer}/")),
        (false, |state, _| {
            format!("error=x&error_description=call+0900&state={state}&iss=https://evil.example")
        }),
    ];
    for (promised, redirect) in cases {
        let overridden =
            with_metadata_field("authorization_response_iss_parameter_supported", promised.into());
        let user = TestUser::responding_with(move |to| Ok(redirect(&to.state, &to.issuer)));
        let setup = TestSetup::with(no_override(), overridden, user).await;
        let error = setup.client().rejected("Bearer").await.unwrap_err();
        assert!(!error.message.contains("0900") && !error.message.contains("evil"), "{error}");
        assert!(setup.issuer.at("/token").is_empty());
    }
}

#[tokio::test]
async fn endless_rejections_end() {
    let setup = TestSetup::default_setup().await;
    let times =
        setup.client().retry_until_rejected(401, |_| "Bearer error=\"invalid_token\"".into()).await;
    assert!(times <= 5 && setup.user.authorizations().len() <= 3, "{times}");
    // A scope that never helps, then new ones each time.
    let setup = TestSetup::default_setup().await;
    let never = |_| "Bearer error=\"insufficient_scope\", scope=\"admin\"".to_owned();
    setup.client().retry_until_rejected(403, never).await;
    assert_eq!(setup.user.authorizations().len(), 1);
    let setup = TestSetup::default_setup().await;
    let ever = |n| format!("Bearer error=\"insufficient_scope\", scope=\"s{n}\"");
    setup.client().retry_until_rejected(403, ever).await;
    assert!(setup.user.authorizations().len() <= 3);
}

#[tokio::test]
async fn a_denied_authorization_is_not_repeated() {
    let user = TestUser::responding_with(|to| {
        Ok(format!("error=access_denied&error_description=no%0Anever&state={}", to.state))
    });
    let setup = TestSetup::with(no_override(), no_override(), user).await;
    let client = setup.client();
    let error = client.rejected("Bearer").await.unwrap_err();
    assert_eq!(error.message, "The authorization server refused: access_denied (no never)");
    assert_eq!(setup.user.authorizations().len(), 1);
    assert!(setup.issuer.at("/token").is_empty());
}

#[tokio::test]
async fn malformed_token_responses_are_rejected() {
    let huge = format!("{{\"access_token\":\"{}\"}}", "x".repeat(2 << 20));
    let redirect = vec![("location".to_owned(), "http://127.0.0.1:1/".to_owned())];
    let cases = [
        (200, Vec::new(), "no json".to_owned()),
        (200, Vec::new(), String::new()),
        (200, Vec::new(), "[]".into()),
        (200, Vec::new(), json!({"token_type": "Bearer"}).to_string()),
        (200, Vec::new(), json!({"access_token": ""}).to_string()),
        (200, Vec::new(), json!({"access_token": "a\r\nX-Evil: 1"}).to_string()),
        (200, Vec::new(), json!({"access_token": "a", "token_type": "mac"}).to_string()),
        (200, Vec::new(), huge),
        (201, Vec::new(), json!({"access_token": "a", "token_type": "Bearer"}).to_string()),
        (302, redirect, String::new()),
        (500, Vec::new(), json!({"error": "secret-detail"}).to_string()),
        (400, Vec::new(), "the-code".into()),
    ];
    for (status, headers, body) in cases {
        let document = (status, headers, body.clone());
        let overridden = at("/token", move |_| document.clone());
        let setup = TestSetup::with(no_override(), overridden, TestUser::consenting()).await;
        let client = setup.client();
        let error = client.rejected("Bearer").await.unwrap_err();
        let verifier = setup.issuer.at("/token")[0].field("code_verifier");
        for secret in ["the-code", &verifier] {
            assert!(!format!("{error:?}").contains(secret), "{error:?}");
        }
        assert!(error.message.len() < 1000, "{error}");
        assert_eq!(client.authorization().await, None, "{status} {:.40}", body);
        assert_eq!(setup.issuer.at("/token").len(), 1);
    }
    // Nonsensical numbers do not fail the request.
    for expires_in in [json!(-1), json!(1e300), json!("x"), json!({}), json!(null)] {
        let body = json!({"access_token": "a", "token_type": "Bearer", "expires_in": expires_in});
        let overridden = at("/token", move |_| json_response(body.clone()));
        let setup = TestSetup::with(no_override(), overridden, TestUser::consenting()).await;
        assert_eq!(setup.client().rejected("Bearer").await, Ok(true), "{expires_in}");
    }
}

#[tokio::test]
async fn a_slow_issuer_times_out() {
    let setup = TestSetup::default_setup().await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let slow = format!("http://{}", listener.local_addr().unwrap());
    let more = json!({"authorization_servers": [slow]});
    let setup = TestSetup::with_metadata(more, no_override(), no_override(), setup.user).await;
    let auth = setup.auth().fetch(Fetch::new().timeout(Duration::from_millis(200)));
    let began = Instant::now();
    assert!(setup.client_with(auth).rejected("Bearer").await.is_err());
    assert!(began.elapsed() < Duration::from_secs(5));
}

/// Resolves every name to one address.
struct FixedResolver(&'static str);

impl Resolve for FixedResolver {
    fn resolve(&self, _: &str, port: u16) -> BoxFuture<io::Result<Vec<SocketAddr>>> {
        let address = SocketAddr::new(self.0.parse().unwrap(), port);
        Box::pin(async move { Ok(vec![address]) })
    }
}

/// CVE-2026-51994 (mcp-remote): `resource_metadata` of a challenge led the client to addresses of its own network.
#[tokio::test]
async fn a_remote_server_cannot_cause_ssrf() {
    let inside = TestSetup::default_setup().await;
    for address in ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::ffff:127.0.0.1"] {
        let fetch = Fetch::new().resolver(FixedResolver(address));
        let auth = Auth::code(inside.user.clone()).fetch(fetch);
        let credentials = auth.at("https://mcp.example/mcp").unwrap();
        for hint in [
            format!("{}{PRM}", inside.mcp.origin),
            inside.mcp.origin.replace("http://127.0.0.1", "http://localhost"),
            "https://[::1]/".into(),
            "https://169.254.169.254/latest/meta-data".into(),
            "https://inside.example/".into(),
            "file:///etc/passwd".into(),
            "gopher://127.0.0.1/".into(),
        ] {
            let challenge = format!("Bearer resource_metadata=\"{hint}\"");
            let auth_failure = crate::client::fake_servers::auth_failure(401, &challenge, 0, 0);
            assert!(credentials.on_auth_failure(auth_failure).await.is_err(), "{hint}");
        }
    }
    assert!(inside.mcp.asked().is_empty());
}

#[tokio::test]
async fn metadata_that_redirects_is_not_followed() {
    let inside = TestSetup::default_setup().await;
    let location = format!("{}{PRM}", inside.mcp.origin);
    let overridden: ResponseOverride =
        Arc::new(move |_| Some((302, vec![("location".into(), location.clone())], String::new())));
    let setup = TestSetup::with(overridden, no_override(), TestUser::consenting()).await;
    // Treated as if there were no metadata.
    assert!(setup.client().rejected("Bearer").await.is_err());
    assert!(inside.mcp.asked().is_empty() && setup.user.authorizations().is_empty());
}

#[tokio::test]
async fn tokens_need_https_or_loopback() {
    let auth = Auth::bearer("token");
    for url in ["http://mcp.example/mcp", "ws://mcp.example/", "http://10.0.0.1/", "ftp://x/", "x"]
    {
        assert!(auth.at(url).is_err(), "{url}");
    }
    for url in
        ["https://mcp.example/mcp", "wss://mcp.example", "http://localhost:1/", "ws://[::1]/"]
    {
        assert!(auth.at(url).is_ok(), "{url}");
    }
    let refused = auth.at("http://me:hunter2@mcp.example/?key=hunter2").err().unwrap();
    assert!(!refused.message.contains("hunter2"), "{refused}");
}

#[tokio::test]
async fn a_removed_registration_is_renewed() {
    let overridden = at("/token", |_| error_response(401, "invalid_client"));
    let setup = TestSetup::with(no_override(), overridden, TestUser::consenting()).await;
    for _ in 0..2 {
        assert!(setup.client().rejected("Bearer").await.is_err());
    }
    assert_eq!(setup.issuer.at("/register").len(), 2);
}

#[tokio::test]
async fn long_values_are_rejected() {
    let long = "x".repeat(20_000);
    for name in ["access_token", "refresh_token", "scope"] {
        let mut document = json!({"access_token": "t", "token_type": "Bearer"});
        document[name] = long.clone().into();
        let overridden = at("/token", move |_| json_response(document.clone()));
        let setup = TestSetup::with(no_override(), overridden, TestUser::consenting()).await;
        let error = setup.client().rejected("Bearer").await.unwrap_err();
        assert!(error.message.contains("too long"), "{name}: {error}");
    }
    for name in ["client_id", "client_secret"] {
        let mut document = json!({"client_id": "me"});
        document[name] = long.clone().into();
        let overridden = at("/register", move |_| json_response(document.clone()));
        let setup = TestSetup::with(no_override(), overridden, TestUser::consenting()).await;
        let error = setup.client().rejected("Bearer").await.unwrap_err();
        assert!(error.message.contains("too long"), "{name}: {error}");
        assert!(setup.user.authorizations().is_empty());
    }
}

#[tokio::test]
async fn alternating_rejections_do_not_prompt_without_end() {
    let overridden =
        at("/token", |_| json_response(json!({"access_token": "t", "token_type": "Bearer"})));
    let setup = TestSetup::with(no_override(), overridden, TestUser::consenting()).await;
    let client = setup.client();
    for _ in 0..10 {
        let _ = client.rejected("Bearer").await;
        client.accepted().await;
    }
    assert_eq!(setup.user.authorizations().len(), 3);
}
