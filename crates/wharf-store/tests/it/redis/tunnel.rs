//! Redis behind an HTTP proxy.

use std::sync::{Arc, Mutex};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional},
    net::{TcpListener, TcpStream},
};
use wharf_model::Record;
use wharf_store::{StoreOpenError, open};
use wharf_testbed::redis_server::RedisServer;

/// Starts an HTTP proxy that tunnels every `CONNECT` to `target`, a port of this machine; returns its port, and
/// the first lines of all requests.
async fn http_proxy(target: u16) -> (u16, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let lines = Arc::<Mutex<Vec<String>>>::default();
    let seen = lines.clone();
    tokio::spawn(async move {
        while let Ok((mut near, _)) = listener.accept().await {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(near.read_u8().await.unwrap());
            }
            let head = String::from_utf8(head).unwrap();
            seen.lock().unwrap().push(head.lines().next().unwrap().to_owned());
            near.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
            tokio::spawn(async move {
                let mut far = TcpStream::connect(("127.0.0.1", target)).await.unwrap();
                let _ = copy_bidirectional(&mut near, &mut far).await;
            });
        }
    });
    (port, lines)
}

#[tokio::test]
async fn both_connections_are_tunnelled_through_the_proxy_of_the_url() {
    let server = RedisServer::start();
    let (port, lines) = http_proxy(server.port).await;
    let url = format!("redis://redis.example:6379/0?prefix=p&proxy=http://127.0.0.1:{port}");
    let stores = open(&url).await.unwrap();
    assert_eq!(stores.tasks.insert(Record::new("a"), 99).await, Ok(true));
    let near = open(&server.url("p")).await.unwrap();
    assert!(near.tasks.load("a").await.unwrap().is_some());
    assert_eq!(*lines.lock().unwrap(), ["CONNECT redis.example:6379 HTTP/1.1"; 2]);
}

#[tokio::test]
async fn a_proxy_that_cannot_be_used_is_an_error_and_not_bypassed() {
    let server = RedisServer::start();
    let proxy = |proxy: &str| format!("{}&proxy={proxy}", server.url("p"));
    for (url, expected) in [
        (proxy("http://proxy.example:3128"), "never reached through a proxy"),
        ("redis://redis.example?proxy=socks5://me:secret@host:1080".into(), "only HTTP proxies"),
    ] {
        let error = open(&url).await.unwrap_err();
        assert!(matches!(error, StoreOpenError::InvalidUrl { .. }), "{error:?}");
        assert!(error.message().contains(expected), "{error}");
        assert!(!error.message().contains("secret"), "{error}");
    }
    let error = open("redis://redis.example?proxy=http://127.0.0.1:1").await.unwrap_err();
    assert!(matches!(error, StoreOpenError::Unavailable { .. }), "{error:?}");
    assert!(error.message().contains("cannot use the proxy"), "{error}");
}
