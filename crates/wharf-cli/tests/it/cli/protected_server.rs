//! Protected server: the demo server behind an authorizing proxy, with its authorization server.

use std::{
    collections::HashMap,
    io::{BufRead, BufReader, Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{Arc, Mutex, MutexGuard},
    thread,
    time::Duration,
};

use serde_json::{Value, json};
use url::form_urlencoded;

use crate::cli::sandbox::{DemoServer, Sandbox};

/// Tool that requires its own scope, and is not listed without it.
pub(crate) const GUARDED: (&str, &str) = ("echo", "notes:write");

/// Preregistered client.
pub(crate) const KNOWN: (&str, &str) = ("robot", "s3cr3t-of-robot");

/// Protected server and its authorization server.
pub(crate) struct ProtectedServer {
    /// URL of the protected server.
    pub(crate) url: String,
    state: Arc<Mutex<AuthorizationState>>,
    _demo: DemoServer,
}

/// State of the authorization server.
#[derive(Default)]
pub(crate) struct AuthorizationState {
    /// Valid access tokens, with their scopes.
    pub(crate) access: HashMap<String, String>,
    pub(crate) refresh: HashMap<String, String>,
    codes: HashMap<String, HashMap<String, String>>,
    /// Received requests: method and path, and the form of a POST.
    pub(crate) log: Vec<String>,
    /// Lifetime of tokens in `expires_in`.
    pub(crate) lasts: Option<u64>,
    /// Rejects every authorization request.
    pub(crate) refuses: bool,
    /// Authorization endpoint in the metadata.
    pub(crate) authorize: Option<String>,
    made: u32,
    base: String,
    demo: String,
}

impl ProtectedServer {
    pub(crate) fn new(sandbox: &Sandbox) -> Self {
        let demo = DemoServer::http(sandbox);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let at = demo.url.strip_prefix("http://").unwrap().split_once('/').unwrap().0.to_owned();
        let state = AuthorizationState {
            base: base.clone(),
            demo: at,
            lasts: Some(3600),
            ..AuthorizationState::default()
        };
        let state = Arc::new(Mutex::new(state));
        let shared = state.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = shared.clone();
                thread::spawn(move || serve(&state, stream));
            }
        });
        ProtectedServer { url: format!("{base}/mcp"), state, _demo: demo }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, AuthorizationState> {
        self.state.lock().unwrap()
    }

    /// Number of received requests with this log line.
    pub(crate) fn count(&self, what: &str) -> usize {
        self.state().log.iter().filter(|line| line.contains(what)).count()
    }

    /// Expires all access tokens.
    pub(crate) fn expire(&self) {
        self.state().access.clear();
    }
}

struct IncomingRequest {
    method: String,
    path: String,
    query: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl IncomingRequest {
    fn read(stream: &TcpStream) -> Option<Self> {
        stream.set_read_timeout(Some(Duration::from_secs(60))).ok()?;
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let mut words = line.split_whitespace();
        let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));
        let mut headers = Vec::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let (path, query) = (path.to_owned(), query.to_owned());
        let mut incoming = IncomingRequest { method, path, query, headers, body: Vec::new() };
        let length = incoming.header("content-length").and_then(|it| it.parse().ok()).unwrap_or(0);
        incoming.body = vec![0; length];
        reader.read_exact(&mut incoming.body).ok()?;
        Some(incoming)
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|it| it.0 == name).map(|it| it.1.as_str())
    }

    fn form(&self) -> HashMap<String, String> {
        let text = if self.method == "POST" { &self.body } else { self.query.as_bytes() };
        form_urlencoded::parse(text).into_owned().collect()
    }
}

fn serve(state: &Mutex<AuthorizationState>, mut stream: TcpStream) {
    let Some(incoming) = IncomingRequest::read(&stream) else { return };
    let reply = if incoming.path == "/mcp" {
        let refused = state.lock().unwrap().refused(&incoming);
        match refused {
            Some(challenge) => challenge,
            None => return forward(state, &incoming, stream),
        }
    } else {
        state.lock().unwrap().reply(&incoming)
    };
    let _ = stream.write_all(reply.as_bytes());
    let _ = stream.shutdown(Shutdown::Write);
}

fn answer(status: &str, headers: &str, body: &Value) -> String {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         Connection: close\r\n{headers}\r\n{body}",
        body.len()
    )
}

