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

use crate::stage::{PRM, Person, Stage, Tweak, as_usual, at, metadata, refuse, say};

/// Overrides one field of the issuer's metadata.
fn saying(name: &'static str, value: Value) -> Tweak {
    at("/.well-known/oauth-authorization-server", move |asked| {
        let mut said = metadata(&format!("http://{}", asked.header("host").unwrap()));
        said[name] = value.clone();
        say(said)
    })
}

#[tokio::test]
async fn metadata_for_another_server_is_not_believed() {
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
        let stage = Stage::describing(more, as_usual(), as_usual(), Person::agrees()).await;
        let error = stage.client().refused("Bearer").await.unwrap_err();
        assert!(error.kind.is_authorization_failed(), "{error:?}");
        assert!(stage.issuer.asked().is_empty() && stage.person.visits().is_empty());
    }
    let nobody = json!({"authorization_servers": []});
    let stage = Stage::describing(nobody, as_usual(), as_usual(), Person::agrees()).await;
    assert!(stage.client().refused("Bearer").await.is_err());
}

#[tokio::test]
async fn an_issuer_that_says_it_is_another_is_not_used() {
    for issuer in ["https://honest.example", "http://127.0.0.1", ""] {
        let tweak = saying("issuer", issuer.into());
        let stage = Stage::with(as_usual(), tweak, Person::agrees()).await;
        assert!(stage.client().refused("Bearer").await.is_err());
        assert_eq!(stage.issuer.paths(), ["/.well-known/oauth-authorization-server"]);
        assert!(stage.person.visits().is_empty());
    }
    // Not even a trailing slash may differ.
    let slash = at("/.well-known/oauth-authorization-server", |asked| {
        let origin = format!("http://{}", asked.header("host").unwrap());
        let mut said = metadata(&origin);
        said["issuer"] = format!("{origin}/").into();
        say(said)
    });
    let stage = Stage::with(as_usual(), slash, Person::agrees()).await;
    assert!(stage.client().refused("Bearer").await.is_err());
    assert_eq!(stage.issuer.paths().len(), 1);
}

#[tokio::test]
async fn an_issuer_without_pkce_is_not_used() {
    for methods in [json!(null), json!([]), json!(["plain"])] {
        let tweak = saying("code_challenge_methods_supported", methods);
        let stage = Stage::with(as_usual(), tweak, Person::agrees()).await;
        let error = stage.client().refused("Bearer").await.unwrap_err();
        assert!(error.message.contains("PKCE"), "{error}");
        assert_eq!(stage.issuer.paths(), ["/.well-known/oauth-authorization-server"]);
    }
}

/// CVE-2025-6514 (mcp-remote): the authorization endpoint's URL reached a shell.
#[tokio::test]
async fn only_web_pages_are_opened() {
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
        let tweak = saying("authorization_endpoint", page.into());
        let stage = Stage::with(as_usual(), tweak, Person::agrees()).await;
        let error = stage.client().refused("Bearer").await.unwrap_err();
        assert!(error.kind.is_authorization_failed(), "{page}: {error:?}");
        assert!(stage.person.visits().is_empty(), "{page}");
    }
}

#[tokio::test]
async fn a_code_that_is_not_for_us_is_not_redeemed() {
    type Brings = fn(&str, &str) -> String;
    let cases: [(bool, Brings); 6] = [
        (false, |_, _| "code=stolen&state=guessed".into()),
        (false, |_, _| "code=stolen".into()),
        (false, |state, _| format!("code=c&state={state}&iss=https://evil.example")),
        (true, |state, _| format!("code=c&state={state}")),
        (true, |state, issuer| format!("code=c&state={state}&iss={issuer}/")),
        (false, |state, _| {
            format!("error=x&error_description=call+0900&state={state}&iss=https://evil.example")
        }),
    ];
    for (promised, brings) in cases {
        let tweak = saying("authorization_response_iss_parameter_supported", promised.into());
        let person = Person::who(move |to| Ok(brings(&to.state, &to.issuer)));
        let stage = Stage::with(as_usual(), tweak, person).await;
        let error = stage.client().refused("Bearer").await.unwrap_err();
        assert!(!error.message.contains("0900") && !error.message.contains("evil"), "{error}");
        assert!(stage.issuer.at("/token").is_empty());
    }
}

#[tokio::test]
async fn endless_refusals_end() {
    let stage = Stage::upright().await;
    let times = stage.client().insists(401, |_| "Bearer error=\"invalid_token\"".into()).await;
    assert!(times <= 5 && stage.person.visits().len() <= 3, "{times}");
    // A scope that never helps, then new ones each time.
    let stage = Stage::upright().await;
    let never = |_| "Bearer error=\"insufficient_scope\", scope=\"admin\"".to_owned();
    stage.client().insists(403, never).await;
    assert_eq!(stage.person.visits().len(), 1);
    let stage = Stage::upright().await;
    let ever = |n| format!("Bearer error=\"insufficient_scope\", scope=\"s{n}\"");
    stage.client().insists(403, ever).await;
    assert!(stage.person.visits().len() <= 3);
}

#[tokio::test]
async fn a_person_who_says_no_is_not_asked_again_by_the_same_call() {
    let person = Person::who(|to| {
        Ok(format!("error=access_denied&error_description=no%0Anever&state={}", to.state))
    });
    let stage = Stage::with(as_usual(), as_usual(), person).await;
    let client = stage.client();
    let error = client.refused("Bearer").await.unwrap_err();
    assert_eq!(error.message, "The authorization server refused: access_denied (no never)");
    assert_eq!(stage.person.visits().len(), 1);
    assert!(stage.issuer.at("/token").is_empty());
}

