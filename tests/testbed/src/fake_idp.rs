//! Fake identity provider over HTTP on loopback.

use std::{
    collections::HashMap,
    convert::Infallible,
    sync::{Arc, Mutex},
    time::{SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use url::{Url, form_urlencoded};
use wharf_auth::jose::{SigningKey, b64, random_token, sha256};

pub const ID: &str = "the-proxy";
pub const SECRET: &str = "s3cret:with/odd chars";

/// Faults of the provider.
#[derive(Clone, Default)]
pub struct IdpBehavior {
    /// Claims to override; null removes one.
    pub claims: Value,
    /// Signs with an unpublished key.
    pub foreign_key: bool,
    /// Response of the token endpoint.
    pub token_error: Option<(u16, Value)>,
    /// Issuer in the metadata.
    pub issuer: Option<String>,
    /// Announces `iss` in responses (RFC 9207).
    pub sends_iss: bool,
    /// Lifetime of its tokens, in seconds.
    pub expires_in: Option<u64>,
    /// Userinfo response.
    pub userinfo: Option<Value>,
}

#[derive(Clone)]
pub struct Idp {
    pub url: String,
    inner: Arc<IdpState>,
}

struct IdpState {
    key: Mutex<SigningKey>,
    behavior: Mutex<IdpBehavior>,
    /// Codes: nonce, challenge, user.
    codes: Mutex<HashMap<String, [String; 3]>>,
    refresh: Mutex<Vec<String>>,
    /// Requests at the token endpoint.
    asked: Mutex<Vec<HashMap<String, String>>>,
}

impl Idp {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let inner = IdpState {
            key: Mutex::new(SigningKey::generate().unwrap()),
            behavior: Mutex::default(),
            codes: Mutex::default(),
            refresh: Mutex::default(),
            asked: Mutex::default(),
        };
        let idp = Idp { url, inner: Arc::new(inner) };
        let serving = idp.clone();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let idp = serving.clone();
                tokio::spawn(async move {
                    let service = service_fn(|request| {
                        let idp = idp.clone();
                        async move { Ok::<_, Infallible>(idp.answer(request).await) }
                    });
                    let _ =
                        http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        idp
    }

    pub fn behavior(&self, behavior: IdpBehavior) {
        *self.inner.behavior.lock().unwrap() = behavior;
    }

    /// Rotates the signing key.
    pub fn rotate(&self) {
        *self.inner.key.lock().unwrap() = SigningKey::generate().unwrap();
    }

    pub fn asked(&self) -> Vec<HashMap<String, String>> {
        self.inner.asked.lock().unwrap().clone()
    }

    /// Signs a user in; returns the redirect.
    pub fn sign_in(&self, url: &Url, user: &str) -> Url {
        assert_eq!(url.path(), "/authorize");
        let asked: HashMap<_, _> = url.query_pairs().into_owned().collect();
        assert_eq!((&*asked["client_id"], &*asked["response_type"]), (ID, "code"));
        assert_eq!(asked["code_challenge_method"], "S256");
        let code = random_token(16);
        let nonce = asked.get("nonce").cloned().unwrap_or_default();
        let good = [nonce, asked["code_challenge"].clone(), user.to_owned()];
        self.inner.codes.lock().unwrap().insert(code.clone(), good);
        let mut back = Url::parse(&asked["redirect_uri"]).unwrap();
        back.query_pairs_mut().append_pair("code", &code).append_pair("state", &asked["state"]);
        back
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let behavior = self.inner.behavior.lock().unwrap().clone();
        if parts.uri.path() == "/authorize" {
            // For a real browser, in which Alice is signed in.
            let url = Url::parse(&format!("{}{}", self.url, parts.uri)).unwrap();
            let mut response = Response::new(Full::default());
            *response.status_mut() = StatusCode::SEE_OTHER;
            let back = self.sign_in(&url, "alice").as_str().parse().unwrap();
            response.headers_mut().insert(header::LOCATION, back);
            return response;
        }
        let (status, value) = match parts.uri.path() {
            "/.well-known/openid-configuration" => (200, self.about(&behavior)),
            "/jwks" => (200, json!({ "keys": [self.inner.key.lock().unwrap().public_jwk()] })),
            "/token" => self.token(&parts.headers, &body, &behavior),
            "/userinfo" => {
                let token = parts.headers[header::AUTHORIZATION].to_str().unwrap();
                assert!(token.starts_with("Bearer upstream-"), "asked with its own token");
                (200, behavior.userinfo.unwrap_or_else(|| json!({"id": 7, "login": "alice"})))
            }
            _ => (404, json!({})),
        };
        let mut response = Response::new(Full::new(value.to_string().into()));
        *response.status_mut() = StatusCode::from_u16(status).unwrap();
        response
    }

    fn about(&self, behavior: &IdpBehavior) -> Value {
        let url = &self.url;
        json!({
            "issuer": behavior.issuer.clone().unwrap_or_else(|| url.clone()),
            "authorization_endpoint": format!("{url}/authorize"),
            "token_endpoint": format!("{url}/token"),
            "jwks_uri": format!("{url}/jwks"),
            "authorization_response_iss_parameter_supported": behavior.sends_iss,
        })
    }

    fn token(
        &self,
        headers: &http::HeaderMap,
        body: &Bytes,
        behavior: &IdpBehavior,
    ) -> (u16, Value) {
        let form: HashMap<String, String> = form_urlencoded::parse(body).into_owned().collect();
        self.inner.asked.lock().unwrap().push(form.clone());
        if let Some(error) = behavior.token_error.clone() {
            return error;
        }
        // `s3cret:with/odd chars`, form-encoded first.
        let right = "the-proxy:s3cret%3Awith%2Fodd+chars";
        let right = base64::Engine::encode(&base64::prelude::BASE64_STANDARD, right);
        if headers[header::AUTHORIZATION] != format!("Basic {right}") {
            return (401, json!({"error": "invalid_client"}));
        }
        let refused = (400, json!({"error": "invalid_grant"}));
        let mut said = json!({
            "access_token": format!("upstream-{}", random_token(8)),
            "token_type": "Bearer",
        });
        if let Some(seconds) = behavior.expires_in {
            let refresh = format!("upstream-refresh-{}", random_token(8));
            (said["expires_in"], said["refresh_token"]) = (seconds.into(), refresh.clone().into());
            self.inner.refresh.lock().unwrap().push(refresh);
        }
        if form["grant_type"] == "refresh_token" {
            let mut good = self.inner.refresh.lock().unwrap();
            let Some(at) = good.iter().position(|it| *it == form["refresh_token"]) else {
                return refused;
            };
            good.remove(at);
            return (200, said);
        }
        let Some([nonce, challenge, user]) = self.inner.codes.lock().unwrap().remove(&form["code"])
        else {
            return refused;
        };
        if b64(sha256(form["code_verifier"].as_bytes())) != challenge {
            return refused;
        }
        said["id_token"] = self.id_token(&nonce, &user, behavior).into();
        (200, said)
    }

    fn id_token(&self, nonce: &str, user: &str, behavior: &IdpBehavior) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let mut claims = json!({
            "iss": self.url, "aud": ID, "sub": user, "nonce": nonce, "iat": now, "exp": now + 300,
            "email": format!("{user}@example.com"), "email_verified": true,
        });
        for (name, value) in behavior.claims.as_object().into_iter().flatten() {
            claims[name] = value.clone();
            if value.is_null() {
                claims.as_object_mut().unwrap().remove(name);
            }
        }
        let own = self.inner.key.lock().unwrap();
        match behavior.foreign_key {
            true => SigningKey::generate().unwrap().sign(&json!({}), &claims),
            false => own.sign(&json!({}), &claims),
        }
        .unwrap()
    }
}
