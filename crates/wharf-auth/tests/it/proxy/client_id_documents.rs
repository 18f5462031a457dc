//! Client ID metadata documents.

use std::{
    convert::Infallible,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::Response;
use http_body_util::Full;
use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::{TlsAcceptor, rustls};
use wharf_auth::{fetch::Fetch, proxy::Upstream};

use wharf_testbed::fake_idp::Idp;

use crate::proxy::browser_and_client::*;

/// A web site on loopback that publishes a document.
pub(crate) struct Publisher {
    pub(crate) id: String,
    pub(crate) pem: String,
    pub(crate) document: Arc<Mutex<Value>>,
    pub(crate) asked: Arc<AtomicUsize>,
}

impl Publisher {
    async fn start() -> Self {
        Publisher::called("localhost").await
    }

    /// A site with a certificate for this name.
    pub(crate) async fn called(name: &str) -> Self {
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(vec![name.into()]).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![cert.der().clone()],
                rustls::pki_types::PrivateKeyDer::Pkcs8(signing_key.serialize_der().into()),
            )
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let id = format!("https://{name}:{}/client.json", listener.local_addr().unwrap().port());
        let document = Arc::new(Mutex::new(json!({
            "client_id": id,
            "client_name": "Crane",
            "redirect_uris": [REDIRECT],
            "token_endpoint_auth_method": "none",
        })));
        let asked = Arc::new(AtomicUsize::new(0));
        let publisher = Publisher { id, pem: cert.pem(), document, asked };
        let (document, asked) = (publisher.document.clone(), publisher.asked.clone());
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let Ok(stream) = acceptor.accept(stream).await else { continue };
                let (document, asked) = (document.clone(), asked.clone());
                tokio::spawn(async move {
                    let service = service_fn(|_| {
                        asked.fetch_add(1, Ordering::SeqCst);
                        let text = document.lock().unwrap().to_string();
                        async { Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(text)))) }
                    });
                    let io = TokioIo::new(stream);
                    let _ = http1::Builder::new().serve_connection(io, service).await;
                });
            }
        });
        publisher
    }

    fn node(&self, idp: &Idp) -> ProxyNode {
        let fetch = Fetch::new().trust_pem(&self.pem).unwrap();
        ProxyNode::new(proxy(idp).client_documents(fetch), &wharf_store::memory_stores())
    }
}

#[tokio::test]
async fn a_client_document_is_used_and_cached() {
    let (idp, publisher) = (Idp::start().await, Publisher::start().await);
    let node = publisher.node(&idp);
    let page = node.get(&authorize(&publisher.id, &[])).await;
    assert!(page.text.contains("published by <b>localhost</b>"), "{}", page.text);
    let tokens = node.sign_in(&idp, &publisher.id, "alice").await;
    let pass = node.call(&text(&tokens, "access_token")).await.unwrap();
    assert!(pass.extensions.get::<Upstream>().is_some());
    assert_eq!(node.refresh(&publisher.id, &text(&tokens, "refresh_token")).await.status, 200);
    assert_eq!(publisher.asked.load(Ordering::SeqCst), 1, "it is remembered");

    let elsewhere = authorize(&publisher.id, &[("redirect_uri", "https://evil.example/cb")]);
    assert!(node.get(&elsewhere).await.is_dead_end());
    // Changes take effect after the cache lifetime.
    publisher.document.lock().unwrap()["redirect_uris"] = json!(["https://new.example.com/cb"]);
    assert_eq!(node.get(&authorize(&publisher.id, &[])).await.status, 200);
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(301)).await;
    tokio::time::resume();
    assert!(node.get(&authorize(&publisher.id, &[])).await.is_dead_end());
}

#[tokio::test]
async fn client_documents_are_validated() {
    let (idp, publisher) = (Idp::start().await, Publisher::start().await);
    let good = publisher.document.lock().unwrap().clone();
    for (name, value) in [
        ("client_id", json!("https://other.example/client.json")),
        ("client_id", Value::Null),
        ("client_name", Value::Null),
        ("redirect_uris", json!([])),
        ("redirect_uris", json!([REDIRECT, "http://a.example/cb"])),
        ("token_endpoint_auth_method", json!("client_secret_basic")),
        ("client_secret", json!("x")),
        ("padding", json!("x".repeat(20_000))),
    ] {
        let mut document = good.clone();
        document[name] = value;
        *publisher.document.lock().unwrap() = document;
        // A new proxy each time, with an empty cache.
        let page = publisher.node(&idp).get(&authorize(&publisher.id, &[])).await;
        assert!(page.status == 400 && page.is_dead_end(), "{name}: {}", page.text);
    }
    let node = publisher.node(&idp);
    for _ in 0..5 {
        assert_eq!(node.get(&authorize(&publisher.id, &[])).await.status, 400);
    }
    assert_eq!(publisher.asked.load(Ordering::SeqCst), 9, "not asked again at once");
}
