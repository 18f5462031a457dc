//! Fake MCP server, authorization server and user.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
};
use url::form_urlencoded;
use wharf_auth::client::{
    Auth, AuthorizationRequest, MemoryTokenStore, RedirectParams, UserAgent, UserAgentSession,
};
use wharf_model::{AuthFailure, BoxFuture, CredentialsProvider, Error};

/// One received request.
#[derive(Clone, Debug, Default)]
pub struct RecordedRequest {
    pub verb: String,
    pub path: String,
    pub head: String,
    pub body: String,
}

impl RecordedRequest {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (field, value) = line.split_once(':')?;
            field.eq_ignore_ascii_case(name).then_some(value.trim())
        })
    }

    pub fn form(&self) -> BTreeMap<String, String> {
        form_urlencoded::parse(self.body.as_bytes()).into_owned().collect()
    }

    pub fn field(&self, name: &str) -> String {
        self.form().get(name).cloned().unwrap_or_default()
    }
}

/// Response of a fake server: status, headers, body.
pub type CannedResponse = (u16, Vec<(String, String)>, String);

pub fn json_response(body: Value) -> CannedResponse {
    (200, vec![("content-type".into(), "application/json".into())], body.to_string())
}

pub fn error_response(status: u16, error: &str) -> CannedResponse {
    let (_, headers, body) = json_response(json!({"error": error, "error_description": "because"}));
    (status, headers, body)
}

/// A fake server and its received requests.
#[derive(Clone)]
pub struct FakeServer {
    pub origin: String,
    asked: Arc<Mutex<Vec<RecordedRequest>>>,
}

impl FakeServer {
    async fn start(
        json_response: impl Fn(&str, &RecordedRequest) -> CannedResponse + Send + Sync + 'static,
    ) -> FakeServer {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let server = FakeServer { origin: origin.clone(), asked: Arc::default() };
        let (asked, json_response) = (server.asked.clone(), Arc::new(json_response));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (asked, json_response, origin) =
                    (asked.clone(), json_response.clone(), origin.clone());
                tokio::spawn(async move {
                    let mut stream = BufReader::new(stream);
                    let Some(request) = read(&mut stream).await else { return };
                    asked.lock().unwrap().push(request.clone());
                    let (status, headers, body) = json_response(&origin, &request);
                    let mut head =
                        format!("HTTP/1.1 {status} S\r\ncontent-length: {}\r\n", body.len());
                    for (name, value) in headers {
                        head += &format!("{name}: {value}\r\n");
                    }
                    let _ = stream.write_all(format!("{head}\r\n{body}").as_bytes()).await;
                });
            }
        });
        server
    }

    pub fn asked(&self) -> Vec<RecordedRequest> {
        self.asked.lock().unwrap().clone()
    }

    pub fn clear_requests(&self) {
        self.asked.lock().unwrap().clear();
    }

    pub fn paths(&self) -> Vec<String> {
        self.asked().into_iter().map(|it| it.path).collect()
    }

    pub fn at(&self, path: &str) -> Vec<RecordedRequest> {
        self.asked().into_iter().filter(|it| it.path == path).collect()
    }

    /// Everything that the server received.
    pub fn received_text(&self) -> String {
        self.asked().iter().map(|it| format!("{}\n{}\n{}\n", it.path, it.head, it.body)).collect()
    }
}

