//! TLS: negotiation, timeouts of the handshake, `Host` checks and certificate-bound tokens (RFC 8705).

use std::{sync::Arc, time::Duration};

use http::{Request, Response, Version};
use hyper::{
    body::Incoming,
    client::conn::{http1, http2},
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{ClientConfig, RootCertStore, crypto::ring, pki_types::PrivateKeyDer},
};
use wharf::{
    auth::jose::{b64, sha256},
    http::{Http, HttpLimits, Tls},
    server::Limits,
};

use wharf_testbed::fake_issuer::{Issuer, METADATA};

use crate::advisories::{
    harness::{Harness, PATIENCE},
    http_client::{self, HttpClient},
    raw_http,
    web::AnyBody,
};

/// Server with a self-signed certificate, and the client configuration that trusts it.
pub async fn encrypted() -> (Harness, Arc<ClientConfig>) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = made.signing_key.serialize_pem();
    let tls = Tls::from_pem(made.cert.pem().as_bytes(), key.as_bytes()).unwrap();
    let limits = HttpLimits::default().head(Duration::from_millis(500));
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let harness = Harness::tuned(|server| {
        server.http(Http::new().tls(tls)).limits(Limits::default().http(limits))
    });
    (harness.await, Arc::new(config))
}

async fn connect(harness: &Harness, config: &ClientConfig, alpn: &[&str]) -> TlsStream<TcpStream> {
    let mut config = config.clone();
    config.alpn_protocols = alpn.iter().map(|it| it.as_bytes().to_vec()).collect();
    let connector = TlsConnector::from(Arc::new(config));
    connector.connect("localhost".try_into().unwrap(), harness.connect().await).await.unwrap()
}

