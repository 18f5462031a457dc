//! Test harness: a server, and the route of the client to it.

use std::{process, time::Duration};

use tokio::{net::TcpListener, time::timeout};
use wharf::{
    Client, Endpoint,
    client::{ChildCommand, ClientBuilder, ClientHandlerBuilder, Stderr, Target},
    model::{ElicitResult, Root, SamplingResult},
};

use crate::server;

/// Timeout after which a test fails. No test measures a time.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Label of the tests in which the client negotiates the revision.
pub const FOUND_OUT: &str = "found-out";

/// Route from the client to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// The server is in the same process; no bytes are sent.
    Local,
    Memory,
    Child,
    Tcp,
    #[cfg(unix)]
    Unix,
    Http,
    /// HTTP+SSE of 2024-11-05.
    Sse2024,
    #[cfg(feature = "websocket")]
    WebSocket,
    /// Through a proxy, which connects to the server over HTTP.
    Proxy,
}

impl Route {
    /// Returns true if this route supports `revision`.
    pub fn supports(self, revision: &str) -> bool {
        match self {
            Route::Local => revision == FOUND_OUT,
            Route::Sse2024 => revision != "2026-07-28",
            _ => true,
        }
    }
}

/// Server, and the route to it.
pub struct Harness {
    pub route: Route,
    pub revision: &'static str,
    pub endpoint: Endpoint,
    address: String,
}

impl Harness {
    pub async fn start(route: Route, revision: &'static str) -> Harness {
        let endpoint = server::server().build().expect("the server under test builds");
        let mut address = String::new();
        match route {
            Route::Local | Route::Memory | Route::Child => {}
            Route::Tcp => {
                let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
                address = listener.local_addr().expect("an address").to_string();
                let endpoint = endpoint.clone();
                tokio::spawn(async move { endpoint.serve_listener(listener).await });
            }
            #[cfg(unix)]
            Route::Unix => {
                let unique = format!("wharf-client-{}-{:p}.sock", process::id(), &address);
                address = std::env::temp_dir().join(unique).display().to_string();
                let (endpoint, path) = (endpoint.clone(), address.clone());
                tokio::spawn(async move { endpoint.serve_unix(path).await.expect("a socket") });
                while tokio::net::UnixStream::connect(&address).await.is_err() {
                    tokio::task::yield_now().await;
                }
            }
            _ => address = serve_http(&endpoint).await,
        }
        let mut harness = Harness { route, revision, endpoint, address };
        if route == Route::Proxy {
            harness.stand_between().await;
        }
        harness
    }

    /// Starts a proxy between the client and the server.
    async fn stand_between(&mut self) {
        let all = Client::builder().handler(answers());
        let back = all.connect(format!("http://{}/mcp", self.address)).await.expect("the server");
        let proxy = wharf::Server::from(back).build().expect("a proxy");
        self.address = serve_http(&proxy).await;
    }

    /// Target of the client.
    pub fn target(&self) -> Target {
        let address = &self.address;
        match self.route {
            Route::Local | Route::Memory => Target::from(&self.endpoint),
            Route::Child => {
                let this = std::env::current_exe().expect("this binary");
                ChildCommand::new(this.to_string_lossy()).args(["--serve"]).into()
            }
            Route::Tcp => format!("tcp://{address}").into(),
            #[cfg(unix)]
            Route::Unix => format!("unix:{address}").into(),
            Route::Http | Route::Proxy => format!("http://{address}/mcp").into(),
            Route::Sse2024 => format!("http://{address}/sse").into(),
            #[cfg(feature = "websocket")]
            Route::WebSocket => format!("ws://{address}/mcp").into(),
        }
    }

    /// Client builder for the revision of this harness.
    pub fn builder(&self) -> ClientBuilder {
        let mut builder = Client::builder().name("tester", "1.0.0").stderr(Stderr::Null);
        if self.route == Route::Memory {
            // A progress listener makes the client request progress.
            builder = builder.trace(|_| ());
        }
        match self.revision {
            FOUND_OUT => builder,
            date => builder.protocol_version(date.parse().expect("a revision")),
        }
    }

    /// Client that accepts every server request.
    pub async fn client(&self) -> Client {
        self.connect(self.builder().handler(answers())).await
    }

    pub async fn connect(&self, builder: ClientBuilder) -> Client {
        in_time(builder.connect(self.target())).await.expect("a connection")
    }

    /// Returns true if the negotiated revision is known to be `first` or later.
    pub fn is_at_least(&self, first: &str) -> bool {
        match (self.revision, self.route) {
            (FOUND_OUT, Route::Sse2024) => first <= "2025-11-25",
            (FOUND_OUT, _) => true,
            (revision, _) => first <= revision,
        }
    }
}

async fn serve_http(endpoint: &Endpoint) -> String {
    let listener = Endpoint::listen_http("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let endpoint = endpoint.clone();
    tokio::spawn(async move { endpoint.serve_http_on(listener).await });
    address
}

/// Handler that accepts every server request.
pub fn answers() -> ClientHandlerBuilder {
    ClientHandlerBuilder::new()
        .elicit(|_| async { Ok(ElicitResult::accept(serde_json::json!({"confirmed": true}))) })
        .elicit_url(|_| async { Ok(ElicitResult::accept_url()) })
        .sample(|request| async move {
            let asked = request.messages.first().map(|it| it.content.len()).unwrap_or_default();
            Ok(SamplingResult::new("model", format!("a line after {asked}")))
        })
        .fixed_roots([Root::new("file:///work"), Root::new("file:///play")])
}

/// Result of `future`; fails after a timeout.
pub async fn in_time<T>(future: impl IntoFuture<Output = T>) -> T {
    timeout(PATIENCE, future.into_future()).await.expect("patience")
}

pub async fn serve_stdio() {
    let endpoint = server::server().build().expect("the server under test builds");
    endpoint.serve_stdio().await.expect("stdio");
}
