//! Version negotiation with difficult servers.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use serde_json::json;
use tokio::{
    io::{AsyncRead, ReadBuf},
    time::timeout,
};
use wharf_model::ErrorKind;
use wharf_transport::client::{connect_stream, connect_tcp};
use wharf_wire::AllowedRevisions;

use crate::client_lines::{
    scripted_peer::{ReconnectPort, modern, peer},
    support::{TraceLog, call_text, options, pinned},
};

const LEGACY: &str = "2025-11-25";
const MODERN: &str = "2026-07-28";

#[tokio::test(start_paused = true)]
async fn garbage_on_stdout_is_skipped() {
    let mut options = options();
    let trail = TraceLog::on(&mut options);
    let (mut peer, connecting) = peer(options);
    let connecting = tokio::spawn(connecting);
    peer.print("Listening on stdio…\n\n{\"level\":30,\"msg\":\"ready\"}\n[]\n\"x\"\nnull\n{").await;
    peer.print("}\n").await;
    peer.expect("server/discover").await;
    peer.print("error: what is server/discover?\n").await;
    peer.initialize(LEGACY).await;
    let link = connecting.await.unwrap().unwrap();
    assert_eq!(link.about().revision, LEGACY);
    assert!(trail.count("not a JSON-RPC message") >= 3, "{:?}", trail.all());
}

#[tokio::test(start_paused = true)]
async fn silence_means_a_handshake() {
    let (mut peer, connecting) = peer(options());
    let connecting = tokio::spawn(connecting);
    let probe = peer.expect("server/discover").await;
    peer.initialize(LEGACY).await;
    let link = connecting.await.unwrap().unwrap();
    assert_eq!(link.about().revision, LEGACY);
    // The late response to the probe is ignored.
    let calling = tokio::spawn(async move { call_text(&link, "x").await });
    let call = peer.expect("tools/call").await;
    assert_ne!(call["id"], probe["id"]);
    peer.refuse(&probe, -32601).await;
    peer.reply_text(&call, "late").await;
    assert_eq!(calling.await.unwrap().unwrap(), "late");
}

#[tokio::test(start_paused = true)]
async fn a_slow_modern_server_is_still_modern() {
    let (mut peer, connecting) = peer(options());
    let connecting = tokio::spawn(connecting);
    let probe = peer.expect("server/discover").await;
    // After the timeout the client tries a handshake as well.
    let handshake = peer.expect("initialize").await;
    peer.discover(&probe).await;
    peer.refuse(&handshake, -32601).await;
    assert_eq!(connecting.await.unwrap().unwrap().about().revision, MODERN);
}

