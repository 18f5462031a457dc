//! WebSocket client transport: our own server, and scripted peers.

use std::{env, fs, path::PathBuf, process::Command, sync::Arc, time::Duration};

use futures_util::{SinkExt, StreamExt};
use http::HeaderValue;
use serde_json::{Value, json};
use tokio::{
    net::{TcpListener, TcpStream},
    time::timeout,
};
use tokio_tungstenite::{
    WebSocketStream, accept_hdr_async,
    tungstenite::{
        Message,
        handshake::server::{Request, Response},
    },
};
use wharf_model::{AuthFailure, AuthHeaders, BoxFuture, CredentialsProvider, Error, ErrorKind};
use wharf_transport::{
    client::connect_websocket,
    server::http::{Http, HttpService, Tls, serve},
};

use crate::client_lines::{
    sockets::works,
    support::{StreamServer, TraceLog, call_text, options, pinned},
};

/// Starts our own server with WebSocket; returns its port.
async fn our_own(server: &StreamServer, http: Http) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let service = HttpService::new(server.host.clone(), http, server.shutdown.clone());
    tokio::spawn(serve(service, listener));
    port
}

#[tokio::test]
async fn websockets_work_in_every_revision() {
    let server = StreamServer::new();
    let url = format!("ws://127.0.0.1:{}/mcp", our_own(&server, Http::new()).await);
    for revision in wharf_wire::Revision::ALL {
        let link = connect_websocket(&url, vec![], pinned(revision.as_str())).await.unwrap();
        works(&link).await;
        link.close().await;
    }
}

#[tokio::test]
async fn an_oversized_message_closes_the_connection_with_a_reason() {
    let server = StreamServer::new();
    let mut options = options();
    options.limits.message = 4000;
    let url = format!("ws://127.0.0.1:{}/mcp", our_own(&server, Http::new()).await);
    let link = connect_websocket(&url, vec![], options).await.unwrap();
    let error = call_text(&link, &"x".repeat(5000)).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::ContentTooLarge, "{error}");
    assert_eq!(call_text(&link, "now").await.unwrap(), "now {}");
}

#[tokio::test]
async fn a_server_without_websocket_is_an_error_with_the_reason() {
    let server = StreamServer::new();
    let port = our_own(&server, Http::new()).await;
    for (url, part) in [
        (&*format!("ws://127.0.0.1:{port}/elsewhere"), "404"),
        (&*format!("wss://localhost:{port}/mcp"), "wss://localhost"),
        ("ws://127.0.0.1:1/", "refused"),
        ("http://127.0.0.1:1/", "ws://"),
        ("ws:/x", "ws://"),
        ("ws://u:secret@127.0.0.1:1/", "header"),
    ] {
        let error = connect_websocket(url, vec![], options()).await.map(drop).unwrap_err();
        assert!(error.message.contains(part), "{url}: {error}");
        assert!(!error.message.contains("secret"), "{error}");
    }
    let url = format!("ws://127.0.0.1:{port}/mcp");
    let header = vec![("Sec-WebSocket-Key".to_owned(), "x".to_owned())];
    assert!(connect_websocket(&url, header, options()).await.is_err());
}

/// The server's end of a WebSocket.
struct WebSocketPeer(WebSocketStream<TcpStream>);

impl WebSocketPeer {
    /// Accepts the next client, which must offer `mcp` and send the header `x-key: k`.
    #[expect(clippy::result_large_err, reason = "the answer is tungstenite's own type")]
    async fn accept(listener: &TcpListener) -> WebSocketPeer {
        let (stream, _) = listener.accept().await.unwrap();
        let greet = |request: &Request, mut response: Response| {
            assert_eq!(request.headers()["sec-websocket-protocol"], "mcp");
            assert_eq!(request.headers()["x-key"], "k");
            assert_eq!(request.uri().path_and_query().unwrap(), "/at?q=1");
            let spoken = HeaderValue::from_static("mcp");
            response.headers_mut().insert("sec-websocket-protocol", spoken);
            Ok(response)
        };
        WebSocketPeer(accept_hdr_async(stream, greet).await.unwrap())
    }

    async fn read(&mut self) -> Message {
        self.0.next().await.unwrap().unwrap()
    }

    async fn request(&mut self, method: &str) -> Value {
        let message: Value = serde_json::from_str(self.read().await.to_text().unwrap()).unwrap();
        assert_eq!(message["method"], method, "{message}");
        message
    }

    async fn reply(&mut self, request: &Value, result: Value) {
        let message = json!({"jsonrpc": "2.0", "id": request["id"], "result": result});
        self.0.send(Message::text(message.to_string())).await.unwrap();
    }

    async fn initialize(&mut self) {
        let request = self.request("initialize").await;
        let server = json!({"name": "peer", "version": "1"});
        let result =
            json!({"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": server});
        self.reply(&request, result).await;
        self.request("notifications/initialized").await;
    }
}

