//! Listening sockets: who may come, how many at a time, and what is left behind.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{io::ErrorKind, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader},
    net::TcpStream,
    time::timeout,
};
use wharf_model::{
    BoxFuture, Deadlines, Implementation, Outbox, Outcome, Request, Service, ToolResult,
};
use wharf_transport::{Host, LineLimits, Shutdown, TokioTimer, tcp};
use wharf_wire::Wire;

struct Hello;

impl Service for Hello {
    fn call(&self, _: Request, _: Outbox) -> BoxFuture<Outcome> {
        Box::pin(async { ToolResult::text("hello").into() })
    }
}

fn host() -> Arc<Host> {
    Arc::new(Host {
        wire: Arc::new(Wire::new(Implementation::new("sockets", "1"))),
        service: Arc::new(Hello),
        timer: Arc::new(TokioTimer),
        deadlines: Deadlines::default(),
        limits: LineLimits::default(),
    })
}

const PING: &[u8] = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n";

/// Asks for a sign of life and waits for it.
async fn ping(stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) {
    stream.write_all(PING).await.unwrap();
    pong(stream).await;
}

async fn pong(stream: &mut (impl AsyncRead + Unpin)) {
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).await.unwrap();
    assert!(line.contains("result"), "{line}");
}

#[tokio::test]
async fn one_client_too_many_waits_until_another_leaves() {
    let listener = tcp::bind("127.0.0.1:0", tcp::Reach::Loopback).await.unwrap();
    let address = listener.local_addr().unwrap();
    let shutdown = Shutdown::new();
    let serving = tokio::spawn(tcp::serve(host(), listener, 2, shutdown.clone()));
    let mut first = TcpStream::connect(address).await.unwrap();
    let mut second = TcpStream::connect(address).await.unwrap();
    ping(&mut first).await;
    ping(&mut second).await;
    let mut third = TcpStream::connect(address).await.unwrap();
    third.write_all(PING).await.unwrap();
    let waits = timeout(Duration::from_millis(100), pong(&mut third)).await;
    assert!(waits.is_err(), "a third client was served");
    drop(first);
    pong(&mut third).await;
    shutdown.stop();
    serving.await.unwrap();
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn a_client_that_has_sent_too_much_can_read_to_the_end_when_the_server_stops() {
    let listener = tcp::bind("127.0.0.1:0", tcp::Reach::Loopback).await.unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let shutdown = Shutdown::new();
    let serving = tokio::spawn(tcp::serve(host(), listener, 2, shutdown.clone()));
    let pings = PING.repeat(1000);
    let writing = async { while client.write_all(&pings).await.is_ok() {} };
    assert!(timeout(Duration::from_millis(100), writing).await.is_err(), "nothing was full");
    shutdown.stop();
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).await.unwrap();
    assert!(rest.ends_with(b"\n"));
    drop(client);
    serving.await.unwrap();
}

#[cfg(unix)]
#[tokio::test]
async fn a_socket_of_a_server_that_is_busy_is_left_alone() {
    use tokio::net::{UnixSocket, UnixStream};
    use wharf_transport::unix;

    let path = std::env::temp_dir().join(format!("wharf-busy-{}.sock", std::process::id()));
    let busy = UnixSocket::new_stream().unwrap();
    busy.bind(&path).unwrap();
    let _busy = busy.listen(1).unwrap();
    let mut waiting = Vec::new();
    while let Ok(client) = UnixStream::connect(&path).await {
        waiting.push(client);
    }
    assert_eq!(unix::bind(&path).await.unwrap_err().kind(), ErrorKind::AddrInUse);
    assert!(path.exists());
    std::fs::remove_file(&path).unwrap();
}

#[tokio::test]
async fn other_machines_are_let_in_only_if_asked_for() {
    let refused = tcp::bind("0.0.0.0:0", tcp::Reach::Loopback).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::PermissionDenied);
    assert!(tcp::bind("0.0.0.0:0", tcp::Reach::Anyone).await.is_ok());
}

#[cfg(unix)]
#[tokio::test]
async fn a_socket_is_private_and_replaces_only_a_dead_one() {
    use std::os::unix::fs::PermissionsExt;
    use wharf_transport::unix;

    let path = std::env::temp_dir().join(format!("wharf-sockets-{}.sock", std::process::id()));
    // What a server that crashed leaves behind.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let socket = unix::bind(&path).await.unwrap();
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let shutdown = Shutdown::new();
    let serving = tokio::spawn(unix::serve(host(), socket, 8, shutdown.clone()));
    let mut client = tokio::net::UnixStream::connect(&path).await.unwrap();
    ping(&mut client).await;
    assert_eq!(unix::bind(&path).await.unwrap_err().kind(), ErrorKind::AddrInUse);
    shutdown.stop();
    serving.await.unwrap();
    assert!(!path.exists());

    std::fs::write(&path, "not a socket").unwrap();
    assert_eq!(unix::bind(&path).await.unwrap_err().kind(), ErrorKind::AddrInUse);
    assert_eq!(std::fs::read(&path).unwrap(), b"not a socket");
    std::fs::remove_file(&path).unwrap();
}
