//! Identity provider with one client, the OAuth proxy, and one user, who is already signed in.

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

const CLIENT_ID: &str = "the-proxy";
const CLIENT_SECRET: &str = "the-secret-of-the-proxy";
const ACCESS_TOKEN: &str = "a-token-of-the-provider";

/// Starts the provider at a free port and returns its configuration for the proxy.
pub(crate) async fn start() -> wharf::Result<Provider> {
    let listener = Endpoint::listen_http("127.0.0.1:0").await?;
    let origin = format!("http://{}", listener.local_addr()?);
    let server = Server::new("provider", env!("CARGO_PKG_VERSION")).auth(ProviderPages::default());
    let endpoint = server.build()?;
    tokio::spawn(async move { endpoint.serve_http_on(listener).await });
    let [authorize, token, userinfo] = PATHS.map(|path| format!("{origin}{path}"));
    Ok(Provider::oauth(authorize, token, userinfo, CLIENT_ID, CLIENT_SECRET).secret_in_body(true))
}

const PATHS: [&str; 3] = ["/authorize", "/token", "/userinfo"];

/// Pages of the provider; maps each issued code to its PKCE challenge.
#[derive(Default)]
struct ProviderPages(Mutex<HashMap<String, String>>);

type FormFields = HashMap<String, String>;

impl ProviderPages {
    /// Redirects the browser with an authorization code.
    fn authorize(&self, query: &FormFields) -> Option<Response<Bytes>> {
        let mut back = Url::parse(query.get("redirect_uri")?).ok()?;
        let (state, challenge) = (query.get("state")?, query.get("code_challenge")?);
        let code = random_token(16);
        back.query_pairs_mut().append_pair("code", &code).append_pair("state", state);
        let is_valid =
            query.get("client_id")? == CLIENT_ID && query.get("code_challenge_method")? == "S256";
        self.codes(|codes| codes.insert(code, challenge.clone()));
        let mut response = Response::new(Bytes::new());
        *response.status_mut() = StatusCode::SEE_OTHER;
        let location = HeaderValue::try_from(back.as_str()).ok()?;
        response.headers_mut().insert(header::LOCATION, location);
        is_valid.then_some(response)
    }

    /// Exchanges a code for a token, once.
    fn token(&self, form: &FormFields) -> Option<Response<Bytes>> {
        let challenge = self.codes(|codes| codes.remove(form.get("code")?))?;
        let is_valid =
            form.get("client_id")? == CLIENT_ID && form.get("client_secret")? == CLIENT_SECRET;
        let has_valid_verifier = b64(sha256(form.get("code_verifier")?.as_bytes())) == challenge;
        let token_response = json!({"access_token": ACCESS_TOKEN, "token_type": "Bearer"});
        (is_valid && has_valid_verifier).then(|| Response::new(token_response.to_string().into()))
    }

    fn codes<T>(&self, with: impl FnOnce(&mut HashMap<String, String>) -> T) -> T {
        with(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn user(request: &Request<Bytes>) -> Option<Response<Bytes>> {
    let token = request.headers().get(header::AUTHORIZATION)?.to_str().ok()?;
    let is_valid = token.strip_prefix("Bearer ") == Some(ACCESS_TOKEN);
    is_valid.then(|| Response::new(json!({"sub": "ada"}).to_string().into()))
}

impl Authenticator for ProviderPages {
    fn admit(&self, _: &AuthRequest<'_>) -> AuthDecision {
        AuthDecision::Now(Err(AuthRejection::new(401, "Only the provider's pages are served here")))
    }

    fn paths(&self) -> Vec<String> {
        PATHS.map(str::to_owned).to_vec()
    }

    fn page(&self, request: Request<Bytes>) -> BoxFuture<Response<Bytes>> {
        let fields = |text: &[u8]| form_urlencoded::parse(text).into_owned().collect();
        let response = match request.uri().path() {
            "/authorize" => {
                self.authorize(&fields(request.uri().query().unwrap_or_default().as_bytes()))
            }
            "/token" => self.token(&fields(request.body())),
            _ => user(&request),
        };
        let response = response.unwrap_or_else(|| {
            let mut error_response =
                Response::new(json!({"error": "invalid_request"}).to_string().into());
            *error_response.status_mut() = StatusCode::BAD_REQUEST;
            error_response
        });
        Box::pin(std::future::ready(response))
    }
}