async fn read(stream: &mut BufReader<TcpStream>) -> Option<RecordedRequest> {
    let mut asked = RecordedRequest::default();
    let mut first = String::new();
    stream.read_line(&mut first).await.ok()?;
    let mut words = first.split(' ');
    asked.verb = words.next()?.to_owned();
    asked.path = words.next()?.to_owned();
    let mut length = 0;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.ok()?;
        if line.trim().is_empty() {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        asked.head.push_str(&line);
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    asked.body = String::from_utf8(body).ok()?;
    Some(asked)
}

/// A user agent with a scripted redirect, which records the authorization requests.
#[derive(Clone)]
pub struct TestUser {
    pub authorizations: Arc<Mutex<Vec<AuthorizationRequest>>>,
    redirect_uri: Arc<Mutex<String>>,
    redirect: Arc<RedirectFn>,
}

/// Returns the query of the redirect.
type RedirectFn = dyn Fn(&AuthorizationRequest) -> Result<String, Error> + Send + Sync;

impl TestUser {
    /// A user agent that redirects with the query of this function.
    pub fn responding_with(
        redirect: impl Fn(&AuthorizationRequest) -> Result<String, Error> + Send + Sync + 'static,
    ) -> TestUser {
        let redirect_uri = Arc::new(Mutex::new("http://127.0.0.1:7777/callback".to_owned()));
        TestUser { authorizations: Arc::default(), redirect_uri, redirect: Arc::new(redirect) }
    }

    /// A user agent that redirects with a code.
    pub fn consenting() -> TestUser {
        TestUser::responding_with(|to| Ok(format!("code=the-code&state={}", to.state)))
    }

    pub fn set_redirect_uri(&self, uri: &str) {
        *self.redirect_uri.lock().unwrap() = uri.to_owned();
    }

    pub fn authorizations(&self) -> Vec<AuthorizationRequest> {
        self.authorizations.lock().unwrap().clone()
    }

    /// The query of the authorization request with this number.
    pub fn query(&self, visit: usize) -> BTreeMap<String, String> {
        self.authorizations()[visit].url.query_pairs().into_owned().collect()
    }
}

impl UserAgent for TestUser {
    fn prepare(&self, _: Option<&str>) -> BoxFuture<Result<Box<dyn UserAgentSession>, Error>> {
        let at = self.redirect_uri.lock().unwrap().clone();
        let session = TestSession(self.clone(), at);
        Box::pin(async move { Ok(Box::new(session) as Box<dyn UserAgentSession>) })
    }
}

struct TestSession(TestUser, String);

impl UserAgentSession for TestSession {
    fn redirect_uri(&self) -> &str {
        &self.1
    }

    fn visit(
        self: Box<Self>,
        to: AuthorizationRequest,
    ) -> BoxFuture<Result<RedirectParams, Error>> {
        Box::pin(async move {
            self.0.authorizations.lock().unwrap().push(to.clone());
            // Yields, so that other requests can arrive.
            tokio::task::yield_now().await;
            (self.0.redirect)(&to).map(|query| RedirectParams::from_query(&query))
        })
    }
}

/// Response that replaces the default one of a fake server.
pub type ResponseOverride = Arc<dyn Fn(&RecordedRequest) -> Option<CannedResponse> + Send + Sync>;

pub fn no_override() -> ResponseOverride {
    Arc::new(|_| None)
}

pub fn at(
    path: &'static str,
    json_response: impl Fn(&RecordedRequest) -> CannedResponse + Send + Sync + 'static,
) -> ResponseOverride {
    Arc::new(move |asked| (asked.path == path).then(|| json_response(asked)))
}

pub struct TestSetup {
    pub mcp: FakeServer,
    pub issuer: FakeServer,
    pub user: TestUser,
    pub token_store: MemoryTokenStore,
}

pub async fn issuer(overridden: ResponseOverride) -> FakeServer {
    let count = AtomicUsize::new(0);
    FakeServer::start(move |origin, asked| {
        if let Some(document) = overridden(asked) {
            return document;
        }
        match asked.path.as_str() {
            "/.well-known/oauth-authorization-server" => json_response(metadata(origin)),
            "/register" => json_response(json!({"client_id": "registered"})),
            "/token" => {
                let n = count.fetch_add(1, Ordering::SeqCst) + 1;
                json_response(json!({
                    "access_token": format!("access-{n}"),
                    "token_type": "Bearer",
                    "expires_in": 3600,
                    "refresh_token": format!("refresh-{n}"),
                }))
            }
            "/revoke" => json_response(json!({})),
            _ => error_response(404, "not_found"),
        }
    })
    .await
}

pub fn metadata(origin: &str) -> Value {
    json!({
        "issuer": origin,
        "authorization_endpoint": format!("{origin}/authorize?tenant=1"),
        "token_endpoint": format!("{origin}/token"),
        "registration_endpoint": format!("{origin}/register"),
        "revocation_endpoint": format!("{origin}/revoke"),
        "code_challenge_methods_supported": ["plain", "S256"],
        "token_endpoint_auth_methods_supported": ["none"],
    })
}

pub const PRM: &str = "/.well-known/oauth-protected-resource/mcp";

impl TestSetup {
    /// A server, an authorization server and a user, with overridden responses.
    pub async fn with(
        mcp: ResponseOverride,
        authority: ResponseOverride,
        user: TestUser,
    ) -> TestSetup {
        TestSetup::with_metadata(json!({}), mcp, authority, user).await
    }

    /// The same with additional fields in the server's metadata.
    pub async fn with_metadata(
        more: Value,
        mcp: ResponseOverride,
        authority: ResponseOverride,
        user: TestUser,
    ) -> TestSetup {
        let issuer = issuer(authority).await;
        let named = issuer.origin.clone();
        let mcp = FakeServer::start(move |origin, asked| {
            if let Some(document) = mcp(asked) {
                return document;
            }
            match asked.path.as_str() {
                PRM => {
                    let mut document = json!({
                        "resource": format!("{origin}/mcp"),
                        "authorization_servers": [named],
                    });
                    for (name, value) in more.as_object().unwrap() {
                        document[name] = value.clone();
                    }
                    json_response(document)
                }
                _ => error_response(404, "not_found"),
            }
        })
        .await;
        TestSetup { mcp, issuer, user, token_store: MemoryTokenStore::default() }
    }

    pub async fn default_setup() -> TestSetup {
        TestSetup::with(no_override(), no_override(), TestUser::consenting()).await
    }

    pub fn url(&self) -> String {
        format!("{}/mcp", self.mcp.origin)
    }

    pub fn auth(&self) -> Auth {
        Auth::code(self.user.clone()).token_store(self.token_store.clone())
    }

    pub fn client(&self) -> TestClient {
        self.client_with(self.auth())
    }

    pub fn client_with(&self, auth: Auth) -> TestClient {
        let url = self.url();
        TestClient { credentials: auth.at(&url).unwrap(), url }
    }
}

/// Drives a credentials provider as the transport does.
#[derive(Clone)]
pub struct TestClient {
    pub credentials: Arc<dyn CredentialsProvider>,
    pub url: String,
}

impl TestClient {
    /// The headers and mark that would be sent now.
    pub async fn attached(&self) -> (BTreeMap<&'static str, String>, u64) {
        let shown = self.credentials.attach("POST", &self.url).await.unwrap();
        (shown.headers.into_iter().collect(), shown.mark)
    }

    pub async fn authorization(&self) -> Option<String> {
        self.attached().await.0.get("authorization").cloned()
    }

    /// Reports a 401; returns true if there is a new token.
    pub async fn rejected(&self, challenge: &str) -> Result<bool, Error> {
        self.rejected_with(401, challenge, 0).await
    }

    pub async fn rejected_with(
        &self,
        status: u16,
        challenge: &str,
        times: u32,
    ) -> Result<bool, Error> {
        let (_, mark) = self.attached().await;
        self.credentials.on_response(mark, status, None);
        self.credentials.on_auth_failure(auth_failure(status, challenge, mark, times)).await
    }

    /// Reports success of the current credentials.
    pub async fn accepted(&self) {
        let (_, mark) = self.attached().await;
        self.credentials.on_response(mark, 200, None);
    }

    /// Reports `status` with `challenge` until the provider gives up.
    pub async fn retry_until_rejected(
        &self,
        status: u16,
        challenge: impl Fn(u32) -> String,
    ) -> u32 {
        for times in 0..100 {
            match self.rejected_with(status, &challenge(times), times).await {
                Ok(true) => {}
                _ => return times,
            }
        }
        100
    }
}

pub fn auth_failure(status: u16, challenge: &str, mark: u64, times: u32) -> AuthFailure {
    let mut auth_failure = AuthFailure::new("POST", status, mark);
    auth_failure.challenges = vec![challenge.to_owned()];
    auth_failure.times = times;
    auth_failure
}
