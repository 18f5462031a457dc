//! Test harness: a server, reachable over one transport.

use std::{
    process::{self, Stdio},
    sync::Mutex,
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, split},
    net::{TcpListener, TcpStream},
    process::{Child, Command},
    time::timeout,
};
use wharf::Endpoint;

use crate::{
    client::Client,
    http_as_lines::{self, StreamableHttpBridge},
    server, web,
};

/// Timeout after which a test fails. No test measures a time.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Transport under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    Memory,
    Stdio,
    Tcp,
    #[cfg(unix)]
    Unix,
    /// HTTP/1.1, with a client that accepts JSON and event streams.
    Http,
    /// HTTP/1.1, with a client that accepts only JSON.
    HttpJson,
    /// HTTP/1.1, with a client that accepts only event streams.
    HttpSse,
    Http2,
    /// HTTP+SSE of 2024-11-05.
    Sse2024,
    #[cfg(feature = "websocket")]
    WebSocket,
}

impl Transport {
    /// Returns true if the server can still be read after the client has closed its end.
    pub fn has_two_ends(self) -> bool {
        LINES.contains(&self)
    }

    /// Returns true if the transport sends only text, so that invalid UTF-8 cannot be sent.
    pub fn sends_text(self) -> bool {
        #[cfg(feature = "websocket")]
        return self == Transport::WebSocket;
        #[cfg(not(feature = "websocket"))]
        false
    }

    /// Returns true if each message is a separate request, as in Streamable HTTP.
    pub fn is_streamable(self) -> bool {
        matches!(
            self,
            Transport::Http | Transport::HttpJson | Transport::HttpSse | Transport::Http2
        )
    }
}

/// Transports with line-delimited messages.
pub const LINES: &[Transport] = &[
    Transport::Memory,
    Transport::Stdio,
    Transport::Tcp,
    #[cfg(unix)]
    Transport::Unix,
];

/// Server that is reachable over one transport.
pub struct Harness {
    pub transport: Transport,
    endpoint: Endpoint,
    address: String,
    /// Server processes: over stdio, each connection has its own.
    children: Mutex<Vec<Child>>,
}

pub type Reader = Box<dyn AsyncRead + Send + Unpin>;
pub type Writer = Box<dyn AsyncWrite + Send + Unpin>;

impl Harness {
    pub async fn start(transport: Transport) -> Harness {
        let endpoint = server::server().build().expect("the server under test builds");
        let mut address = String::new();
        match transport {
            Transport::Memory | Transport::Stdio => {}
            Transport::Tcp => {
                let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
                address = listener.local_addr().expect("an address").to_string();
                let endpoint = endpoint.clone();
                tokio::spawn(async move { endpoint.serve_listener(listener).await });
            }
            #[cfg(unix)]
            Transport::Unix => {
                let unique = format!("wharf-{}-{:p}.sock", process::id(), &address);
                address = std::env::temp_dir().join(unique).display().to_string();
                let (endpoint, path) = (endpoint.clone(), address.clone());
                tokio::spawn(async move { endpoint.serve_unix(path).await.expect("a socket") });
                while tokio::net::UnixStream::connect(&address).await.is_err() {
                    tokio::task::yield_now().await;
                }
            }
            _ => {
                let listener = Endpoint::listen_http("127.0.0.1:0").await.expect("a port");
                address = listener.local_addr().expect("an address").to_string();
                let endpoint = endpoint.clone();
                tokio::spawn(async move { endpoint.serve_http_on(listener).await });
            }
        }
        Harness { transport, endpoint, address, children: Mutex::default() }
    }

    /// Connects a client for `revision` that has not sent anything yet.
    pub async fn connect(&self, revision: &'static str) -> (Reader, Writer) {
        match self.transport {
            Transport::Memory => {
                let (reader, writer) = self.endpoint.connect_memory();
                (Box::new(reader), Box::new(writer))
            }
            Transport::Tcp => {
                let stream = TcpStream::connect(&self.address).await.expect("a connection");
                let (reader, writer) = stream.into_split();
                (Box::new(reader), Box::new(writer))
            }
            #[cfg(unix)]
            Transport::Unix => {
                let stream = tokio::net::UnixStream::connect(&self.address).await;
                let (reader, writer) = split(stream.expect("a connection"));
                (Box::new(reader), Box::new(writer))
            }
            Transport::Stdio => {
                let mut child = this_binary("--serve").spawn().expect("a child");
                let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
                self.children.lock().expect("no panic").push(child);
                (Box::new(stdout.expect("piped")), Box::new(stdin.expect("piped")))
            }
            _ => self.bridge(revision),
        }
    }

    /// Connects a client whose lines are sent over HTTP.
    fn bridge(&self, revision: &'static str) -> (Reader, Writer) {
        let (client, ends) = http_as_lines::halves();
        let (address, url) = (self.address.clone(), format!("http://{}", self.address));
        let (accept, pool) = match self.transport {
            Transport::HttpJson => ("application/json", web::http1()),
            Transport::HttpSse => ("text/event-stream", web::http1()),
            Transport::Http2 => (web::ANYTHING, web::http2()),
            _ => (web::ANYTHING, web::http1()),
        };
        match self.transport {
            Transport::Sse2024 => {
                tokio::spawn(http_as_lines::carry_sse(pool, url, ends));
            }
            #[cfg(feature = "websocket")]
            Transport::WebSocket => {
                tokio::spawn(http_as_lines::carry_websocket(address, ends));
            }
            _ => {
                let url = format!("{url}/mcp");
                tokio::spawn(StreamableHttpBridge { pool, url, accept, revision }.carry(ends));
            }
        }
        client
    }

    /// Connects a client for `revision` that answers every server request.
    pub async fn client(&self, revision: &'static str) -> Client {
        let (reader, writer) = self.connect(revision).await;
        Client::open(reader, writer, revision).await
    }

    /// Shuts down the server, as the application would.
    pub async fn stop(&self) {
        self.endpoint.shutdown();
        let ids: Vec<u32> =
            self.children.lock().expect("no panic").iter().filter_map(Child::id).collect();
        for id in ids {
            let sent = Command::new("kill").arg(id.to_string()).status().await;
            assert!(sent.expect("kill runs").success());
        }
    }

    /// Waits until the server has closed the connection and sends nothing more.
    pub async fn is_over(&self, client: &mut Client) {
        // An HTTP client notices the end of the server only by a failed request.
        let asking = async {
            while self.transport.is_streamable() && client.is_quiet().await {
                client.notify_if_open().await;
            }
        };
        timeout(PATIENCE, asking).await.expect("patience");
        assert_eq!(client.receive().await, None);
    }

    /// Process of the first connection.
    pub fn child(&self) -> Child {
        self.children.lock().expect("no panic").remove(0)
    }
}

/// Command that starts this binary in another role, with piped streams.
pub fn this_binary(role: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("a path"));
    command.arg(role).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    command
}

/// Child role: serves the server under test over stdio.
pub async fn serve_stdio() {
    server::server().serve_stdio().await.expect("stdio can be taken over");
}

/// Parent role: starts a child that inherits all streams, and waits.
pub fn run_parent_process() {
    let exe = std::env::current_exe().expect("a path");
    let child = process::Command::new(exe).arg("--serve").spawn().expect("a child");
    std::mem::forget(child);
    std::thread::sleep(PATIENCE);
}
