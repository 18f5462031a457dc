//! Fake issuer without a network, and test requests.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response};
use serde_json::{Value, json};
use wharf_auth::{
    jose::{JwkSet, SigningKey, b64, random_token, sha256},
    server::{Download, Jwt},
};
use wharf_model::{
    AuthRejection, AuthRequest, AuthResult, Authenticator, BoxFuture, ClientCertificate, Error,
    ErrorKind, RequestExtensions,
};

pub const ISSUER: &str = "https://id.example";
pub const SERVER: &str = "https://mcp.example/mcp";
/// `resource_metadata` of every challenge.
pub const METADATA: &str =
    r#"resource_metadata="https://mcp.example/.well-known/oauth-protected-resource/mcp""#;

pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// An issuer: keys, responses and received requests.
#[derive(Clone, Default)]
pub struct Issuer(Arc<IssuerState>);

#[derive(Default)]
struct IssuerState {
    keys: Mutex<Vec<(String, Arc<SigningKey>)>>,
    pages: Mutex<HashMap<String, (u16, Value)>>,
    asked: Mutex<Vec<String>>,
    down: AtomicBool,
    slow: AtomicUsize,
}

impl Issuer {
    /// An issuer with one key and RFC 8414 metadata.
    pub fn new() -> Self {
        let issuer = Issuer::default();
        issuer.respond_with(
            "https://id.example/.well-known/oauth-authorization-server",
            json!({"issuer": ISSUER, "jwks_uri": "https://id.example/keys"}),
        );
        issuer.rotate("one");
        issuer
    }

    pub fn respond_with(&self, url: &str, answer: Value) {
        self.0.pages.lock().unwrap().insert(url.to_owned(), (200, answer));
    }

    /// Generates the only published key.
    pub fn rotate(&self, kid: &str) -> Arc<SigningKey> {
        self.0.keys.lock().unwrap().clear();
        self.add(kid)
    }

    /// Generates an additional key.
    pub fn add(&self, kid: &str) -> Arc<SigningKey> {
        let key = Arc::new(SigningKey::generate().unwrap());
        self.0.keys.lock().unwrap().push((kid.to_owned(), key.clone()));
        key
    }

    pub fn set_down(&self, down: bool) {
        self.0.down.store(down, Ordering::SeqCst);
    }

    /// Delay of each response, in milliseconds.
    pub fn set_delay(&self, millis: usize) {
        self.0.slow.store(millis, Ordering::SeqCst);
    }

    pub fn asked(&self) -> Vec<String> {
        self.0.asked.lock().unwrap().clone()
    }

    /// Number of JWKS fetches.
    pub fn fetches(&self) -> usize {
        self.asked().iter().filter(|url| url.ends_with("/keys")).count()
    }

    /// A token with the current key.
    pub fn token(&self, claims: &Value) -> String {
        let (kid, key) = self.0.keys.lock().unwrap().last().cloned().unwrap();
        key.sign(&json!({"typ": "at+jwt", "kid": kid}), claims).unwrap()
    }

    /// A valid token with one claim changed.
    pub fn token_with(&self, name: &str, value: Value) -> String {
        let mut claims = good();
        match value {
            Value::Null => drop(claims.as_object_mut().unwrap().remove(name)),
            value => claims[name] = value,
        }
        self.token(&claims)
    }

    pub fn good_token(&self) -> String {
        self.token(&good())
    }

    pub fn jwt(&self) -> Jwt {
        Jwt::issuer(ISSUER).audience(SERVER).download(self.clone())
    }
}

/// Claims of a valid token.
pub fn good() -> Value {
    json!({
        "iss": ISSUER, "sub": "alice", "aud": SERVER, "exp": now() + 600, "iat": now(),
        "scope": "files:read files:write",
    })
}