/// Sends a request in the negotiated HTTP version.
async fn send(stream: TlsStream<TcpStream>, request: Request<AnyBody>) -> Response<Incoming> {
    let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let io = TokioIo::new(stream);
    if is_http2 {
        let (mut line, connection) = http2::handshake(TokioExecutor::new(), io).await.unwrap();
        tokio::spawn(connection);
        return line.send_request(request).await.unwrap();
    }
    let (mut line, connection) = http1::handshake(io).await.unwrap();
    tokio::spawn(connection);
    line.send_request(request).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn https_does_not_depend_on_the_version_of_http() {
    let (harness, config) = encrypted().await;
    for (alpn, version) in [
        (&["h2", "http/1.1"][..], Version::HTTP_2),
        (&["h2"], Version::HTTP_2),
        (&["http/1.1"], Version::HTTP_11),
        (&[], Version::HTTP_11),
    ] {
        let caller =
            HttpClient { url: "https://localhost/mcp".to_owned(), ..HttpClient::modern(&harness) };
        for tool in ["echo", "repeat"] {
            let mut request = caller.post(&caller.tool(tool, json!({"text": "safe"})));
            request.headers_mut().insert("host", "localhost".parse().unwrap());
            let response = send(connect(&harness, &config, alpn).await, request).await;
            assert_eq!((response.status().as_u16(), response.version()), (200, version));
            let reply = http_client::reply(response).await;
            assert_eq!(http_client::text(&reply), "safe");
        }
    }
    harness.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_encrypt_does_not_hang() {
    let (harness, config) = encrypted().await;
    for begun in
        ["", "\x16\x03\x01", &raw_http::modern_call(&harness), "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"]
    {
        let mut stream = harness.connect().await;
        stream.write_all(begun.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let _ = timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("closed");
        assert!(!answer.starts_with(b"HTTP"), "{begun:?}");
    }
    // A connection that completes the TLS handshake and then sends nothing is closed too.
    let mut stream = connect(&harness, &config, &["http/1.1"]).await;
    let mut answer = Vec::new();
    let _ = timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("closed");
    assert_eq!(answer, b"");
}

/// The protocol of the ALPN handshake is the one that is used (RFC 7301): an intermediate proxy may rely on it.
#[tokio::test(flavor = "multi_thread")]
async fn the_negotiated_revision_is_used() {
    const PREFACE: &str = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    let (harness, config) = encrypted().await;
    let call = raw_http::modern_call(&harness);
    for (alpn, sent) in [("http/1.1", PREFACE), ("h2", &*call)] {
        let mut stream = connect(&harness, &config, &[alpn]).await;
        stream.write_all(sent.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let _ = timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("closed");
        // A rejection or nothing, and no SETTINGS frame, which begins with zeros.
        assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 400"), "{alpn}: {answer:?}");
    }
    harness.stop().await;
}

/// `Host` and `Origin` are checked over TLS too.
#[tokio::test(flavor = "multi_thread")]
async fn https_does_not_allow_foreign_origins() {
    let (harness, config) = encrypted().await;
    for alpn in ["h2", "http/1.1"] {
        let caller = HttpClient {
            url: "https://evil.example/mcp".to_owned(),
            ..HttpClient::modern(&harness)
        };
        let mut request = caller.post(&caller.tool("echo", json!({"text": "x"})));
        if alpn == "http/1.1" {
            request.headers_mut().insert("host", "evil.example".parse().unwrap());
        }
        let response = send(connect(&harness, &config, &[alpn]).await, request).await;
        assert_eq!(response.status(), 403, "{alpn}");
    }
}

/// A certificate-bound token (RFC 8705) is accepted only with its client certificate.
#[tokio::test(flavor = "multi_thread")]
async fn a_stolen_token_is_no_good_without_its_certificate() {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = made.signing_key.serialize_pem();
    let tls = || Tls::from_pem(made.cert.pem().as_bytes(), key.as_bytes()).unwrap();
    let client = || {
        let made = rcgen::generate_simple_self_signed(["client".to_owned()]).unwrap();
        (made.cert, made.signing_key)
    };
    let (owner, thief) = (client(), client());
    let config = |client: Option<&(rcgen::Certificate, rcgen::KeyPair)>| {
        let mut roots = RootCertStore::empty();
        roots.add(made.cert.der().clone()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        match client {
            None => config.with_no_client_auth(),
            Some((cert, key)) => {
                let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
                config.with_client_auth_cert(vec![cert.der().clone()], key).unwrap()
            }
        }
    };
    let issuer = Issuer::new();
    let digest = b64(sha256(owner.0.der()));
    let bound = issuer.token_with("cnf", json!({"x5t#S256": digest}));
    let free = issuer.good_token();
    let trusting = tls().trust_clients(owner.0.pem().as_bytes()).unwrap();
    for tls in [tls().ask_clients().unwrap(), trusting] {
        let authority = issuer.jwt();
        let harness =
            Harness::tuned(|server| server.auth(authority).http(Http::new().tls(tls))).await;
        for (client, token, status) in [
            (Some(&owner), &bound, 200),
            (None, &bound, 401),
            (Some(&owner), &free, 200),
            (None, &free, 200),
        ] {
            let token = token.clone().leak();
            let caller = HttpClient {
                url: "https://localhost/mcp".to_owned(),
                ..HttpClient::modern(&harness)
            };
            let caller = caller.with_bearer(token);
            for alpn in ["h2", "http/1.1"] {
                let mut request = caller.post(&caller.tool("echo", json!({"text": "safe"})));
                request.headers_mut().insert("host", "localhost".parse().unwrap());
                let stream = connect(&harness, &config(client), &[alpn]).await;
                let response = send(stream, request).await;
                assert_eq!(response.status(), status, "{alpn}");
                let challenge = response.headers().get("www-authenticate");
                let expected = format!(
                    r#"Bearer error="invalid_token", error_description="The token is bound to another client certificate", {METADATA}"#
                );
                assert_eq!(
                    challenge.map(|it| it.to_str().unwrap()),
                    (status == 401).then_some(&*expected)
                );
            }
        }
    }
    // Another certificate, which only a server that accepts any client certificate admits.
    let authority = issuer.jwt();
    let tls = tls().ask_clients().unwrap();
    let harness = Harness::tuned(|server| server.auth(authority).http(Http::new().tls(tls))).await;
    let caller =
        HttpClient { url: "https://localhost/mcp".to_owned(), ..HttpClient::modern(&harness) };
    let caller = caller.with_bearer(bound.leak());
    let mut request = caller.post(&caller.tool("echo", json!({"text": "stolen"})));
    request.headers_mut().insert("host", "localhost".parse().unwrap());
    let response = send(connect(&harness, &config(Some(&thief)), &["h2"]).await, request).await;
    assert_eq!(response.status(), 401);
}

#[test]
fn a_certificate_without_its_key_is_not_taken() {
    let one = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (cert, key) = (one.cert.pem(), one.signing_key.serialize_pem());
    let foreign = other.signing_key.serialize_pem();
    assert!(Tls::from_pem(cert.as_bytes(), key.as_bytes()).is_ok());
    for (cert, key) in [(&cert, &foreign), (&key, &key), (&cert, &cert), (&String::new(), &key)] {
        assert!(Tls::from_pem(cert.as_bytes(), key.as_bytes()).is_err());
    }
}
