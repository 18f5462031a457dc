//! Byte streams that the application opens.

use std::{future::ready, time::Duration};

use tokio::{
    io::{duplex, split},
    sync::mpsc,
    time::timeout,
};
use wharf_client::ControlRequest;
use wharf_transport::client::{StreamConnector, connect_stream};

use crate::client_lines::{scripted_peer::ScriptedPeer, support::options};

/// Connects to a legacy server, cuts the connection, and returns the method of the first request on the next one.
async fn first_request_after_reconnect(name: Option<&str>) -> String {
    let (sender, mut peers) = mpsc::unbounded_channel();
    let mut connector = StreamConnector::new(move || {
        let (client, server) = duplex(64 << 10);
        sender.send(ScriptedPeer::new(server)).unwrap();
        ready(Ok(split(client)))
    });
    if let Some(name) = name {
        connector = connector.name(name);
    }
    let connecting = tokio::spawn(connect_stream(connector, options()));
    let mut peer = peers.recv().await.unwrap();
    let probe = peer.expect("server/discover").await;
    peer.refuse(&probe, -32601).await;
    peer.initialize("2025-11-25").await;
    let link = connecting.await.unwrap().unwrap();

    drop(peer);
    // The first request may still find the connection.
    let requests = tokio::spawn(async move {
        loop {
            let _ = link.run(ControlRequest::Ping).await;
        }
    });
    let mut peer = timeout(Duration::from_secs(60), peers.recv()).await.unwrap().unwrap();
    let request = peer.read().await;
    requests.abort();
    request["method"].as_str().unwrap().to_owned()
}

#[tokio::test(start_paused = true)]
async fn the_revision_is_cached_by_the_name_of_the_connector() {
    assert_eq!(first_request_after_reconnect(Some("modem")).await, "initialize");
    assert_eq!(first_request_after_reconnect(None).await, "server/discover");
}

#[tokio::test(start_paused = true)]
async fn a_connector_that_does_not_answer_is_given_up_after_the_handshake_timeout() {
    let connector = StreamConnector::new(|| {
        std::future::pending::<std::io::Result<(tokio::io::Empty, tokio::io::Sink)>>()
    });
    let connecting =
        connect_stream(connector.name("modem"), options().handshake(Duration::from_secs(7)));
    let error = timeout(Duration::from_secs(8), connecting).await.unwrap().err().unwrap();
    assert!(error.message.contains("modem: no response within 7 s"), "{error}");
}
