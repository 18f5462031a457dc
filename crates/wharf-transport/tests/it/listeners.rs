//! Listening sockets: access, connection limits and cleanup.

use std::{io::ErrorKind, net::SocketAddr, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader},
    net::{TcpSocket, TcpStream},
    time::timeout,
};
use wharf_model::{BoxFuture, Implementation, Outbox, Outcome, Request, Service, ToolResult};
use wharf_transport::{LineLimits, ServerContext, Shutdown, server::tcp};
use wharf_wire::{MessageLimits, ServerProtocol};

struct HelloService;

impl Service for HelloService {
    fn call(&self, request: Request, _: Outbox) -> BoxFuture<Outcome> {
        Box::pin(async move {
            if request.target() == "never" {
                std::future::pending::<()>().await;
            }
            ToolResult::text("hello").into()
        })
    }
}

fn host() -> ServerContext {
    let wire = ServerProtocol::new(Implementation::new("sockets", "1"));
    ServerContext::new(Arc::new(wire), HelloService)
}

/// Timeout after which a test fails.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);
/// A call that does not end.
const ENDLESS_CALL: &[u8] = b"{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/call\",\"params\":{\"name\":\"never\",\"_meta\":{\
\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\",\"io.modelcontextprotocol/clientCapabilities\":{}}}}\n";
const PING: &[u8] = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n";

/// Sends a ping and waits for the response.
async fn ping(stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) {
    stream.write_all(PING).await.unwrap();
    pong(stream).await;
}

async fn pong(stream: &mut (impl AsyncRead + Unpin)) {
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).await.unwrap();
    assert!(line.contains("result"), "{line}");
}

/// Connects from this address of the loopback network.
async fn connect_from(address: &str, to: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::new(address.parse().unwrap(), 0)).unwrap();
    socket.connect(to).await.unwrap()
}

/// Starts a server with a connection limit.
async fn serving(host: ServerContext, connections: usize) -> (SocketAddr, Shutdown) {
    let listener = tcp::bind("127.0.0.1:0", tcp::Exposure::Loopback).await.unwrap();
    let address = listener.local_addr().unwrap();
    let shutdown = Shutdown::new();
    tokio::spawn(tcp::serve(Arc::new(host), listener, connections, shutdown.clone()));
    (address, shutdown)
}

#[tokio::test]
async fn for_one_client_too_many_the_longest_idle_connection_is_closed() {
    let (address, shutdown) = serving(host(), 2).await;
    let mut first = TcpStream::connect(address).await.unwrap();
    let mut second = TcpStream::connect(address).await.unwrap();
    ping(&mut first).await;
    ping(&mut second).await;
    let mut third = TcpStream::connect(address).await.unwrap();
    ping(&mut third).await;
    // Either one may be closed: both have been idle for the same time.
    let ended = async {
        let (mut one, mut two) = ([0], [0]);
        tokio::select! {
            ended = first.read(&mut one) => ended,
            ended = second.read(&mut two) => ended,
        }
    };
    assert_eq!(timeout(TEST_TIMEOUT, ended).await.unwrap().unwrap_or(0), 0);
    ping(&mut third).await;
    shutdown.stop();
}

#[tokio::test]
async fn a_connection_with_a_call_is_closed_only_for_a_caller_that_has_less_than_half() {
    let (address, shutdown) = serving(host(), 4).await;
    let mut busy = Vec::new();
    for _ in 0..4 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(ENDLESS_CALL).await.unwrap();
        ping(&mut stream).await;
        busy.push(stream);
    }
    let mut refused = String::new();
    let mut one_more = TcpStream::connect(address).await.unwrap();
    timeout(TEST_TIMEOUT, one_more.read_to_string(&mut refused)).await.unwrap().unwrap();
    assert!(refused.contains("full") && refused.contains("retryAfterMs"), "{refused}");
    for stream in &mut busy {
        ping(stream).await;
    }
    let mut others = Vec::new();
    for _ in 0..2 {
        let mut other = connect_from("127.0.0.2", address).await;
        ping(&mut other).await;
        other.write_all(ENDLESS_CALL).await.unwrap();
        ping(&mut other).await;
        others.push(other);
    }
    // Each caller has half of the connections now.
    let mut refused = String::new();
    let mut third = connect_from("127.0.0.3", address).await;
    timeout(TEST_TIMEOUT, third.read_to_string(&mut refused)).await.unwrap().unwrap();
    assert!(refused.contains("full"), "{refused}");
    for stream in &mut others {
        ping(stream).await;
    }
    shutdown.stop();
}

#[tokio::test]
async fn partial_messages_of_one_caller_leave_memory_for_others() {
    const MESSAGE: usize = 1 << 20;
    let wire = ServerProtocol::new(Implementation::new("sockets", "1"))
        .limits(MessageLimits::default().message(MESSAGE));
    let limits = LineLimits::default().unfinished(4 * MESSAGE);
    let (address, shutdown) = serving(host().wire(Arc::new(wire)).limits(limits), 100).await;
    let unfinished = vec![b' '; MESSAGE - 1000];
    let mut streams = Vec::new();
    let mut refusals = 0;
    for _ in 0..8 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(&unfinished).await.unwrap();
        let mut refusal = [0; 256];
        // A refusal arrives at once; the other connections receive nothing.
        if let Ok(size) = timeout(Duration::from_millis(200), stream.read(&mut refusal)).await {
            let refusal = String::from_utf8_lossy(&refusal[..size.unwrap()]).into_owned();
            assert!(refusal.contains("full") && refusal.contains("retryAfterMs"), "{refusal}");
            refusals += 1;
        }
        streams.push(stream);
    }
    assert_eq!(refusals, 6);
    let mut other = connect_from("127.0.0.2", address).await;
    other.write_all(&unfinished).await.unwrap();
    ping(&mut other).await;
    // A rejected client continues with its next message, any other with the rest of its message.
    for stream in streams.iter_mut().rev() {
        stream.write_all(b"\n").await.unwrap();
        ping(stream).await;
    }
    shutdown.stop();
}

