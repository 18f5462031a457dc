//! Silent servers: connecting is limited by `ClientBuilder::timeout`.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    time::Instant,
};
use wharf::Client;

const LIMIT: Duration = Duration::from_millis(1500);

/// Connects to a server that accepts, reads, sends `head`, and then sends `drip` now and then, or nothing. The clock is
/// paused, so the test does not wait.
async fn gives_up(scheme: &str, head: &'static str, drip: &'static [u8]) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(async move {
        let mut streams = Vec::new();
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            if drip.is_empty() {
                streams.push(stream);
                continue;
            }
            tokio::spawn(async move {
                let _ = stream.read(&mut [0; 1024]).await;
                let _ = stream.write_all(head.as_bytes()).await;
                while stream.write_all(drip).await.is_ok() {
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
            });
        }
    });
    let begun = Instant::now();
    let client = Client::builder().timeout(LIMIT).connect(format!("{scheme}://{address}")).await;
    let error = client.unwrap_err();
    assert!(error.kind().is_request_timeout(), "{scheme}: {error:?}");
    assert!(begun.elapsed() <= LIMIT + Duration::from_millis(100), "{:?}", begun.elapsed());
    server.abort();
}

#[tokio::test(start_paused = true)]
async fn a_server_that_accepts_and_never_responds() {
    for scheme in ["tcp", "http", "ws"] {
        gives_up(scheme, "", b"").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_sends_slowly() {
    gives_up("tcp", "", b" ").await;
    gives_up("http", "HTTP/1.1 200 OK\r\n", b"x-more: y\r\n").await;
    gives_up("ws", "HTTP/1.1 101 Switching Protocols\r\n", b"x-more: y\r\n").await;
    let body = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 9999\r\n\r\n";
    gives_up("http", body, b" ").await;
}
