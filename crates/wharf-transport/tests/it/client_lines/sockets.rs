//! Client transports over sockets: our own server, and connections that break.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use tokio::{net::TcpListener, task::JoinHandle, time::timeout};
use wharf_client::{ClientTransport, ControlRequest};
use wharf_connect::{AddressPolicy, HostConnector, ProxySettings, Resolve};
use wharf_model::{BoxFuture, ErrorKind, LogLevel};
use wharf_transport::{
    client::{connect_tcp, connect_unix},
    server::{tcp, unix},
};

use crate::client_lines::{
    scripted_peer::ReconnectPort,
    support::{StreamCall, StreamServer, TraceLog, call, call_text, options, pinned, tool},
};

pub(crate) async fn works(link: &Arc<dyn ClientTransport>) {
    link.run(ControlRequest::LogLevel(LogLevel::Debug)).await.unwrap();
    assert_eq!(call_text(link, "now").await.unwrap(), "now {}");
    let (received, _) = call(link, tool("talk")).await;
    assert_eq!(received, ["progress 1", "log \"half way\"", "progress 2"]);
}

async fn serve(server: &StreamServer) -> (String, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let serving = tcp::serve(server.host.clone(), listener, 100, server.shutdown.clone());
    (address, tokio::spawn(serving))
}

#[tokio::test]
async fn tcp_works_in_every_revision() {
    let server = StreamServer::new();
    let (address, _) = serve(&server).await;
    for revision in wharf_wire::Revision::ALL {
        let link = connect_tcp(address.clone(), pinned(revision.as_str())).await.unwrap();
        works(&link).await;
        link.close().await;
    }
}

#[cfg(unix)]
#[tokio::test]
async fn unix_sockets_work() {
    let server = StreamServer::new();
    let path = std::env::temp_dir().join(format!("wharf-link-{}.sock", std::process::id()));
    let socket = unix::bind(&path).await.unwrap();
    tokio::spawn(unix::serve(server.host.clone(), socket, 100, server.shutdown.clone()));
    let link = connect_unix(&path, options()).await.unwrap();
    works(&link).await;
    link.close().await;
    server.shutdown.stop();
}

#[tokio::test]
async fn an_unreachable_address_is_named() {
    let (port, address) = ReconnectPort::open().await;
    drop(port);
    let error = connect_tcp(address.clone(), options()).await.map(drop).unwrap_err();
    assert_eq!(error.kind, ErrorKind::TransportError);
    assert!(error.message.contains(&address) && error.message.contains("check"), "{error}");
    let error = connect_unix("/no/such.sock", options()).await.map(drop).unwrap_err();
    assert!(error.message.contains("/no/such.sock"), "{error}");
}

/// Resolves every name to these addresses.
struct Resolved([IpAddr; 2]);

impl Resolve for Resolved {
    fn resolve(&self, _: &str, port: u16) -> BoxFuture<io::Result<Vec<SocketAddr>>> {
        let addresses = self.0.map(|address| SocketAddr::new(address, port));
        Box::pin(async move { Ok(addresses.to_vec()) })
    }
}

#[tokio::test]
async fn the_connector_resolves_a_name_and_tries_each_address() {
    let server = StreamServer::new();
    let (address, _) = serve(&server).await;
    let port = address.rsplit_once(':').unwrap().1;
    // Nothing listens at the first address, and the proxy is not for such connections.
    let resolver = Resolved([[127, 0, 0, 2].into(), [127, 0, 0, 1].into()]);
    let proxy = ProxySettings::url("http://127.0.0.1:1").unwrap();
    let connector = HostConnector::new().resolver(resolver).proxy(proxy);
    let options = options().connector(connector);
    let link = connect_tcp(format!("harbour.example:{port}"), options).await.unwrap();
    works(&link).await;
    link.close().await;
}

#[tokio::test]
async fn an_address_that_the_policy_forbids_is_not_connected_to() {
    let server = StreamServer::new();
    let (address, _) = serve(&server).await;
    let connector = HostConnector::new().addresses(AddressPolicy::PUBLIC);
    let error = connect_tcp(address.clone(), options().connector(connector)).await;
    let error = error.map(drop).unwrap_err();
    assert!(error.message.contains(&address) && error.message.contains("SSRF"), "{error}");
}

#[tokio::test]
async fn an_address_without_a_port_is_refused() {
    for address in ["127.0.0.1", "harbour.example:port", "127.0.0.1:80/mcp", "a b:80"] {
        let error = connect_tcp(address.to_owned(), options()).await.map(drop).unwrap_err();
        assert!(error.message.contains(address), "{error}");
    }
}