#[tokio::test]
async fn a_client_with_unread_input_receives_all_replies_at_shutdown() {
    let listener = tcp::bind("127.0.0.1:0", tcp::Exposure::Loopback).await.unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let shutdown = Shutdown::new();
    let serving = tokio::spawn(tcp::serve(Arc::new(host()), listener, 2, shutdown.clone()));
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

#[tokio::test]
async fn a_client_that_never_reads_is_disconnected() {
    let limits = LineLimits::default().write(Duration::from_millis(200));
    let (address, shutdown) = serving(host().limits(limits), 2).await;
    let mut client = TcpStream::connect(address).await.unwrap();
    let pings = PING.repeat(1000);
    let writing = async { while client.write_all(&pings).await.is_ok() {} };
    assert!(timeout(Duration::from_secs(20), writing).await.is_ok(), "still connected");
    shutdown.stop();
}

/// The kernel reports room in a socket only when a third of its send buffer is free, so a large buffer hid that the
/// client read.
#[tokio::test]
async fn a_client_that_reads_slowly_and_steadily_stays_connected() {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_send_buffer_size(512 << 10).unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(2).unwrap();
    let address = listener.local_addr().unwrap();
    let host = host().limits(LineLimits::default().write(Duration::from_millis(500)));
    let shutdown = Shutdown::new();
    tokio::spawn(tcp::serve(Arc::new(host), listener, 2, shutdown.clone()));
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(8 << 10).unwrap();
    read_slowly(socket.connect(address).await.unwrap()).await;
    shutdown.stop();
}

/// Sends pings all the time, and reads their replies slowly and steadily.
async fn read_slowly(stream: impl AsyncRead + AsyncWrite + Send + 'static) {
    let (mut input, mut output) = tokio::io::split(stream);
    let writing = tokio::spawn(async move {
        let pings = PING.repeat(1000);
        while output.write_all(&pings).await.is_ok() {}
    });
    let mut piece = [0; 4096];
    for _ in 0..160 {
        tokio::time::sleep(Duration::from_millis(25)).await;
        assert!(input.read(&mut piece).await.is_ok_and(|length| length > 0), "disconnected");
    }
    assert!(!writing.is_finished(), "disconnected");
    writing.abort();
}

/// The kernel reports room in a Unix socket only when three quarters of its send buffer are free.
#[cfg(any(target_os = "android", target_os = "linux"))]
#[tokio::test]
async fn a_client_of_a_unix_socket_that_reads_slowly_and_steadily_stays_connected() {
    use wharf_transport::server::unix;

    let path = std::env::temp_dir().join(format!("wharf-slow-{}.sock", std::process::id()));
    let socket = unix::bind(&path).await.unwrap();
    let host = host().limits(LineLimits::default().write(Duration::from_millis(500)));
    let shutdown = Shutdown::new();
    let serving = tokio::spawn(unix::serve(Arc::new(host), socket, 2, shutdown.clone()));
    read_slowly(tokio::net::UnixStream::connect(&path).await.unwrap()).await;
    shutdown.stop();
    serving.await.unwrap();
}

#[cfg(unix)]
#[tokio::test]
async fn a_socket_of_a_server_that_is_busy_is_left_alone() {
    use tokio::net::{UnixSocket, UnixStream};
    use wharf_transport::server::unix;

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
async fn remote_addresses_are_bound_only_if_allowed() {
    let refused = tcp::bind("0.0.0.0:0", tcp::Exposure::Loopback).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::PermissionDenied);
    assert!(tcp::bind("0.0.0.0:0", tcp::Exposure::Anyone).await.is_ok());
}

#[cfg(unix)]
#[tokio::test]
async fn a_socket_is_private_and_replaces_only_a_dead_one() {
    use std::os::unix::fs::PermissionsExt;
    use wharf_transport::server::unix;

    let path = std::env::temp_dir().join(format!("wharf-sockets-{}.sock", std::process::id()));
    // Socket file of a server that crashed.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let socket = unix::bind(&path).await.unwrap();
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let shutdown = Shutdown::new();
    let serving = tokio::spawn(unix::serve(Arc::new(host()), socket, 8, shutdown.clone()));
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

#[tokio::test]
async fn a_call_that_outlasts_the_shutdown_timeout_is_answered() {
    let limits = LineLimits::default().grace(Duration::from_millis(100));
    let (address, shutdown) = serving(host().limits(limits), 2).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(ENDLESS_CALL).await.unwrap();
    ping(&mut stream).await;
    shutdown.stop();
    let mut rest = String::new();
    timeout(TEST_TIMEOUT, stream.read_to_string(&mut rest)).await.unwrap().unwrap();
    assert_eq!(rest.lines().count(), 1, "{rest}");
    assert!(rest.contains("\"id\":2") && rest.contains("shutting down"), "{rest}");
}
