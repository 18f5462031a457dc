//! An identity provider that knows one client, the OAuth proxy, and where Ada is signed in already.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, header};
use serde_json::json;
use url::{Url, form_urlencoded};
use wharf::{
    Endpoint, Server,
    auth::{
        AuthDecision, AuthRejection, AuthRequest, Authenticator,
        jose::{b64, random_token, sha256},
        proxy::Provider,
    },
    model::BoxFuture,
};

const ID: &str = "the-proxy";
const SECRET: &str = "the-secret-of-the-proxy";
const TOKEN: &str = "a-token-of-the-provider";

/// Serves on a port of its own until the process ends: what the proxy needs to know of it.
pub(crate) async fn start() -> wharf::Result<Provider> {
    let listener = Endpoint::listen_http("127.0.0.1:0").await?;
    let origin = format!("http://{}", listener.local_addr()?);
    let server = Server::new("provider", env!("CARGO_PKG_VERSION")).auth(Pages::default());
    let endpoint = server.build()?;
    tokio::spawn(async move { endpoint.serve_http_on(listener).await });
    let [authorize, token, userinfo] = PATHS.map(|path| format!("{origin}{path}"));
    Ok(Provider::oauth(authorize, token, userinfo, ID, SECRET).secret_in_body(true))
}

const PATHS: [&str; 3] = ["/authorize", "/token", "/userinfo"];

/// Its pages, and the challenge of each code that it gave.
#[derive(Default)]
struct Pages(Mutex<HashMap<String, String>>);

type Fields = HashMap<String, String>;

impl Pages {
    /// Sends the browser back with a code.
    fn authorize(&self, asked: &Fields) -> Option<Response<Bytes>> {
        let mut back = Url::parse(asked.get("redirect_uri")?).ok()?;
        let (state, challenge) = (asked.get("state")?, asked.get("code_challenge")?);
        let code = random_token(16);
        back.query_pairs_mut().append_pair("code", &code).append_pair("state", state);
        let is_ours =
            asked.get("client_id")? == ID && asked.get("code_challenge_method")? == "S256";
        self.codes(|codes| codes.insert(code, challenge.clone()));
        let mut response = Response::new(Bytes::new());
        *response.status_mut() = StatusCode::SEE_OTHER;
        let location = HeaderValue::try_from(back.as_str()).ok()?;
        response.headers_mut().insert(header::LOCATION, location);
        is_ours.then_some(response)
    }

    /// A token for a code, once.
    fn token(&self, form: &Fields) -> Option<Response<Bytes>> {
        let challenge = self.codes(|codes| codes.remove(form.get("code")?))?;
        let is_ours = form.get("client_id")? == ID && form.get("client_secret")? == SECRET;
        let is_proved = b64(sha256(form.get("code_verifier")?.as_bytes())) == challenge;
        let granted = json!({"access_token": TOKEN, "token_type": "Bearer"});
        (is_ours && is_proved).then(|| Response::new(granted.to_string().into()))
    }

    fn codes<T>(&self, with: impl FnOnce(&mut HashMap<String, String>) -> T) -> T {
        with(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn user(request: &Request<Bytes>) -> Option<Response<Bytes>> {
    let token = request.headers().get(header::AUTHORIZATION)?.to_str().ok()?;
    let is_ours = token.strip_prefix("Bearer ") == Some(TOKEN);
    is_ours.then(|| Response::new(json!({"sub": "ada"}).to_string().into()))
}

impl Authenticator for Pages {
    fn admit(&self, _: &AuthRequest<'_>) -> AuthDecision {
        AuthDecision::Now(Err(AuthRejection::new(
            401,
            "There is nothing here but the provider's pages",
        )))
    }

    fn paths(&self) -> Vec<String> {
        PATHS.map(str::to_owned).to_vec()
    }

    fn page(&self, request: Request<Bytes>) -> BoxFuture<Response<Bytes>> {
        let fields = |text: &[u8]| form_urlencoded::parse(text).into_owned().collect();
        let answer = match request.uri().path() {
            "/authorize" => {
                self.authorize(&fields(request.uri().query().unwrap_or_default().as_bytes()))
            }
            "/token" => self.token(&fields(request.body())),
            _ => user(&request),
        };
        let answer = answer.unwrap_or_else(|| {
            let mut refused = Response::new(json!({"error": "invalid_request"}).to_string().into());
            *refused.status_mut() = StatusCode::BAD_REQUEST;
            refused
        });
        Box::pin(std::future::ready(answer))
    }
}