impl AuthorizationState {
    /// Scope of the caller's token.
    fn scope_of(&self, incoming: &IncomingRequest) -> Option<&str> {
        let token = incoming.header("authorization")?.strip_prefix("Bearer ")?;
        self.access.get(token).map(String::as_str)
    }

    /// Challenge, if the caller lacks a token or a scope.
    fn refused(&mut self, incoming: &IncomingRequest) -> Option<String> {
        let metadata = format!("{}/.well-known/oauth-protected-resource/mcp", self.base);
        let Some(scope) = self.scope_of(incoming) else {
            let stale = if incoming.header("authorization").is_some() {
                "error=\"invalid_token\", "
            } else {
                ""
            };
            let header = format!(
                "WWW-Authenticate: Bearer {stale}resource_metadata=\"{metadata}\", scope=\"notes:read\"\r\n"
            );
            return Some(answer("401 Unauthorized", &header, &Value::Null));
        };
        let call: Value = serde_json::from_slice(&incoming.body).unwrap_or_default();
        let guarded = call["method"] == "tools/call" && call["params"]["name"] == GUARDED.0;
        if guarded && !scope.split(' ').any(|it| it == GUARDED.1) {
            let header = format!(
                "WWW-Authenticate: Bearer error=\"insufficient_scope\", scope=\"{}\", \
                 resource_metadata=\"{metadata}\"\r\n",
                GUARDED.1
            );
            return Some(answer("403 Forbidden", &header, &Value::Null));
        }
        None
    }

    fn reply(&mut self, incoming: &IncomingRequest) -> String {
        let form = incoming.form();
        let mut noted: Vec<String> = form.iter().map(|(name, it)| format!("{name}={it}")).collect();
        noted.sort_unstable();
        let line = format!("{} {} {}", incoming.method, incoming.path, noted.join("&"));
        self.log.push(line);
        match (incoming.method.as_str(), incoming.path.as_str()) {
            ("GET", "/.well-known/oauth-protected-resource/mcp") => {
                answer("200 OK", "", &self.resource())
            }
            ("GET", "/.well-known/oauth-authorization-server") => {
                answer("200 OK", "", &self.metadata())
            }
            ("POST", "/register") => {
                let about: Value = serde_json::from_slice(&incoming.body).unwrap();
                let mut client = about.as_object().unwrap().clone();
                client.insert("client_id".into(), format!("client-{}", self.next()).into());
                answer("201 Created", "", &client.into())
            }
            ("GET", "/authorize") => self.authorized(form),
            ("POST", "/token") => self.token(incoming, &form),
            ("POST", "/revoke") => {
                let token = &form["token"];
                if self.access.contains_key(token) {
                    // Servers with self-contained tokens cannot revoke them.
                    let error = json!({"error": "unsupported_token_type"});
                    return answer("400 Bad Request", "", &error);
                }
                let known = self.refresh.remove(token).is_some();
                answer(if known { "200 OK" } else { "400 Bad Request" }, "", &Value::Null)
            }
            _ => answer("404 Not Found", "", &Value::Null),
        }
    }

    fn resource(&self) -> Value {
        json!({"resource": format!("{}/mcp", self.base), "authorization_servers": [self.base],
            "scopes_supported": ["notes:read", "notes:write"]})
    }

    fn metadata(&self) -> Value {
        let at = |path: &str| format!("{}{path}", self.base);
        json!({"issuer": self.base, "token_endpoint": at("/token"),
            "authorization_endpoint": self.authorize.clone().unwrap_or_else(|| at("/authorize")),
            "registration_endpoint": at("/register"), "revocation_endpoint": at("/revoke"),
            "response_types_supported": ["code"], "code_challenge_methods_supported": ["S256"],
            "grant_types_supported": ["authorization_code", "refresh_token", "client_credentials"],
            "token_endpoint_auth_methods_supported":
                ["none", "client_secret_basic", "client_secret_post"],
            "authorization_response_iss_parameter_supported": true})
    }

    /// Redirects with a code, without user consent.
    fn authorized(&mut self, form: HashMap<String, String>) -> String {
        assert_eq!(
            (form["response_type"].as_str(), form["code_challenge_method"].as_str()),
            ("code", "S256")
        );
        assert_eq!(form["resource"], format!("{}/mcp", self.base));
        let mut back = form_urlencoded::Serializer::new(String::new());
        back.append_pair("state", &form["state"]).append_pair("iss", &self.base);
        let to = form["redirect_uri"].clone();
        if self.refuses {
            back.append_pair("error", "access_denied")
                .append_pair("error_description", "Not today");
        } else {
            let code = format!("code-{}", self.next());
            back.append_pair("code", &code);
            self.codes.insert(code, form);
        }
        let header = format!("Location: {to}?{}\r\n", back.finish());
        answer("302 Found", &header, &Value::Null)
    }