#[tokio::test]
async fn a_token_endpoint_may_say_what_it_likes() {
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
        let said = (status, headers, body.clone());
        let tweak = at("/token", move |_| said.clone());
        let stage = Stage::with(as_usual(), tweak, Person::agrees()).await;
        let client = stage.client();
        let error = client.refused("Bearer").await.unwrap_err();
        let verifier = stage.issuer.at("/token")[0].field("code_verifier");
        for secret in ["the-code", &verifier] {
            assert!(!format!("{error:?}").contains(secret), "{error:?}");
        }
        assert!(error.message.len() < 1000, "{error}");
        assert_eq!(client.authorization().await, None, "{status} {:.40}", body);
        assert_eq!(stage.issuer.at("/token").len(), 1);
    }
    // Nonsensical numbers do not fail the request.
    for expires_in in [json!(-1), json!(1e300), json!("x"), json!({}), json!(null)] {
        let body = json!({"access_token": "a", "token_type": "Bearer", "expires_in": expires_in});
        let tweak = at("/token", move |_| say(body.clone()));
        let stage = Stage::with(as_usual(), tweak, Person::agrees()).await;
        assert_eq!(stage.client().refused("Bearer").await, Ok(true), "{expires_in}");
    }
}

#[tokio::test]
async fn a_slow_issuer_is_not_waited_for() {
    let stage = Stage::upright().await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let slow = format!("http://{}", listener.local_addr().unwrap());
    let more = json!({"authorization_servers": [slow]});
    let stage = Stage::describing(more, as_usual(), as_usual(), stage.person).await;
    let auth = stage.auth().fetch(Fetch::new().timeout(Duration::from_millis(200)));
    let began = Instant::now();
    assert!(stage.knocker(auth).refused("Bearer").await.is_err());
    assert!(began.elapsed() < Duration::from_secs(5));
}

/// Resolves every name to one address.
struct Everywhere(&'static str);

impl Resolve for Everywhere {
    fn resolve(&self, _: &str, port: u16) -> BoxFuture<io::Result<Vec<SocketAddr>>> {
        let address = SocketAddr::new(self.0.parse().unwrap(), port);
        Box::pin(async move { Ok(vec![address]) })
    }
}

/// CVE-2026-51994 (mcp-remote): `resource_metadata` of a challenge led the client to addresses of its own network.
#[tokio::test]
async fn a_server_elsewhere_does_not_lead_us_inside() {
    let inside = Stage::upright().await;
    for address in ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::ffff:127.0.0.1"] {
        let fetch = Fetch::new().resolver(Everywhere(address));
        let auth = Auth::code(inside.person.clone()).fetch(fetch);
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
            let rebuff = crate::stage::rebuff(401, &challenge, 0, 0);
            assert!(credentials.on_auth_failure(rebuff).await.is_err(), "{hint}");
        }
    }
    assert!(inside.mcp.asked().is_empty());
}

#[tokio::test]
async fn metadata_that_redirects_is_not_followed() {
    let inside = Stage::upright().await;
    let location = format!("{}{PRM}", inside.mcp.origin);
    let tweak: Tweak =
        Arc::new(move |_| Some((302, vec![("location".into(), location.clone())], String::new())));
    let stage = Stage::with(tweak, as_usual(), Person::agrees()).await;
    // Treated as if there were no metadata.
    assert!(stage.client().refused("Bearer").await.is_err());
    assert!(inside.mcp.asked().is_empty() && stage.person.visits().is_empty());
}

#[tokio::test]
async fn tokens_go_only_where_nobody_reads_them_on_the_way() {
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
async fn an_issuer_that_forgot_us_is_told_again() {
    let tweak = at("/token", |_| refuse(401, "invalid_client"));
    let stage = Stage::with(as_usual(), tweak, Person::agrees()).await;
    for _ in 0..2 {
        assert!(stage.client().refused("Bearer").await.is_err());
    }
    assert_eq!(stage.issuer.at("/register").len(), 2);
}

#[tokio::test]
async fn what_is_too_long_is_not_kept() {
    let long = "x".repeat(20_000);
    for name in ["access_token", "refresh_token", "scope"] {
        let mut said = json!({"access_token": "t", "token_type": "Bearer"});
        said[name] = long.clone().into();
        let tweak = at("/token", move |_| say(said.clone()));
        let stage = Stage::with(as_usual(), tweak, Person::agrees()).await;
        let error = stage.client().refused("Bearer").await.unwrap_err();
        assert!(error.message.contains("too long"), "{name}: {error}");
    }
    for name in ["client_id", "client_secret"] {
        let mut said = json!({"client_id": "me"});
        said[name] = long.clone().into();
        let tweak = at("/register", move |_| say(said.clone()));
        let stage = Stage::with(as_usual(), tweak, Person::agrees()).await;
        let error = stage.client().refused("Bearer").await.unwrap_err();
        assert!(error.message.contains("too long"), "{name}: {error}");
        assert!(stage.person.visits().is_empty());
    }
}

#[tokio::test]
async fn a_server_that_now_lets_in_and_now_refuses_does_not_ask_without_end() {
    let tweak = at("/token", |_| say(json!({"access_token": "t", "token_type": "Bearer"})));
    let stage = Stage::with(as_usual(), tweak, Person::agrees()).await;
    let client = stage.client();
    for _ in 0..10 {
        let _ = client.refused("Bearer").await;
        client.accepted().await;
    }
    assert_eq!(stage.person.visits().len(), 3);
}
