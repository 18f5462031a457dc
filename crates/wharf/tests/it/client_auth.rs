//! Authorization of Wharf's client at Wharf's server over every HTTP transport, with a scripted authorization server.

use std::{
    collections::HashSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::json;
use wharf::{
    Client, Endpoint, Era, Error,
    auth::{
        AuthRejection, AuthRequest,
        client::{Auth, AuthorizationRequest, RedirectParams, UserAgent, UserAgentSession},
        server::from_fn,
    },
    model::BoxFuture,
    prelude::*,
};

use crate::hostile::scripted_server::{
    self, Action, ReceivedRequest, ScriptedServer, default_http_reply, http_json, in_time,
};

/// Returns the id of the caller.
#[tool]
async fn who(principal: Principal) -> String {
    principal.id().to_owned()
}

/// Writes.
#[tool(scope = "write")]
async fn write() -> String {
    "written".into()
}

/// Issuer of tokens: the valid ones, their number, and the authorization requests of the user.
#[derive(Clone, Default)]
struct Ledger {
    good: Arc<Mutex<HashSet<String>>>,
    given: Arc<AtomicUsize>,
    visits: Arc<Mutex<Vec<String>>>,
    /// Time that the user takes to consent.
    thinking: Duration,
}

impl Ledger {
    fn give(&self) -> String {
        let token = format!("token-{}", self.given.fetch_add(1, Ordering::SeqCst) + 1);
        self.good.lock().unwrap().insert(token.clone());
        token
    }

    /// Invalidates all tokens that were issued so far.
    fn invalidate_all(&self) {
        self.good.lock().unwrap().clear();
    }

    fn given(&self) -> usize {
        self.given.load(Ordering::SeqCst)
    }

    fn visits(&self) -> Vec<String> {
        self.visits.lock().unwrap().clone()
    }

    fn admits(&self, knock: &AuthRequest<'_>) -> Result<Principal, AuthRejection> {
        let shown = knock.headers.get("authorization").and_then(|it| it.to_str().ok());
        let token = shown.and_then(|it| it.strip_prefix("Bearer ")).unwrap_or_default();
        if !self.good.lock().unwrap().contains(token) {
            return Err(AuthRejection::new(401, "Log in first"));
        }
        let scopes = self.visits().last().cloned().unwrap_or_default();
        let scopes = scopes.split(' ').filter(|it| !it.is_empty()).map(str::to_owned);
        Ok(scopes.fold(Principal::new("alice"), Principal::with_scope))
    }
}

/// User agent that consents to everything after a delay.
impl UserAgent for Ledger {
    fn prepare(&self, _: Option<&str>) -> BoxFuture<Result<Box<dyn UserAgentSession>, Error>> {
        let ledger = self.clone();
        Box::pin(async move { Ok(Box::new(ledger) as Box<dyn UserAgentSession>) })
    }
}

impl UserAgentSession for Ledger {
    fn redirect_uri(&self) -> &str {
        "http://127.0.0.1:7777/"
    }

    fn visit(
        self: Box<Self>,
        to: AuthorizationRequest,
    ) -> BoxFuture<Result<RedirectParams, Error>> {
        Box::pin(async move {
            let scope = to.url.query_pairs().find(|it| it.0 == "scope");
            self.visits.lock().unwrap().push(scope.map_or(String::new(), |it| it.1.into_owned()));
            tokio::time::sleep(self.thinking).await;
            Ok(RedirectParams::from_query(&format!("code=c&state={}", to.state)))
        })
    }
}

fn authority(ledger: &Ledger, asked: &ReceivedRequest) -> Action {
    let origin = format!("http://{}", asked.header("host").unwrap_or_default());
    let said = match asked.path.as_str() {
        "/.well-known/oauth-authorization-server" => json!({
            "issuer": origin,
            "authorization_endpoint": format!("{origin}/authorize"),
            "token_endpoint": format!("{origin}/token"),
            "registration_endpoint": format!("{origin}/register"),
            "code_challenge_methods_supported": ["S256"],
        }),
        "/register" => json!({"client_id": "registered"}),
        "/token" => json!({
            "access_token": ledger.give(), "token_type": "Bearer", "refresh_token": "more",
        }),
        _ => return Action::Say(http_json(404, &json!({}))),
    };
    Action::Say(http_json(200, &said))
}

/// Starts a Wharf server and its scripted authorization server; returns the address of the first.
async fn serve(ledger: &Ledger) -> (String, ScriptedServer) {
    let listener = Endpoint::listen_http("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let play = ledger.clone();
    let issuer = ScriptedServer::http(move |asked| authority(&play, asked)).await;
    let judge = ledger.clone();
    let door = from_fn(move |knock: &AuthRequest<'_>| judge.admits(knock))
        .resource(format!("http://{address}/mcp"))
        .issuer(format!("http://{}", issuer.address));
    let server = Server::new("protected", "1.0.0").tool::<who>().tool::<write>().auth(door);
    let endpoint = server.build().unwrap();
    tokio::spawn(async move { endpoint.serve_http_on(listener).await });
    (address, issuer)
}

async fn connect(ledger: &Ledger, url: &str, era: Option<Era>) -> Client {
    let builder = scripted_server::builder().auth(Auth::code(ledger.clone()));
    let builder = match era {
        Some(era) => builder.era(era),
        None => builder,
    };
    in_time(builder.connect(url)).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_authenticates_on_every_transport() {
    for era in [None, Some(Era::Legacy), Some(Era::Modern)] {
        for scheme in ["http", "ws"] {
            let ledger = Ledger::default();
            let (address, _issuer) = serve(&ledger).await;
            let client = connect(&ledger, &format!("{scheme}://{address}/mcp"), era).await;
            let who: String = in_time(client.call_as("who", ())).await.unwrap();
            assert_eq!(who, "alice");
            assert_eq!((ledger.visits().len(), ledger.given()), (1, 1), "{scheme} {era:?}");
            in_time(client.close()).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn prompts_pause_the_timeout() {
    let ledger = Ledger { thinking: Duration::from_millis(1500), ..Ledger::default() };
    let (address, _issuer) = serve(&ledger).await;
    for scheme in ["http", "ws"] {
        let auth = Auth::code(ledger.clone());
        let hurried = Client::builder().auth(auth).handshake(Duration::from_millis(500));
        let client = in_time(hurried.connect(format!("{scheme}://{address}/mcp"))).await.unwrap();
        in_time(client.call("who", ())).await.unwrap();
    }
    assert_eq!(ledger.visits().len(), 2);
}

/// User agent that consents to the first request at once, and to others after five minutes.
#[derive(Clone)]
struct SlowUserAgent(Ledger);

impl UserAgent for SlowUserAgent {
    fn prepare(&self, _: Option<&str>) -> BoxFuture<Result<Box<dyn UserAgentSession>, Error>> {
        let slow = self.clone();
        Box::pin(async move { Ok(Box::new(slow) as Box<dyn UserAgentSession>) })
    }
}

impl UserAgentSession for SlowUserAgent {
    fn redirect_uri(&self) -> &str {
        "http://127.0.0.1:7777/"
    }

    fn visit(
        self: Box<Self>,
        to: AuthorizationRequest,
    ) -> BoxFuture<Result<RedirectParams, Error>> {
        Box::pin(async move {
            if !self.0.visits().is_empty() {
                tokio::time::pause();
                tokio::time::sleep(Duration::from_secs(300)).await;
                tokio::time::resume();
            }
            Box::new(self.0).visit(to).await
        })
    }
}

#[tokio::test]
async fn a_login_pauses_the_timeout_of_its_call() {
    for era in [Era::Legacy, Era::Modern] {
        let ledger = Ledger::default();
        let (address, _issuer) = serve(&ledger).await;
        let auth = Auth::code(SlowUserAgent(ledger.clone()));
        let hurried = Client::builder().auth(auth).era(era).timeout(Duration::from_secs(30));
        let client = hurried.connect(format!("http://{address}/mcp")).await.unwrap();
        let written: String = client.call_as("write", ()).await.unwrap();
        assert_eq!((written.as_str(), ledger.visits().len()), ("written", 2), "{era:?}");
    }
}

/// The server drops the session and the token: the call creates a new session, which needs a login.
#[tokio::test]
async fn a_login_pauses_the_timeout_of_a_reopened_session() {
    let ledger = Ledger::default();
    let play = ledger.clone();
    let server = ScriptedServer::http(move |asked| {
        let shown = asked.header("authorization").and_then(|it| it.strip_prefix("Bearer "));
        let is_in = shown.is_some_and(|token| play.good.lock().unwrap().contains(token));
        match (asked.path.as_str(), asked.verb.as_str(), asked.method()) {
            ("/mcp", "POST", "initialize") if !is_in => {
                Action::Say(b"HTTP/1.1 401 No\r\ncontent-length: 0\r\n\r\n".to_vec())
            }
            ("/mcp", "POST", "initialize") => {
                let reply = asked.reply(json!({
                    "protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                    "serverInfo": {"name": "played", "version": "1"},
                }));
                let (head, body) = ("HTTP/1.1 200 OK\r\nmcp-session-id: 1", reply.to_string());
                let kind = "content-type: application/json";
                let length = format!("content-length: {}", body.len());
                Action::Say(format!("{head}\r\n{kind}\r\n{length}\r\n\r\n{body}").into())
            }
            ("/mcp", "GET", _) => Action::Say(http_json(405, &json!({}))),
            ("/mcp", ..) if !is_in => Action::Say(http_json(404, &json!({}))),
            ("/mcp", ..) => default_http_reply(asked),
            // The response has no refresh token.
            ("/token", ..) => {
                let granted = json!({"access_token": play.give(), "token_type": "Bearer"});
                Action::Say(http_json(200, &granted))
            }
            _ => authority(&play, asked),
        }
    })
    .await;
    let auth = Auth::code(SlowUserAgent(ledger.clone()));
    let hurried = Client::builder().auth(auth).era(Era::Legacy).timeout(Duration::from_secs(30));
    let client = hurried.connect(server.url()).await.unwrap();
    client.call("t", ()).await.unwrap();
    ledger.invalidate_all();
    client.call("t", ()).await.unwrap();
    assert_eq!(ledger.visits().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_calls_whose_token_ended_share_the_next() {
    for era in [Era::Legacy, Era::Modern] {
        let ledger = Ledger::default();
        let (address, _issuer) = serve(&ledger).await;
        let client = connect(&ledger, &format!("http://{address}/mcp"), Some(era)).await;
        ledger.invalidate_all();
        let calls: Vec<_> = (0..16)
            .map(|_| {
                let client = client.clone();
                tokio::spawn(async move { client.call_as::<String>("who", ()).await })
            })
            .collect();
        for call in calls {
            assert_eq!(in_time(call).await.unwrap().unwrap(), "alice");
        }
        // One login at the beginning, and one refresh.
        assert_eq!((ledger.visits().len(), ledger.given()), (1, 2), "{era:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_requests_missing_scopes() {
    for era in [Era::Legacy, Era::Modern] {
        let ledger = Ledger::default();
        let (address, _issuer) = serve(&ledger).await;
        let client = connect(&ledger, &format!("http://{address}/mcp"), Some(era)).await;
        let written: String = in_time(client.call_as("write", ())).await.unwrap();
        assert_eq!(written, "written");
        assert_eq!(ledger.visits(), ["", "write"], "{era:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn endless_input_requests_are_given_up() {
    let ledger = Ledger::default();
    let play = ledger.clone();
    // The server accepts only its own token.
    let server = ScriptedServer::http(move |asked| match asked.path.as_str() {
        "/mcp" => {
            let head = "HTTP/1.1 401 No\r\nwww-authenticate: Bearer scope=\"x\"\r\n";
            Action::Say(format!("{head}content-length: 0\r\n\r\n").into_bytes())
        }
        _ => authority(&play, asked),
    })
    .await;
    let builder = scripted_server::builder().auth(Auth::code(ledger.clone()));
    let error = in_time(builder.connect(server.url())).await.unwrap_err();
    assert!(error.kind().is_unauthenticated(), "{error:?}");
    assert!(ledger.visits().len() <= 3);
    let knocks = server.asked.lock().unwrap().iter().filter(|it| it.path == "/mcp").count();
    assert!(knocks <= 6, "{knocks}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_never_goes_to_another_origin() {
    let thief = ScriptedServer::http(default_http_reply).await;
    let (ledger, url) = (Ledger::default(), thief.url());
    let play = ledger.clone();
    let server = ScriptedServer::http(move |asked| match (asked.path.as_str(), asked.method()) {
        ("/mcp", _) if asked.header("authorization").is_none() => {
            Action::Say(b"HTTP/1.1 401 No\r\ncontent-length: 0\r\n\r\n".to_vec())
        }
        ("/mcp", "tools/call") => Action::Say(
            format!("HTTP/1.1 307 There\r\nlocation: {url}\r\ncontent-length: 0\r\n\r\n").into(),
        ),
        ("/mcp", _) => default_http_reply(asked),
        _ => authority(&play, asked),
    })
    .await;
    let builder = scripted_server::builder().auth(Auth::code(ledger.clone()));
    let client = in_time(builder.connect(server.url())).await.unwrap();
    assert!(in_time(client.call("t", ())).await.is_err());
    assert!(thief.asked.lock().unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn every_request_has_the_client_info() {
    let ledger = Ledger::default();
    let play = ledger.clone();
    let server = ScriptedServer::http(move |asked| {
        let head = "HTTP/1.1 200 OK\r\nmcp-session-id: 1\r\ncontent-type: application/json\r\n";
        match (asked.path.as_str(), asked.verb.as_str(), asked.method()) {
            ("/mcp", ..) if asked.header("authorization").is_none() => {
                Action::Say(b"HTTP/1.1 401 No\r\ncontent-length: 0\r\n\r\n".to_vec())
            }
            ("/mcp", "POST", "initialize") => {
                let reply = asked.reply(json!({
                    "protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                    "serverInfo": {"name": "played", "version": "1"},
                }));
                let body = reply.to_string();
                Action::Say(format!("{head}content-length: {}\r\n\r\n{body}", body.len()).into())
            }
            // The session's GET stream opens and stays silent.
            ("/mcp", "GET", _) => Action::Say(
                b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n: hello\n\n".to_vec(),
            ),
            ("/mcp", ..) => default_http_reply(asked),
            _ => authority(&play, asked),
        }
    })
    .await;
    let client = connect(&ledger, &server.url(), Some(Era::Legacy)).await;
    in_time(client.tools().all()).await.unwrap();
    in_time(client.close()).await;
    let asked = server.asked.lock().unwrap().clone();
    let mut verbs = HashSet::new();
    for request in asked.iter().filter(|it| it.path == "/mcp").skip(1) {
        assert_eq!(request.header("authorization"), Some("Bearer token-1"), "{request:?}");
        verbs.insert(request.verb.clone());
    }
    assert_eq!(verbs, ["POST", "GET", "DELETE"].map(str::to_owned).into());
}
