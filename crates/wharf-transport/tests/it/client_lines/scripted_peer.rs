//! A server that is scripted by the test, line by line.

use std::{future::Future, sync::Arc, time::Duration};

use serde_json::{Value, json};
use tokio::{
    io::{
        AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader, DuplexStream, Lines,
        ReadHalf, WriteHalf, duplex, split,
    },
    net::{TcpListener, TcpStream},
    time::timeout,
};
use wharf_client::ClientTransport;
use wharf_model::Error;
use wharf_transport::client::{ClientTransportOptions, connect_stream};

/// The server's end of a connection.
pub(crate) struct ScriptedPeer<S = DuplexStream> {
    reader: Lines<BufReader<ReadHalf<S>>>,
    writer: WriteHalf<S>,
}

/// An in-process connection: the peer, and the connecting client.
pub(crate) fn peer(
    options: ClientTransportOptions,
) -> (ScriptedPeer, impl Future<Output = Result<Arc<dyn ClientTransport>, Error>>) {
    let (client, server) = duplex(64 << 10);
    let (reader, writer) = split(client);
    (ScriptedPeer::new(server), connect_stream((reader, writer), options))
}

/// A peer and a transport connected to it with 2025-11-25.
pub(crate) async fn legacy(
    mut options: ClientTransportOptions,
) -> (ScriptedPeer, Arc<dyn ClientTransport>) {
    options.revisions = wharf_wire::AllowedRevisions::One("2025-11-25".parse().unwrap());
    let (mut peer, connecting) = peer(options);
    let connecting = tokio::spawn(connecting);
    peer.initialize("2025-11-25").await;
    (peer, connecting.await.unwrap().unwrap())
}

/// A peer and a transport connected to it with 2026-07-28.
pub(crate) async fn modern(
    options: ClientTransportOptions,
) -> (ScriptedPeer, Arc<dyn ClientTransport>) {
    let (mut peer, connecting) = peer(options);
    let connecting = tokio::spawn(connecting);
    let probe = peer.read().await;
    peer.discover(&probe).await;
    (peer, connecting.await.unwrap().unwrap())
}

impl<S: AsyncRead + AsyncWrite> ScriptedPeer<S> {
    pub(crate) fn new(stream: S) -> Self {
        let (reader, writer) = split(stream);
        ScriptedPeer { reader: BufReader::new(reader).lines(), writer }
    }

    /// Next message; fails after a timeout.
    pub(crate) async fn read(&mut self) -> Value {
        self.next().await.unwrap()
    }

    /// Next message; `None` when the client has disconnected.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        let line = timeout(Duration::from_secs(600), self.reader.next_line()).await.unwrap();
        Some(serde_json::from_str(&line.unwrap()?).unwrap())
    }

    /// Next message with this method.
    pub(crate) async fn expect(&mut self, method: &str) -> Value {
        let message = self.read().await;
        assert_eq!(message["method"], method, "{message}");
        message
    }

    pub(crate) async fn print(&mut self, text: &str) {
        self.writer.write_all(text.as_bytes()).await.unwrap();
    }

    pub(crate) async fn send(&mut self, message: Value) {
        self.print(&format!("{message}\n")).await;
    }

    pub(crate) async fn reply(&mut self, request: &Value, result: Value) {
        self.send(json!({"jsonrpc": "2.0", "id": request["id"], "result": result})).await;
    }

    pub(crate) async fn refuse(&mut self, request: &Value, code: i32) {
        let error = json!({"code": code, "message": "no"});
        self.send(json!({"jsonrpc": "2.0", "id": request["id"], "error": error})).await;
    }

    /// Answers a `tools/call` with a text.
    pub(crate) async fn reply_text(&mut self, request: &Value, text: &str) {
        let content = json!([{"type": "text", "text": text}]);
        self.reply(request, json!({"resultType": "complete", "content": content})).await;
    }

    /// Answers the probe of a modern client.
    pub(crate) async fn discover(&mut self, probe: &Value) {
        assert_eq!(probe["method"], "server/discover", "{probe}");
        let result = json!({
            "resultType": "complete",
            "supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {}},
            "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "peer", "version": "1"}},
        });
        self.reply(probe, result).await;
    }

    /// Answers the handshake of a legacy client.
    pub(crate) async fn initialize(&mut self, revision: &str) {
        let request = self.expect("initialize").await;
        self.initialized(&request, revision).await;
    }

    /// Answers a handshake whose request was already read.
    pub(crate) async fn initialized(&mut self, request: &Value, revision: &str) {
        assert_eq!(request["method"], "initialize", "{request}");
        let result = json!({
            "protocolVersion": revision,
            "capabilities": {"tools": {"listChanged": true}, "resources": {"subscribe": true}},
            "serverInfo": {"name": "peer", "version": "1"},
        });
        self.reply(request, result).await;
        self.expect("notifications/initialized").await;
    }
}

/// A port at which clients reconnect.
pub(crate) struct ReconnectPort(TcpListener);

impl ReconnectPort {
    pub(crate) async fn open() -> (ReconnectPort, String) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        (ReconnectPort(listener), address)
    }

    pub(crate) async fn accept(&self) -> ScriptedPeer<TcpStream> {
        let accepted = timeout(Duration::from_secs(60), self.0.accept()).await;
        ScriptedPeer::new(accepted.unwrap().unwrap().0)
    }
}