#[tokio::test(start_paused = true)]
async fn any_reply_but_a_discovery_starts_a_handshake() {
    for answer in [
        json!({"result": {}}),
        json!({"result": {"tools": []}}),
        json!({"error": {"code": -32601, "message": "Method not found"}}),
        json!({"error": {"code": -32602, "message": "Invalid request parameters"}}),
        json!({"error": {"code": -32000, "message": "not initialized"}}),
        json!({"error": {"code": 0, "message": ""}}),
    ] {
        let (mut peer, connecting) = peer(options());
        let connecting = tokio::spawn(connecting);
        let probe = peer.expect("server/discover").await;
        let mut reply = json!({"jsonrpc": "2.0", "id": probe["id"]});
        reply.as_object_mut().unwrap().extend(answer.as_object().unwrap().clone());
        peer.send(reply).await;
        peer.initialize("2024-11-05").await;
        let about = connecting.await.unwrap().unwrap().about();
        assert_eq!(about.revision, "2024-11-05", "{answer}");
        assert_eq!(about.info.name, "peer");
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_without_an_id_answers_the_probe() {
    let (mut peer, connecting) = peer(options());
    let connecting = tokio::spawn(connecting);
    peer.expect("server/discover").await;
    peer.refuse(&json!({"id": null}), -32600).await;
    let handshake = tokio::time::timeout(std::time::Duration::from_secs(1), peer.read()).await;
    peer.initialized(&handshake.unwrap(), LEGACY).await;
    connecting.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_answers_is_given_up() {
    for options in [options(), pinned(LEGACY), pinned(MODERN)] {
        let (_peer, connecting) = peer(options);
        let error = connecting.await.map(drop).unwrap_err();
        assert!(error.kind.is_retryable(), "{error:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn pings_and_questions_are_met_while_the_conversation_opens() {
    let (mut peer, connecting) = peer(options());
    let connecting = tokio::spawn(connecting);
    let probe = peer.expect("server/discover").await;
    peer.send(json!({"jsonrpc": "2.0", "id": "p", "method": "ping"})).await;
    assert_eq!(peer.read().await, json!({"jsonrpc": "2.0", "id": "p", "result": {}}));
    peer.send(json!({"jsonrpc": "2.0", "id": 1, "method": "no/such"})).await;
    assert_eq!(peer.read().await["error"]["code"], -32601);
    peer.send(json!({"jsonrpc": "2.0", "id": 2, "method": "roots/list"})).await;
    assert!(peer.read().await["error"].is_object());
    peer.discover(&probe).await;
    connecting.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_server_that_only_prints_is_an_error() {
    let (mut peer, connecting) = peer(options());
    let connecting = tokio::spawn(connecting);
    peer.expect("server/discover").await;
    peer.print(&"yes\n".repeat(1001)).await;
    let error = connecting.await.unwrap().map(drop).unwrap_err();
    assert!(error.message.contains("stderr"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_ends_at_the_probe_cannot_be_opened_again() {
    let (mut peer, connecting) = peer(options());
    let connecting = tokio::spawn(connecting);
    peer.expect("server/discover").await;
    drop(peer);
    let error = connecting.await.unwrap().map(drop).unwrap_err();
    assert_eq!(error.kind, ErrorKind::ConnectionClosed, "{error}");
    assert!(error.message.contains("sent nothing"), "{error}");
}

#[tokio::test]
async fn a_server_that_exits_at_the_probe_gets_a_handshake_on_a_new_connection() {
    let (port, address) = ReconnectPort::open().await;
    let connecting = tokio::spawn(connect_tcp(address, options()));
    port.accept().await.expect("server/discover").await;
    port.accept().await.initialize(LEGACY).await;
    assert_eq!(connecting.await.unwrap().unwrap().about().revision, LEGACY);
}

#[tokio::test]
async fn a_server_that_always_closes_at_once_is_an_error() {
    let (port, address) = ReconnectPort::open().await;
    let connecting = tokio::spawn(connect_tcp(address, options()));
    while !connecting.is_finished() {
        tokio::select! {
            peer = port.accept() => drop(peer),
            () = tokio::time::sleep(std::time::Duration::from_millis(5)) => {}
        }
    }
    let error = connecting.await.unwrap().map(drop).unwrap_err();
    assert!(
        matches!(error.kind, ErrorKind::ConnectionClosed | ErrorKind::TransportError),
        "{error}"
    );
}

#[tokio::test]
async fn the_revision_is_cached_and_invalidated_on_failure() {
    let (port, address) = ReconnectPort::open().await;
    let options = options();
    let connect = || tokio::spawn(connect_tcp(address.clone(), options.clone()));
    let connecting = connect();
    let mut peer = port.accept().await;
    let probe = peer.expect("server/discover").await;
    peer.refuse(&probe, -32601).await;
    peer.initialize("2025-06-18").await;
    connecting.await.unwrap().unwrap();
    // The revision is cached now: no probe.
    let connecting = connect();
    let mut peer = port.accept().await;
    peer.initialize("2025-06-18").await;
    connecting.await.unwrap().unwrap();
    // The server has changed since.
    let connecting = connect();
    let mut peer = port.accept().await;
    let handshake = peer.expect("initialize").await;
    peer.refuse(&handshake, -32601).await;
    let probe = peer.read().await;
    peer.discover(&probe).await;
    assert_eq!(connecting.await.unwrap().unwrap().about().revision, MODERN);
    let connecting = connect();
    let mut peer = port.accept().await;
    let probe = peer.read().await;
    peer.discover(&probe).await;
    connecting.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_pinned_revision_is_not_cached() {
    let (port, address) = ReconnectPort::open().await;
    let mut options = options();
    options.revisions = AllowedRevisions::One("2024-11-05".parse().unwrap());
    let connecting = tokio::spawn(connect_tcp(address.clone(), options.clone()));
    port.accept().await.initialize("2024-11-05").await;
    connecting.await.unwrap().unwrap();
    options.revisions = AllowedRevisions::Any;
    let connecting = tokio::spawn(connect_tcp(address, options));
    let mut peer = port.accept().await;
    let probe = peer.read().await;
    peer.discover(&probe).await;
    connecting.await.unwrap().unwrap();
}

/// Sends the same line repeatedly, without a pause.
struct EndlessStream;

impl AsyncRead for EndlessStream {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        buffer.put_slice(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n");
        Poll::Ready(Ok(()))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_never_pauses_does_not_stop_the_clock() {
    let mut options = options();
    (options.probe, options.handshake) = (Duration::from_millis(1), Duration::from_millis(1));
    let connecting = connect_stream((EndlessStream, tokio::io::sink()), options);
    let connected = timeout(Duration::from_secs(60), connecting).await.unwrap();
    assert_eq!(connected.err().unwrap().kind, ErrorKind::RequestTimeout);
}

#[tokio::test(start_paused = true)]
async fn limits_can_be_disabled() {
    let mut options = options();
    (options.probe, options.handshake) = (Duration::MAX, Duration::MAX);
    let limits = &mut options.limits;
    (limits.message, limits.in_flight, limits.outgoing) = (usize::MAX, usize::MAX, usize::MAX);
    let (mut peer, link) = modern(options).await;
    let calling = tokio::spawn(async move { call_text(&link, "x").await });
    let call = peer.expect("tools/call").await;
    peer.reply_text(&call, "x").await;
    assert_eq!(calling.await.unwrap().unwrap(), "x");
}
