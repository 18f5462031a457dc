//! Token introspection.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use futures_util::future::join_all;
use http::{Request, Response};
use serde_json::{Value, json};
use tokio::time::{Instant, advance, sleep};
use wharf_auth::server::{Download, Introspection};
use wharf_model::{BoxFuture, Error, RemoteAddress};

use wharf_testbed::fake_issuer::{ISSUER, METADATA, SERVER, TestRequest, invalid_token, now};

/// Status, response and received requests.
type CannedResponse = (u16, Value, Vec<Request<Bytes>>);

/// Introspection endpoint with a configurable response.
#[derive(Clone)]
struct FakeEndpoint(Arc<Mutex<CannedResponse>>);

impl FakeEndpoint {
    fn new(answer: Value) -> Self {
        FakeEndpoint(Arc::new(Mutex::new((200, answer, Vec::new()))))
    }

    fn respond_with(&self, status: u16, answer: Value) {
        let mut inner = self.0.lock().unwrap();
        (inner.0, inner.1) = (status, answer);
    }

    fn asked(&self) -> usize {
        self.0.lock().unwrap().2.len()
    }

    fn authenticator(&self) -> Introspection {
        Introspection::at("https://id.example/introspect")
            .client("mcp server", "s:e/cret")
            .issuer(ISSUER)
            .audience(SERVER)
            .download(self.clone())
    }
}

impl Download for FakeEndpoint {
    fn send(&self, request: Request<Bytes>) -> BoxFuture<Result<Response<Bytes>, Error>> {
        let endpoint = self.clone();
        Box::pin(async move {
            sleep(Duration::from_millis(100)).await;
            let mut inner = endpoint.0.lock().unwrap();
            let is_junk = request.body().starts_with(b"token=junk");
            let answer = if is_junk { json!({"active": false}) } else { inner.1.clone() };
            let mut response = Response::new(Bytes::from(answer.to_string()));
            *response.status_mut() = inner.0.try_into().unwrap();
            inner.2.push(request);
            Ok(response)
        })
    }
}

fn good() -> Value {
    json!({"active": true, "sub": "alice", "aud": SERVER, "scope": "mcp", "exp": now() + 600})
}

#[tokio::test(start_paused = true)]
async fn responses_are_cached_briefly() {
    let endpoint = FakeEndpoint::new(good());
    let authenticator = endpoint.authenticator();
    for _ in 0..5 {
        let pass = TestRequest::bearer("opaque").authenticate(&authenticator).await.unwrap();
        assert_eq!(pass.principal.id(), "https://id.example alice");
        assert!(pass.principal.has_scope("mcp") && pass.until.is_some());
    }
    assert_eq!(endpoint.asked(), 1);
    let request = endpoint.0.lock().unwrap().2.remove(0);
    assert_eq!(request.uri(), "https://id.example/introspect");
    assert_eq!(request.body(), "token=opaque&token_type_hint=access_token");
    // `mcp+server:s%3Ae%2Fcret`, form-encoded.
    assert_eq!(request.headers()["authorization"], "Basic bWNwK3NlcnZlcjpzJTNBZSUyRmNyZXQ=");
    // A revoked token is rejected after the cache lifetime.
    endpoint.respond_with(200, json!({"active": false}));
    assert!(TestRequest::bearer("opaque").authenticate(&authenticator).await.is_ok());
    advance(Duration::from_secs(11)).await;
    let result = TestRequest::bearer("opaque").challenge(&authenticator).await;
    assert_eq!(result, invalid_token("The token is not active"));
}

