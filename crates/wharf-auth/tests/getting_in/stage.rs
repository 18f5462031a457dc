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
pub struct Asked {
    pub verb: String,
    pub path: String,
    pub head: String,
    pub body: String,
}

impl Asked {
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
pub type Said = (u16, Vec<(String, String)>, String);

pub fn say(body: Value) -> Said {
    (200, vec![("content-type".into(), "application/json".into())], body.to_string())
}

pub fn refuse(status: u16, error: &str) -> Said {
    let (_, headers, body) = say(json!({"error": error, "error_description": "because"}));
    (status, headers, body)
}

/// A fake server and its received requests.
#[derive(Clone)]
pub struct Played {
    pub origin: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Played {
    async fn start(say: impl Fn(&str, &Asked) -> Said + Send + Sync + 'static) -> Played {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let played = Played { origin: origin.clone(), asked: Arc::default() };
        let (asked, say) = (played.asked.clone(), Arc::new(say));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (asked, say, origin) = (asked.clone(), say.clone(), origin.clone());
                tokio::spawn(async move {
                    let mut stream = BufReader::new(stream);
                    let Some(request) = read(&mut stream).await else { return };
                    asked.lock().unwrap().push(request.clone());
                    let (status, headers, body) = say(&origin, &request);
                    let mut head =
                        format!("HTTP/1.1 {status} S\r\ncontent-length: {}\r\n", body.len());
                    for (name, value) in headers {
                        head += &format!("{name}: {value}\r\n");
                    }
                    let _ = stream.write_all(format!("{head}\r\n{body}").as_bytes()).await;
                });
            }
        });
        played
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    pub fn forget(&self) {
        self.asked.lock().unwrap().clear();
    }

    pub fn paths(&self) -> Vec<String> {
        self.asked().into_iter().map(|it| it.path).collect()
    }

    pub fn at(&self, path: &str) -> Vec<Asked> {
        self.asked().into_iter().filter(|it| it.path == path).collect()
    }

    /// Everything that the server received.
    pub fn seen(&self) -> String {
        self.asked().iter().map(|it| format!("{}\n{}\n{}\n", it.path, it.head, it.body)).collect()
    }
}