    fn token(&mut self, incoming: &IncomingRequest, form: &HashMap<String, String>) -> String {
        let no = |why: &str| answer("400 Bad Request", "", &json!({"error": why}));
        let scope = match form["grant_type"].as_str() {
            "authorization_code" => {
                let Some(asked) = self.codes.remove(&form["code"]) else {
                    return no("invalid_grant");
                };
                let same = |name: &str| asked.get(name) == form.get(name);
                if !same("redirect_uri") || !same("resource") || form["code_verifier"].len() < 43 {
                    return no("invalid_grant");
                }
                asked.get("scope").cloned().unwrap_or_default()
            }
            "refresh_token" => match self.refresh.remove(&form["refresh_token"]) {
                Some(scope) => scope,
                None => return no("invalid_grant"),
            },
            "client_credentials" => {
                let basic = incoming.header("authorization").unwrap_or_default().to_owned();
                let posted = form.get("client_secret").is_some_and(|it| it == KNOWN.1);
                // robot:s3cr3t-of-robot
                if !posted && basic != "Basic cm9ib3Q6czNjcjN0LW9mLXJvYm90" {
                    return no("invalid_client");
                }
                form.get("scope").cloned().unwrap_or_default()
            }
            _ => return no("unsupported_grant_type"),
        };
        let (access, refresh) =
            (format!("access-{}", self.next()), format!("refresh-{}", self.next()));
        self.access.insert(access.clone(), scope.clone());
        self.refresh.insert(refresh.clone(), scope.clone());
        let mut tokens = json!({"access_token": access, "token_type": "Bearer", "scope": scope});
        if form["grant_type"] != "client_credentials" {
            tokens["refresh_token"] = refresh.into();
        }
        if let Some(lasts) = self.lasts {
            tokens["expires_in"] = lasts.into();
        }
        answer("200 OK", "Cache-Control: no-store\r\n", &tokens)
    }

    fn next(&mut self) -> u32 {
        self.made += 1;
        self.made
    }
}

/// Forwards the request to the demo server, without the caller's token.
fn forward(state: &Mutex<AuthorizationState>, incoming: &IncomingRequest, mut stream: TcpStream) {
    let (demo, writes) = {
        let state = state.lock().unwrap();
        let scope = state.scope_of(incoming).unwrap_or_default();
        (state.demo.clone(), scope.split(' ').any(|it| it == GUARDED.1))
    };
    let mut there = TcpStream::connect(&demo).unwrap();
    let mut head =
        format!("{} /mcp HTTP/1.1\r\nHost: {demo}\r\nConnection: close\r\n", incoming.method);
    for (name, value) in &incoming.headers {
        if !["host", "connection", "authorization", "content-length"].contains(&name.as_str()) {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
    }
    head.push_str(&format!("Content-Length: {}\r\n\r\n", incoming.body.len()));
    there.write_all(head.as_bytes()).unwrap();
    there.write_all(&incoming.body).unwrap();
    let call: Value = serde_json::from_slice(&incoming.body).unwrap_or_default();
    if call["method"] != "tools/list" || writes {
        let _ = std::io::copy(&mut there, &mut stream);
        return;
    }
    let mut whole = String::new();
    let _ = there.read_to_string(&mut whole);
    let body = whole.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    let mut list: Value = serde_json::from_str(body).expect("a list comes as JSON");
    let tools = list["result"]["tools"].as_array_mut().expect("tools");
    tools.retain(|tool| tool["name"] != GUARDED.0);
    let _ = stream.write_all(answer("200 OK", "", &list).as_bytes());
}

/// Opens a page like a browser and follows redirects; returns the last page with its head.
pub(crate) fn browse(url: &str) -> String {
    let mut url = url.to_owned();
    for _ in 0..5 {
        let rest = url.strip_prefix("http://").expect("it is on this machine");
        let (host, path) = rest.split_once('/').unwrap();
        let mut stream = TcpStream::connect(host).unwrap();
        let request = format!("GET /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut page = String::new();
        let _ = stream.read_to_string(&mut page);
        match page.lines().find_map(|line| line.strip_prefix("Location: ")) {
            Some(next) => url = next.to_owned(),
            None => return page,
        }
    }
    panic!("it goes round in circles: {url}");
}
