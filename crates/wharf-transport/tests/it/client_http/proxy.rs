//! Requests through an HTTP proxy, and servers with a certificate of a private authority.

use wharf_connect::{HostConnector, ProxySettings};
use wharf_model::ErrorKind;
use wharf_transport::{
    client::connect_http,
    server::http::{Http, Tls},
};

use crate::client_http::{
    scripted_server::{ResponseWriter, ScriptedServer, SeenRequest, modern},
    support::{assert_error, call, options, refused, traced},
    test_server::HttpServer,
};

/// A proxy that answers like a server.
async fn answering_proxy() -> ScriptedServer {
    ScriptedServer::new(|seen: SeenRequest, mut wire: ResponseWriter| async move {
        if !modern(&seen, &mut wire).await {
            wire.json(200, &seen.text("through the proxy")).await;
        }
    })
    .await
}

fn through(proxy: &str) -> HostConnector {
    HostConnector::new().proxy(ProxySettings::url(proxy).unwrap())
}

#[tokio::test(start_paused = true)]
async fn plain_http_is_sent_to_the_proxy_in_absolute_form() {
    let proxy = answering_proxy().await;
    let mut options = options();
    options.connector = through(&format!("http://me:secret@127.0.0.1:{}", proxy.port));
    let (options, trace) = traced(options);
    let link = connect_http("http://mcp.example/mcp?x=1", Vec::new(), options).await.unwrap();
    assert_eq!(call(&link, "x").await.unwrap(), "through the proxy");
    assert_eq!(proxy.methods(), ["server/discover", "tools/call"]);
    for seen in proxy.log() {
        assert_eq!(seen.path, "http://mcp.example/mcp?x=1");
        assert_eq!(seen.head("host"), Some("mcp.example"));
        assert_eq!(seen.head("proxy-authorization"), Some("Basic bWU6c2VjcmV0"));
    }
    assert!(!format!("{trace:?}").contains("secret"), "{trace:?}");
}

#[tokio::test(start_paused = true)]
async fn loopback_gets_no_proxy_and_none_of_its_credentials() {
    let (server, proxy) = (answering_proxy().await, answering_proxy().await);
    let mut options = options();
    options.connector = through(&format!("http://me:secret@127.0.0.1:{}", proxy.port));
    let link = connect_http(&server.url(), Vec::new(), options).await.unwrap();
    assert_eq!(call(&link, "x").await.unwrap(), "through the proxy");
    assert!(proxy.log().is_empty());
    assert!(server.log().iter().all(|seen| seen.head("proxy-authorization").is_none()));
}

#[tokio::test]
async fn a_proxy_that_is_down_is_named() {
    for url in ["http://mcp.example/mcp", "https://mcp.example/mcp"] {
        let mut options = options();
        options.connector = through("http://127.0.0.1:1");
        let error = refused(url, options).await;
        assert_error(&error, ErrorKind::TransportError, &["proxy", "127.0.0.1:1"]);
    }
}

#[tokio::test]
async fn a_private_authority_is_trusted_for_http2() {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let tls = Tls::from_pem(certificate.as_bytes(), key.as_bytes()).unwrap();
    let server = HttpServer::serve(Http::new().tls(tls)).await;
    let url = format!("https://localhost:{}/mcp", server.port);
    let (mut options, trace) = traced(options());
    options.connector = HostConnector::new().trust_pem(&certificate).unwrap();
    let link = connect_http(&url, Vec::new(), options).await.unwrap();
    assert_eq!(call(&link, "hello").await.unwrap(), "hello");
    assert!(trace.lock().unwrap().iter().any(|it| it.contains("HTTP/2.0 200")), "{trace:?}");
}