#[tokio::test]
async fn a_broken_connection_fails_its_calls_and_the_next_call_opens_another() {
    let (port, address) = ReconnectPort::open().await;
    let connecting = tokio::spawn(connect_tcp(address, pinned("2025-06-18")));
    let mut peer = port.accept().await;
    peer.initialize("2025-06-18").await;
    let link = connecting.await.unwrap().unwrap();
    let hanging = [0, 1].map(|_| {
        let link = link.clone();
        tokio::spawn(async move { call_text(&link, "x").await })
    });
    peer.expect("tools/call").await;
    peer.expect("tools/call").await;
    drop(peer);
    for hanging in hanging {
        let error = hanging.await.unwrap().unwrap_err();
        assert_eq!(error.kind, ErrorKind::ConnectionClosed);
        assert!(error.message.contains("tcp://"), "{error}");
    }
    // Two concurrent calls open one connection.
    let calling = [0, 1].map(|_| {
        let link = link.clone();
        tokio::spawn(async move { call_text(&link, "x").await })
    });
    let mut peer = port.accept().await;
    peer.initialize("2025-06-18").await;
    for _ in 0..2 {
        let call = peer.expect("tools/call").await;
        peer.reply_text(&call, "again").await;
    }
    for calling in calling {
        assert_eq!(calling.await.unwrap().unwrap(), "again");
    }
}

#[tokio::test]
async fn the_log_level_is_resent_after_a_reconnect() {
    let (port, address) = ReconnectPort::open().await;
    let mut options = pinned("2025-11-25");
    let trail = TraceLog::on(&mut options);
    let connecting = tokio::spawn(connect_tcp(address, options));
    let mut peer = port.accept().await;
    peer.initialize("2025-11-25").await;
    let link = connecting.await.unwrap().unwrap();
    let setting = tokio::spawn(link.run(ControlRequest::LogLevel(LogLevel::Error)));
    let set = peer.expect("logging/setLevel").await;
    peer.reply(&set, serde_json::json!({})).await;
    setting.await.unwrap().unwrap();
    drop(peer);
    trail.until("# Connection closed").await;
    let pinging = tokio::spawn(link.run(ControlRequest::Ping));
    let mut peer = port.accept().await;
    peer.initialize("2025-11-25").await;
    assert_eq!(peer.expect("logging/setLevel").await["params"]["level"], "error");
    let ping = peer.expect("ping").await;
    peer.reply(&ping, serde_json::json!({})).await;
    pinging.await.unwrap().unwrap();
}

#[tokio::test]
async fn after_many_failures_calls_fail_immediately() {
    let (port, address) = ReconnectPort::open().await;
    let connecting = tokio::spawn(connect_tcp(address, pinned("2025-11-25")));
    port.accept().await.initialize("2025-11-25").await;
    let link = connecting.await.unwrap().unwrap();
    drop(port);
    let mut refused = None;
    for _ in 0..8 {
        let error = call_text(&link, "x").await.unwrap_err();
        if error.message.contains("in a row") {
            refused = Some(error);
            break;
        }
    }
    let error = refused.unwrap();
    assert_eq!(error.kind, ErrorKind::TransportError);
    assert!(error.message.contains("tried again in"), "{error}");
}

#[tokio::test]
async fn a_call_that_is_dropped_while_a_connection_opens_does_not_stop_it() {
    let (port, address) = ReconnectPort::open().await;
    let mut options = pinned("2025-11-25");
    let trail = TraceLog::on(&mut options);
    let connecting = tokio::spawn(connect_tcp(address, options));
    port.accept().await.initialize("2025-11-25").await;
    let link = connecting.await.unwrap().unwrap();
    trail.until("# Connection closed").await;
    let mut calling = StreamCall::start(&link, tool("x"));
    let mut peer = tokio::select! {
        peer = port.accept() => peer,
        event = calling.next() => panic!("{event:?}"),
    };
    drop(calling);
    peer.initialize("2025-11-25").await;
    let calling = tokio::spawn(async move { call_text(&link, "y").await });
    let call = timeout(Duration::from_secs(60), peer.expect("tools/call")).await.unwrap();
    assert_eq!(call["params"]["name"], "y");
    peer.reply_text(&call, "y").await;
    calling.await.unwrap().unwrap();
}

#[tokio::test]
async fn unpolled_calls_do_not_block_others() {
    let (port, address) = ReconnectPort::open().await;
    let mut options = options();
    let trail = TraceLog::on(&mut options);
    let connecting = tokio::spawn(connect_tcp(address, options));
    let mut peer = port.accept().await;
    let probe = peer.read().await;
    peer.discover(&probe).await;
    let link = connecting.await.unwrap().unwrap();
    drop(peer);
    trail.until("# Connection closed").await;
    let mut kept: Vec<_> = (0..3).map(|_| StreamCall::start(&link, tool("x"))).collect();
    for calling in &mut kept {
        assert!(timeout(Duration::from_millis(1), calling.next()).await.is_err());
    }
    // The first reconnect attempt fails, and the next one is due then.
    drop(port.accept().await);
    drop(port.accept().await);
    let calling = tokio::spawn(async move {
        while call_text(&link, "x").await.is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    let mut peer = port.accept().await;
    let probe = peer.read().await;
    peer.discover(&probe).await;
    let call = peer.expect("tools/call").await;
    peer.reply_text(&call, "x").await;
    timeout(Duration::from_secs(30), calling).await.unwrap().unwrap();
}