async fn read(stream: &mut BufReader<TcpStream>) -> Option<Asked> {
    let mut asked = Asked::default();
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
pub struct Person {
    pub visits: Arc<Mutex<Vec<AuthorizationRequest>>>,
    redirect_uri: Arc<Mutex<String>>,
    brings: Arc<Brings>,
}

/// Returns the query of the redirect.
type Brings = dyn Fn(&AuthorizationRequest) -> Result<String, Error> + Send + Sync;

impl Person {
    /// A user agent that redirects with the query of this function.
    pub fn who(
        brings: impl Fn(&AuthorizationRequest) -> Result<String, Error> + Send + Sync + 'static,
    ) -> Person {
        let redirect_uri = Arc::new(Mutex::new("http://127.0.0.1:7777/callback".to_owned()));
        Person { visits: Arc::default(), redirect_uri, brings: Arc::new(brings) }
    }

    /// A user agent that redirects with a code.
    pub fn agrees() -> Person {
        Person::who(|to| Ok(format!("code=the-code&state={}", to.state)))
    }

    pub fn comes_back_to(&self, uri: &str) {
        *self.redirect_uri.lock().unwrap() = uri.to_owned();
    }

    pub fn visits(&self) -> Vec<AuthorizationRequest> {
        self.visits.lock().unwrap().clone()
    }

    /// The query of the authorization request with this number.
    pub fn query(&self, visit: usize) -> BTreeMap<String, String> {
        self.visits()[visit].url.query_pairs().into_owned().collect()
    }
}

impl UserAgent for Person {
    fn prepare(&self, _: Option<&str>) -> BoxFuture<Result<Box<dyn UserAgentSession>, Error>> {
        let at = self.redirect_uri.lock().unwrap().clone();
        let session = Going(self.clone(), at);
        Box::pin(async move { Ok(Box::new(session) as Box<dyn UserAgentSession>) })
    }
}

struct Going(Person, String);

impl UserAgentSession for Going {
    fn redirect_uri(&self) -> &str {
        &self.1
    }

    fn visit(
        self: Box<Self>,
        to: AuthorizationRequest,
    ) -> BoxFuture<Result<RedirectParams, Error>> {
        Box::pin(async move {
            self.0.visits.lock().unwrap().push(to.clone());
            // Yields, so that other requests can arrive.
            tokio::task::yield_now().await;
            (self.0.brings)(&to).map(|query| RedirectParams::from_query(&query))
        })
    }
}

/// Response that replaces the default one of a fake server.
pub type Tweak = Arc<dyn Fn(&Asked) -> Option<Said> + Send + Sync>;

pub fn as_usual() -> Tweak {
    Arc::new(|_| None)
}

pub fn at(path: &'static str, say: impl Fn(&Asked) -> Said + Send + Sync + 'static) -> Tweak {
    Arc::new(move |asked| (asked.path == path).then(|| say(asked)))
}

pub struct Stage {
    pub mcp: Played,
    pub issuer: Played,
    pub person: Person,
    pub token_store: MemoryTokenStore,
}

pub async fn issuer(tweak: Tweak) -> Played {
    let count = AtomicUsize::new(0);
    Played::start(move |origin, asked| {
        if let Some(said) = tweak(asked) {
            return said;
        }
        match asked.path.as_str() {
            "/.well-known/oauth-authorization-server" => say(metadata(origin)),
            "/register" => say(json!({"client_id": "registered"})),
            "/token" => {
                let n = count.fetch_add(1, Ordering::SeqCst) + 1;
                say(json!({
                    "access_token": format!("access-{n}"),
                    "token_type": "Bearer",
                    "expires_in": 3600,
                    "refresh_token": format!("refresh-{n}"),
                }))
            }
            "/revoke" => say(json!({})),
            _ => refuse(404, "not_found"),
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

impl Stage {
    /// A server, an authorization server and a user, with overridden responses.
    pub async fn with(mcp: Tweak, authority: Tweak, person: Person) -> Stage {
        Stage::describing(json!({}), mcp, authority, person).await
    }

    /// The same with additional fields in the server's metadata.
    pub async fn describing(more: Value, mcp: Tweak, authority: Tweak, person: Person) -> Stage {
        let issuer = issuer(authority).await;
        let named = issuer.origin.clone();
        let mcp = Played::start(move |origin, asked| {
            if let Some(said) = mcp(asked) {
                return said;
            }
            match asked.path.as_str() {
                PRM => {
                    let mut said = json!({
                        "resource": format!("{origin}/mcp"),
                        "authorization_servers": [named],
                    });
                    for (name, value) in more.as_object().unwrap() {
                        said[name] = value.clone();
                    }
                    say(said)
                }
                _ => refuse(404, "not_found"),
            }
        })
        .await;
        Stage { mcp, issuer, person, token_store: MemoryTokenStore::default() }
    }

    pub async fn upright() -> Stage {
        Stage::with(as_usual(), as_usual(), Person::agrees()).await
    }

    pub fn url(&self) -> String {
        format!("{}/mcp", self.mcp.origin)
    }

    pub fn auth(&self) -> Auth {
        Auth::code(self.person.clone()).token_store(self.token_store.clone())
    }

    pub fn client(&self) -> Knocker {
        self.knocker(self.auth())
    }

    pub fn knocker(&self, auth: Auth) -> Knocker {
        let url = self.url();
        Knocker { credentials: auth.at(&url).unwrap(), url }
    }
}

/// Drives a credentials provider as the transport does.
#[derive(Clone)]
pub struct Knocker {
    pub credentials: Arc<dyn CredentialsProvider>,
    pub url: String,
}

impl Knocker {
    /// The headers and mark that would be sent now.
    pub async fn shown(&self) -> (BTreeMap<&'static str, String>, u64) {
        let shown = self.credentials.attach("POST", &self.url).await.unwrap();
        (shown.headers.into_iter().collect(), shown.mark)
    }

    pub async fn authorization(&self) -> Option<String> {
        self.shown().await.0.get("authorization").cloned()
    }

    /// Reports a 401; returns true if there is a new token.
    pub async fn refused(&self, challenge: &str) -> Result<bool, Error> {
        self.refused_with(401, challenge, 0).await
    }

    pub async fn refused_with(
        &self,
        status: u16,
        challenge: &str,
        times: u32,
    ) -> Result<bool, Error> {
        let (_, mark) = self.shown().await;
        self.credentials.on_response(mark, status, None);
        self.credentials.on_auth_failure(rebuff(status, challenge, mark, times)).await
    }

    /// Reports success of the current credentials.
    pub async fn accepted(&self) {
        let (_, mark) = self.shown().await;
        self.credentials.on_response(mark, 200, None);
    }

    /// Reports `status` with `challenge` until the provider gives up.
    pub async fn insists(&self, status: u16, challenge: impl Fn(u32) -> String) -> u32 {
        for times in 0..100 {
            match self.refused_with(status, &challenge(times), times).await {
                Ok(true) => {}
                _ => return times,
            }
        }
        100
    }
}

pub fn rebuff(status: u16, challenge: &str, mark: u64, times: u32) -> AuthFailure {
    let mut rebuff = AuthFailure::new("POST", status, mark);
    rebuff.challenges = vec![challenge.to_owned()];
    rebuff.times = times;
    rebuff
}