async fn listen() -> (TcpListener, String, Vec<(String, String)>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/at?q=1", listener.local_addr().unwrap());
    (listener, url, vec![("X-Key".to_owned(), "k".to_owned())])
}

/// Credentials provider that takes an hour and blocks everything else.
struct SlowCredentials;

impl CredentialsProvider for SlowCredentials {
    fn attach(&self, _: &str, _: &str) -> BoxFuture<Result<AuthHeaders, Error>> {
        Box::pin(async {
            tokio::time::pause();
            tokio::time::sleep(Duration::from_secs(3600)).await;
            tokio::time::resume();
            Ok(AuthHeaders::new(1, vec![("x-key", "k".to_owned())]))
        })
    }

    fn on_response(&self, _: u64, _: u16, _: Option<&str>) {}

    fn on_auth_failure(&self, _: AuthFailure) -> BoxFuture<Result<bool, Error>> {
        Box::pin(async { Ok(false) })
    }
}

#[tokio::test]
async fn the_server_is_not_held_to_the_time_that_a_login_takes() {
    let (listener, url, _) = listen().await;
    let mut options = pinned("2025-11-25");
    options.credentials = Some(Arc::new(SlowCredentials));
    let connecting = tokio::spawn(async move {
        connect_websocket(&url, vec![], options).await.map(drop).map_err(|error| error.to_string())
    });
    let accepted = timeout(Duration::from_secs(7200), WebSocketPeer::accept(&listener)).await;
    let mut peer = accepted.expect("somebody connects");
    peer.initialize().await;
    assert_eq!(connecting.await.unwrap(), Ok(()));
}

#[tokio::test]
async fn pings_are_answered_and_a_goodbye_opens_another_connection() {
    let (listener, url, headers) = listen().await;
    let mut options = pinned("2025-11-25");
    let trail = TraceLog::on(&mut options);
    let connecting =
        tokio::spawn(async move { connect_websocket(&url, headers, options).await.unwrap() });
    let mut peer = WebSocketPeer::accept(&listener).await;
    peer.initialize().await;
    let link = connecting.await.unwrap();
    peer.0.send(Message::Ping("there?".into())).await.unwrap();
    assert_eq!(peer.read().await, Message::Pong("there?".into()));
    peer.0.send(Message::text("no message")).await.unwrap();
    peer.0.close(None).await.unwrap();
    trail.until("# Connection closed by ws://").await;
    assert_eq!(trail.count("# skipped"), 1, "{:?}", trail.all());
    let calling = tokio::spawn(async move { call_text(&link, "x").await });
    let mut peer = WebSocketPeer::accept(&listener).await;
    peer.initialize().await;
    let call = peer.request("tools/call").await;
    peer.reply(&call, json!({"content": [{"type": "text", "text": "again"}]})).await;
    assert_eq!(calling.await.unwrap().unwrap(), "again");
    assert!(matches!(peer.read().await, Message::Close(_)));
}

#[tokio::test]
async fn a_server_without_pongs_is_disconnected() {
    let (listener, url, headers) = listen().await;
    let mut options = pinned("2025-11-25");
    let trail = TraceLog::on(&mut options);
    let connecting =
        tokio::spawn(async move { connect_websocket(&url, headers, options).await.unwrap() });
    let mut peer = WebSocketPeer::accept(&listener).await;
    peer.initialize().await;
    let _link = connecting.await.unwrap();
    tokio::time::pause();
    tokio::time::sleep(Duration::from_secs(300)).await;
    trail.until("does not answer pings").await;
}

const CERTIFICATE: &str = "WHARF_TEST_CERTIFICATE";

/// Root certificates come from the system, so a child process gets its own through the environment.
#[test]
fn encrypted_websockets_work() {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let folder = env::temp_dir().join(format!("wharf-wss-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join("certificate.pem");
    fs::write(&file, made.cert.pem()).unwrap();
    fs::write(file.with_extension("key"), made.signing_key.serialize_pem()).unwrap();
    let done = Command::new(env::current_exe().unwrap())
        .args(["client_lines::websocket::trusting", "--exact", "--ignored", "--nocapture"])
        .env("SSL_CERT_FILE", &file)
        .env(CERTIFICATE, &file)
        .output()
        .unwrap();
    fs::remove_dir_all(folder).unwrap();
    let said = String::from_utf8_lossy(&done.stdout) + String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success() && said.contains("1 passed"), "{said}");
}

#[tokio::test]
#[ignore = "run by another test, in a process of its own"]
async fn trusting() {
    let file = PathBuf::from(env::var(CERTIFICATE).unwrap());
    let (certificate, key) =
        (fs::read(&file).unwrap(), fs::read(file.with_extension("key")).unwrap());
    let server = StreamServer::new();
    let port = our_own(&server, Http::new().tls(Tls::from_pem(&certificate, &key).unwrap())).await;
    let url = format!("wss://localhost:{port}/mcp");
    let link = connect_websocket(&url, vec![], options()).await.unwrap();
    works(&link).await;
    link.close().await;
}
