//! Client transports over sockets: our own server, and connections that break.

use std::{sync::Arc, time::Duration};

use tokio::{net::TcpListener, task::JoinHandle, time::timeout};
use wharf_client::{ClientTransport, ControlRequest};
use wharf_model::{ErrorKind, LogLevel};
use wharf_transport::{
    client::{connect_tcp, connect_unix},
    server::{tcp, unix},
};

use crate::{
    bed::{Bed, CallBuilder, Trail, call, options, pinned, say, tool},
    peer::Port,
};

pub(crate) async fn works(link: &Arc<dyn ClientTransport>) {
    link.run(ControlRequest::LogLevel(LogLevel::Debug)).await.unwrap();
    assert_eq!(say(link, "now").await.unwrap(), "now {}");
    let (heard, _) = call(link, tool("talk")).await;
    assert_eq!(heard, ["progress 1", "log \"half way\"", "progress 2"]);
}

async fn serve(bed: &Bed) -> (String, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let serving = tcp::serve(bed.host.clone(), listener, 100, bed.shutdown.clone());
    (address, tokio::spawn(serving))
}

#[tokio::test]
async fn tcp_works_in_every_revision() {
    let bed = Bed::new();
    let (address, _) = serve(&bed).await;
    for revision in wharf_wire::Revision::ALL {
        let link = connect_tcp(address.clone(), pinned(revision.as_str())).await.unwrap();
        works(&link).await;
        link.close().await;
    }
}

#[cfg(unix)]
#[tokio::test]
async fn unix_sockets_work() {
    let bed = Bed::new();
    let path = std::env::temp_dir().join(format!("wharf-link-{}.sock", std::process::id()));
    let socket = unix::bind(&path).await.unwrap();
    tokio::spawn(unix::serve(bed.host.clone(), socket, 100, bed.shutdown.clone()));
    let link = connect_unix(&path, options()).await.unwrap();
    works(&link).await;
    link.close().await;
    bed.shutdown.stop();
}

#[tokio::test]
async fn nobody_at_the_address_is_an_error_that_says_where() {
    let (port, address) = Port::open().await;
    drop(port);
    let error = connect_tcp(address.clone(), options()).await.map(drop).unwrap_err();
    assert_eq!(error.kind, ErrorKind::TransportError);
    assert!(error.message.contains(&address) && error.message.contains("check"), "{error}");
    let error = connect_unix("/no/such.sock", options()).await.map(drop).unwrap_err();
    assert!(error.message.contains("/no/such.sock"), "{error}");
}

#[tokio::test]
async fn a_broken_connection_fails_its_calls_and_the_next_call_opens_another() {
    let (port, address) = Port::open().await;
    let connecting = tokio::spawn(connect_tcp(address, pinned("2025-06-18")));
    let mut peer = port.accept().await;
    peer.initialize("2025-06-18").await;
    let link = connecting.await.unwrap().unwrap();
    let hanging = [0, 1].map(|_| {
        let link = link.clone();
        tokio::spawn(async move { say(&link, "x").await })
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
        tokio::spawn(async move { say(&link, "x").await })
    });
    let mut peer = port.accept().await;
    peer.initialize("2025-06-18").await;
    for _ in 0..2 {
        let call = peer.expect("tools/call").await;
        peer.say(&call, "again").await;
    }
    for calling in calling {
        assert_eq!(calling.await.unwrap().unwrap(), "again");
    }
}

#[tokio::test]
async fn the_log_level_is_said_again_over_another_connection() {
    let (port, address) = Port::open().await;
    let mut options = pinned("2025-11-25");
    let trail = Trail::on(&mut options);
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
async fn after_many_failures_calls_fail_at_once_and_say_so() {
    let (port, address) = Port::open().await;
    let connecting = tokio::spawn(connect_tcp(address, pinned("2025-11-25")));
    port.accept().await.initialize("2025-11-25").await;
    let link = connecting.await.unwrap().unwrap();
    drop(port);
    let mut refused = None;
    for _ in 0..8 {
        let error = say(&link, "x").await.unwrap_err();
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
    let (port, address) = Port::open().await;
    let mut options = pinned("2025-11-25");
    let trail = Trail::on(&mut options);
    let connecting = tokio::spawn(connect_tcp(address, options));
    port.accept().await.initialize("2025-11-25").await;
    let link = connecting.await.unwrap().unwrap();
    trail.until("# Connection closed").await;
    let mut calling = CallBuilder::start(&link, tool("x"));
    let mut peer = tokio::select! {
        peer = port.accept() => peer,
        event = calling.next() => panic!("{event:?}"),
    };
    drop(calling);
    peer.initialize("2025-11-25").await;
    let calling = tokio::spawn(async move { say(&link, "y").await });
    let call = timeout(Duration::from_secs(60), peer.expect("tools/call")).await.unwrap();
    assert_eq!(call["params"]["name"], "y");
    peer.say(&call, "y").await;
    calling.await.unwrap().unwrap();
}

#[tokio::test]
async fn calls_that_nobody_polls_hold_up_no_other() {
    let (port, address) = Port::open().await;
    let mut options = options();
    let trail = Trail::on(&mut options);
    let connecting = tokio::spawn(connect_tcp(address, options));
    let mut peer = port.accept().await;
    let probe = peer.read().await;
    peer.discover(&probe).await;
    let link = connecting.await.unwrap().unwrap();
    drop(peer);
    trail.until("# Connection closed").await;
    let mut kept: Vec<_> = (0..3).map(|_| CallBuilder::start(&link, tool("x"))).collect();
    for calling in &mut kept {
        assert!(timeout(Duration::from_millis(1), calling.next()).await.is_err());
    }
    // The first reconnect attempt fails, and the next one is due then.
    drop(port.accept().await);
    drop(port.accept().await);
    let calling = tokio::spawn(async move {
        while say(&link, "x").await.is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    let mut peer = port.accept().await;
    let probe = peer.read().await;
    peer.discover(&probe).await;
    let call = peer.expect("tools/call").await;
    peer.say(&call, "x").await;
    timeout(Duration::from_secs(30), calling).await.unwrap().unwrap();
}
