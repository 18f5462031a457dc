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

/// How long anything may take before the test gives up. No test measures a time.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// How the server is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    Memory,
    Stdio,
    Tcp,
    #[cfg(unix)]
    Unix,
    /// HTTP/1.1, by a client that can read JSON and events.
    Http,
    /// HTTP/1.1, by a client that can read JSON only.
    HttpJson,
    /// HTTP/1.1, by a client that can read events only.
    HttpSse,
    Http2,
    /// HTTP+SSE of 2024-11-05.
    Sse2024,
    #[cfg(feature = "websocket")]
    WebSocket,
}

impl Transport {
    /// Whether the server can still be heard when the client has closed its end.
    pub fn has_two_ends(self) -> bool {
        LINES.contains(&self)
    }

    /// Whether a message that is no text cannot even be sent.
    pub fn sends_text(self) -> bool {
        #[cfg(feature = "websocket")]
        return self == Transport::WebSocket;
        #[cfg(not(feature = "websocket"))]
        false
    }

    /// Whether each message is a request of its own, as in Streamable HTTP.
    pub fn is_streamable(self) -> bool {
        matches!(
            self,
            Transport::Http | Transport::HttpJson | Transport::HttpSse | Transport::Http2
        )
    }
}

/// Those whose bytes are lines.
pub const LINES: &[Transport] = &[
    Transport::Memory,
    Transport::Stdio,
    Transport::Tcp,
    #[cfg(unix)]
    Transport::Unix,
];

/// A server, reachable over one transport.
pub struct Harness {
    pub transport: Transport,
    endpoint: Endpoint,
    address: String,
    /// Over stdio, each connection is a process of its own.
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

    /// A client that has said nothing yet, and is going to speak `revision`.
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

    /// A client whose lines are carried over HTTP.
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

    /// A client that speaks `revision`, and can be asked anything.
    pub async fn client(&self, revision: &'static str) -> Client {
        let (reader, writer) = self.connect(revision).await;
        Client::open(reader, writer, revision).await
    }

    /// Tells the server to stop, as its owner would.
    pub async fn stop(&self) {
        self.endpoint.shutdown();
        let ids: Vec<u32> =
            self.children.lock().expect("no panic").iter().filter_map(Child::id).collect();
        for id in ids {
            let sent = Command::new("kill").arg(id.to_string()).status().await;
            assert!(sent.expect("kill runs").success());
        }
    }

    /// Waits until the server is gone for a client, which hears nothing more.
    pub async fn is_over(&self, client: &mut Client) {
        // A client notices that the server has stopped only by a failed request.
        let asking = async {
            while self.transport.is_streamable() && client.is_quiet().await {
                client.notify_if_open().await;
            }
        };
        timeout(PATIENCE, asking).await.expect("patience");
        assert_eq!(client.receive().await, None);
    }

    /// The child of the first connection.
    pub fn child(&self) -> Child {
        self.children.lock().expect("no panic").remove(0)
    }
}

/// This very binary, in another role, with its streams piped.
pub fn this_binary(role: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("a path"));
    command.arg(role).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    command
}

/// The child's part: the server under test, over stdio.
pub async fn serve_stdio() {
    server::server().serve_stdio().await.expect("stdio can be taken over");
}

/// The parent's part: a child that shares all its streams, and a long wait.
pub fn run_parent_process() {
    let exe = std::env::current_exe().expect("a path");
    let child = process::Command::new(exe).arg("--serve").spawn().expect("a child");
    std::mem::forget(child);
    std::thread::sleep(PATIENCE);
}