impl Download for Issuer {
    fn send(&self, request: Request<Bytes>) -> BoxFuture<Result<Response<Bytes>, Error>> {
        let url = request.uri().to_string();
        let inner = self.0.clone();
        Box::pin(async move {
            inner.asked.lock().unwrap().push(url.clone());
            let slow = inner.slow.load(Ordering::SeqCst) as u64;
            if slow > 0 {
                tokio::time::sleep(Duration::from_millis(slow)).await;
            }
            if inner.down.load(Ordering::SeqCst) {
                return Err(Error::new(ErrorKind::TransportError));
            }
            if url.ends_with("/keys") {
                let keys = inner.keys.lock().unwrap();
                let keys = keys.iter().map(|(kid, key)| key.public_jwk().with_kid(kid));
                let set = JwkSet { keys: keys.collect() };
                return Ok(Response::new(serde_json::to_vec(&set).unwrap().into()));
            }
            let page = inner.pages.lock().unwrap().get(&url).cloned();
            let (status, body) = page.unwrap_or((404, json!({})));
            let mut response = Response::new(Bytes::from(body.to_string()));
            *response.status_mut() = status.try_into().unwrap();
            Ok(response)
        })
    }
}

/// A request under construction.
pub struct TestRequest {
    pub method: Method,
    pub uri: String,
    pub headers: HeaderMap,
    pub scope: RequestExtensions,
}

impl TestRequest {
    pub fn without_token() -> Self {
        let (headers, scope) = (HeaderMap::new(), RequestExtensions::new());
        TestRequest { method: Method::POST, uri: "/mcp".into(), headers, scope }
    }

    pub fn bearer(token: &str) -> Self {
        TestRequest::without_token().header("authorization", &format!("Bearer {token}"))
    }

    pub fn header(mut self, name: &'static str, value: &str) -> Self {
        let value = HeaderValue::from_str(value).unwrap();
        self.headers.append(HeaderName::from_static(name), value);
        self
    }

    pub fn uri(mut self, uri: &str) -> Self {
        self.uri = uri.to_owned();
        self
    }

    pub fn method(mut self, method: Method) -> Self {
        self.method = method;
        self
    }

    pub fn certificate(mut self, der: &[u8]) -> Self {
        self.scope.insert(ClientCertificate(der.into()));
        self
    }

    pub async fn authenticate(&self, authenticator: &impl Authenticator) -> AuthResult {
        let uri = self.uri.parse().unwrap();
        let request = AuthRequest::new(&self.method, &uri, &self.headers, &self.scope);
        authenticator.admit(&request).resolve().await
    }

    /// Status and challenges of the rejection.
    pub async fn rejected(&self, authenticator: &impl Authenticator) -> (u16, Vec<String>) {
        let denied =
            self.authenticate(authenticator).await.expect_err("this should have been refused");
        (denied.status, challenges(&denied))
    }

    /// Status and only challenge of the rejection.
    pub async fn challenge(&self, authenticator: &impl Authenticator) -> (u16, String) {
        let (status, mut challenges) = self.rejected(authenticator).await;
        assert_eq!(challenges.len(), 1, "{challenges:?}");
        (status, challenges.remove(0))
    }
}

pub fn challenges(denied: &AuthRejection) -> Vec<String> {
    let all = denied.headers.get_all("www-authenticate");
    all.into_iter().map(|it| it.to_str().unwrap().to_owned()).collect()
}

/// Challenge for an invalid token.
pub fn invalid_token(problem: &str) -> (u16, String) {
    let text =
        format!(r#"Bearer error="invalid_token", error_description="{problem}", {METADATA}"#);
    (401, text)
}

/// Signs DPoP proofs.
pub struct Prover {
    pub key: SigningKey,
    pub header: Value,
}

impl Prover {
    pub fn new() -> Self {
        let key = SigningKey::generate().unwrap();
        let header = json!({"typ": "dpop+jwt", "jwk": key.public_jwk()});
        Prover { key, header }
    }

    pub fn thumbprint(&self) -> String {
        self.key.public_jwk().thumbprint()
    }

    pub fn claims(&self, token: &str) -> Value {
        json!({
            "jti": random_token(16), "htm": "POST", "htu": SERVER, "iat": now(),
            "ath": b64(sha256(token.as_bytes())),
        })
    }

    pub fn proof(&self, claims: &Value) -> String {
        self.key.sign(&self.header, claims).unwrap()
    }

    pub fn request(&self, token: &str, claims: &Value) -> TestRequest {
        let request =
            TestRequest::without_token().header("authorization", &format!("DPoP {token}"));
        request.header("dpop", &self.proof(claims))
    }
}