#[tokio::test(start_paused = true)]
async fn responses_are_validated() {
    let endpoint = FakeEndpoint::new(good());
    let authenticator = endpoint.authenticator();
    let with = |name: &str, value: Value| {
        let mut answer = good();
        match value {
            Value::Null => drop(answer.as_object_mut().unwrap().remove(name)),
            value => answer[name] = value,
        }
        answer
    };
    for (answer, problem) in [
        (with("active", json!("true")), "The token is not active"),
        (with("active", Value::Null), "The token is not active"),
        (with("aud", json!("https://other.example")), "The token is for another audience"),
        (with("aud", Value::Null), "The token is for another audience"),
        (with("iss", json!("https://other.example")), "The token is from another issuer"),
        (with("exp", json!(now() - 31)), "The token has expired"),
        (with("sub", Value::Null), "The token has no subject"),
        (with("token_type", json!("refresh_token")), "The token is not an access token"),
        (with("typ", json!("ID")), "The token is not an access token"),
        (with("token_use", json!("refresh_token")), "The token is not an access token"),
    ] {
        endpoint.respond_with(200, answer.clone());
        let token = format!("opaque-{}", endpoint.asked());
        let result = TestRequest::bearer(&token).challenge(&authenticator).await;
        assert_eq!(result, invalid_token(problem), "{answer}");
    }
    // Clock skew and type names vary; a token without `exp` is accepted for an hour.
    for (name, value) in [
        ("exp", json!(now() - 1)),
        ("exp", Value::Null),
        ("token_type", json!("bearer")),
        ("token_type", json!("DPoP")),
        ("typ", json!("at+jwt")),
        ("token_use", json!("access_token")),
    ] {
        endpoint.respond_with(200, with(name, value));
        let authenticator = endpoint.authenticator();
        let pass = TestRequest::bearer("opaque").authenticate(&authenticator).await.unwrap();
        let most = std::time::SystemTime::now() + Duration::from_secs(3600);
        assert!(pass.until.is_some_and(|until| until <= most), "{name}");
    }
    // Without `aud` if the issuer checks it; never with another `aud`.
    let authenticator = endpoint.authenticator().audience_checked_by_issuer();
    endpoint.respond_with(200, with("aud", json!("https://other.example")));
    assert!(TestRequest::bearer("opaque").authenticate(&authenticator).await.is_err());
    endpoint.respond_with(200, with("aud", Value::Null));
    assert!(TestRequest::bearer("another").authenticate(&authenticator).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn an_unavailable_issuer_leads_to_503() {
    let endpoint = FakeEndpoint::new(good());
    let authenticator = endpoint.authenticator();
    for (status, answer) in [(500, good()), (401, good()), (302, good()), (200, json!([1]))] {
        endpoint.respond_with(status, answer);
        let denied = TestRequest::bearer("opaque").authenticate(&authenticator).await.unwrap_err();
        assert_eq!(denied.status, 503);
    }
    // A flood of tokens is bounded.
    endpoint.respond_with(200, json!({"active": false}));
    let before = endpoint.asked();
    let requests: Vec<TestRequest> =
        (0..5000).map(|number| TestRequest::bearer(&number.to_string())).collect();
    let results =
        join_all(requests.iter().map(|request| request.authenticate(&authenticator))).await;
    // Concurrent and waiting requests: one caller's share.
    let asked = endpoint.asked() - before;
    assert_eq!(asked, 64 + 1024);
    let unknown = results.iter().filter(|it| it.as_ref().is_err_and(|it| it.status == 503));
    assert_eq!(unknown.count(), 5000 - asked);
    let result = TestRequest::without_token().challenge(&authenticator).await;
    assert_eq!(result, (401, format!("Bearer {METADATA}")));
}

/// A request from this address.
fn from(address: &str, token: &str) -> TestRequest {
    let mut request = TestRequest::bearer(token);
    request.scope.insert(RemoteAddress(address.parse().unwrap()));
    request
}

/// Invalid tokens from one address: 5000 in each second.
async fn flood(authenticator: &Introspection) {
    let junk = |number: u32| async move {
        sleep(Duration::from_micros(200) * number).await;
        let request = from("192.0.2.66:1000", &format!("junk-{number}"));
        let denied = request.authenticate(authenticator).await.unwrap_err();
        assert!(matches!(denied.status, 401 | 503), "{}", denied.status);
    };
    join_all((0..40_000).map(junk)).await;
}

/// Duration of an authentication.
async fn authenticate_time(request: TestRequest, authenticator: &Introspection) -> Duration {
    let begin = Instant::now();
    request.authenticate(authenticator).await.unwrap();
    begin.elapsed()
}

#[tokio::test(start_paused = true)]
async fn valid_tokens_do_not_wait_behind_invalid_ones() {
    let endpoint = FakeEndpoint::new(good());
    let authenticator = endpoint.authenticator().cache_ttl(Duration::from_secs(2));
    let answer = Duration::from_millis(100)..Duration::from_millis(110);
    authenticate_time(from("192.0.2.66:1", "alice"), &authenticator).await;
    let visits = async {
        for second in 0..6 {
            sleep(Duration::from_millis(1100)).await;
            // A known token from the address of the flood: as fast as the issuer, or cached.
            let known = authenticate_time(from("192.0.2.66:2", "alice"), &authenticator).await;
            assert!(known < answer.end, "{second}: {known:?}");
            // A new token from another address.
            let newcomer = from("198.51.100.7:1", &format!("bob-{second}"));
            let new = authenticate_time(newcomer, &authenticator).await;
            assert!(answer.contains(&new), "{second}: {new:?}");
        }
    };
    tokio::join!(visits, flood(&authenticator));
}

#[tokio::test(start_paused = true)]
async fn rejections_are_cached_briefly() {
    let endpoint = FakeEndpoint::new(good());
    let authenticator = endpoint.authenticator();
    for (wait, asked) in [(0, 1), (4, 1), (2, 2), (1, 2)] {
        advance(Duration::from_secs(wait)).await;
        let result = TestRequest::bearer("junk").challenge(&authenticator).await;
        assert_eq!(result, invalid_token("The token is not active"));
        assert_eq!(endpoint.asked(), asked);
    }
    // With a zero lifetime, every request is introspected.
    let authenticator = endpoint.authenticator().cache_ttl(Duration::ZERO);
    for asked in [3, 4] {
        assert!(TestRequest::bearer("junk").authenticate(&authenticator).await.is_err());
        assert_eq!(endpoint.asked(), asked);
    }
}
