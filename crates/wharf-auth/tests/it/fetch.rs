//! `Fetch` against hostile URLs and servers.

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use http::HeaderMap;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        RootCertStore, ServerConfig,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer},
        server::WebPkiClientVerifier,
    },
};
use wharf_auth::fetch::{Fetch, FetchError, Resolve};
use wharf_model::BoxFuture;

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";

/// A server that sends `text` on each connection, without end if `endless`, and counts its connections.
async fn server(text: &str, endless: bool) -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let connections = Arc::new(AtomicUsize::new(0));
    let (seen, text) = (connections.clone(), text.to_owned());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            seen.fetch_add(1, Ordering::SeqCst);
            let text = text.clone();
            tokio::spawn(async move {
                let mut head = [0; 4096];
                let _ = stream.read(&mut head).await;
                let _ = stream.write_all(text.as_bytes()).await;
                while endless && stream.write_all(&[b'x'; 4096]).await.is_ok() {}
                // Keeps the connection open.
                let _ = stream.read(&mut head).await;
            });
        }
    });
    (port, connections)
}

/// Resolves to the lists in turn, then to the last one, and counts the lookups.
struct TestResolver {
    addresses: Vec<Vec<&'static str>>,
    port: u16,
    asked: Arc<AtomicUsize>,
}

impl Resolve for TestResolver {
    fn resolve(&self, _: &str, _: u16) -> BoxFuture<io::Result<Vec<SocketAddr>>> {
        let turn = self.asked.fetch_add(1, Ordering::SeqCst).min(self.addresses.len() - 1);
        let port = self.port;
        let found =
            self.addresses[turn].iter().map(|it| SocketAddr::new(it.parse().unwrap(), port));
        let found = found.collect();
        Box::pin(async move { Ok(found) })
    }
}

fn resolver_for(port: u16, addresses: &[&[&'static str]]) -> (TestResolver, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let addresses = addresses.iter().map(|it| it.to_vec()).collect();
    (TestResolver { addresses, port, asked: asked.clone() }, asked)
}

async fn get(fetch: &Fetch, url: &str) -> Result<u16, FetchError> {
    fetch.get(url, HeaderMap::new()).await.map(|it| it.status.as_u16())
}

#[tokio::test]
async fn loopback_needs_a_literal_name() {
    let (port, connections) = server(OK, false).await;
    for host in ["localhost", "127.0.0.1", "LOCALHOST"] {
        assert_eq!(get(&Fetch::new(), &format!("http://{host}:{port}/")).await, Ok(200));
    }
    assert_eq!(connections.load(Ordering::SeqCst), 3);
    for host in ["localhost", "127.0.0.1", "[::1]", "127.1", "2130706433"] {
        for fetch in [Fetch::new().public_only(), Fetch::new().allow_private().public_only()] {
            let refused = get(&fetch, &format!("http://{host}:{port}/")).await;
            assert!(matches!(refused, Err(FetchError::Forbidden { .. })), "{host}: {refused:?}");
        }
    }
    assert_eq!(connections.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn private_addresses_are_rejected() {
    let urls = [
        "https://10.0.0.1/",
        "https://192.168.0.1/",
        "https://100.64.0.1/",
        "https://169.254.169.254/latest/meta-data",
        "https://[::ffff:127.0.0.1]/",
        "https://[::ffff:a9fe:a9fe]/",
        "https://[64:ff9b::7f00:1]/",
        "https://[64:ff9b:1::1]/",
        "https://[2002:7f00:1::]/",
        "https://[2001::1]/",
        "https://[fe80::1]/",
        "https://[fd00::1]/",
        "https://[::]/",
        "https://0.0.0.0/",
        "https://0x7f.1.1.1.1/",
        "https://224.0.0.1/",
        "http://id.example/",
        "http://8.8.8.8/",
        "http://[::ffff:127.0.0.1]/",
    ];
    for url in urls {
        let refused = get(&Fetch::new(), url).await;
        let known = matches!(refused, Err(FetchError::Forbidden { .. } | FetchError::Url { .. }));
        assert!(known, "{url}: {refused:?}");
    }
    for url in ["ftp://a/", "file:///etc/passwd", "javascript:1", "data:,x", "https://", "a", "//h"]
    {
        let refused = get(&Fetch::new(), url).await;
        assert!(matches!(refused, Err(FetchError::Url { .. })), "{url}: {refused:?}");
    }
    let refused = get(&Fetch::new(), "https://me:secret@id.example/?x=secret").await.unwrap_err();
    assert!(!format!("{refused} {refused:?}").contains("secret"));
}

#[tokio::test]
async fn names_with_private_addresses_are_rejected() {
    let (port, connections) = server(OK, false).await;
    for inside in ["127.0.0.1", "::1", "10.0.0.1", "169.254.169.254", "::ffff:127.0.0.1"] {
        // Public addresses beside it do not help.
        for addresses in [&[inside][..], &["9.9.9.9", inside]] {
            let (resolver, _) = resolver_for(port, &[addresses]);
            let fetch = Fetch::new().resolver(resolver);
            let refused = get(&fetch, &format!("https://id.example:{port}/")).await;
            assert!(matches!(refused, Err(FetchError::Forbidden { .. })), "{inside}: {refused:?}");
        }
    }
    assert_eq!(connections.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn dns_rebinding_has_no_effect() {
    let certified = rcgen::generate_simple_self_signed(["id.example".to_owned()]).unwrap();
    let (port, pem) = tls_server(&certified, None).await;
    // A second lookup would return another address.
    let (resolver, asked) = resolver_for(port, &[&["127.0.0.1"], &["0.0.0.0"]]);
    let fetch = Fetch::new().resolver(resolver).trust_pem(&pem).unwrap();
    let refused = get(&fetch, "https://id.example/").await;
    assert!(matches!(refused, Err(FetchError::Forbidden { .. })), "{refused:?}");

    let (resolver, again) = resolver_for(port, &[&["127.0.0.1"], &["0.0.0.0"]]);
    let fetch = fetch.allow_private().resolver(resolver);
    assert_eq!(get(&fetch, "https://id.example/").await, Ok(200));
    assert_eq!((asked.load(Ordering::SeqCst), again.load(Ordering::SeqCst)), (1, 1));
    // Private addresses are allowed now, but reserved ones are not.
    assert!(matches!(get(&fetch, "https://id.example/").await, Err(FetchError::Forbidden { .. })));
}

#[tokio::test]
async fn a_certificate_is_for_its_name_alone() {
    let certified = rcgen::generate_simple_self_signed(["id.example".to_owned()]).unwrap();
    let (port, pem) = tls_server(&certified, None).await;
    let fetch = |pem: Option<&str>| {
        let (resolver, _) = resolver_for(port, &[&["127.0.0.1"]]);
        let fetch = Fetch::new().allow_private().resolver(resolver);
        pem.map_or(fetch.clone(), |pem| fetch.trust_pem(pem).unwrap())
    };
    assert_eq!(get(&fetch(Some(&pem)), "https://id.example/").await, Ok(200));
    for (fetch, url) in
        [(fetch(Some(&pem)), "https://other.example/"), (fetch(None), "https://id.example/")]
    {
        let refused = get(&fetch, url).await;
        assert!(matches!(refused, Err(FetchError::Unreachable { .. })), "{refused:?}");
    }
}

#[tokio::test]
async fn a_client_certificate_is_sent_to_its_origin_only() {
    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let us = rcgen::generate_simple_self_signed(["client.example".to_owned()]).unwrap();
    let (ours, key) = (us.cert.pem(), us.signing_key.serialize_pem());
    let (meant, pem) = tls_server(&certified, Some(us.cert.der().clone())).await;
    let (other, _) = tls_server(&certified, Some(us.cert.der().clone())).await;
    let [meant, other] = [meant, other].map(|port| format!("https://localhost:{port}/token"));
    let without_identity = Fetch::new().trust_pem(&pem).unwrap();
    assert!(get(&without_identity, &meant).await.is_err());
    let with_identity = without_identity.identity_pem(&meant, &ours, &key).unwrap();
    let before = Fetch::new().identity_pem(&meant, &ours, &key).unwrap().trust_pem(&pem).unwrap();
    for fetch in [&with_identity, &before] {
        assert_eq!(get(fetch, &meant).await, Ok(200));
        assert!(get(fetch, &other).await.is_err());
    }
    // Every origin that is named gets the certificate.
    let both = with_identity.identity_pem(&other, &ours, &key).unwrap();
    for url in [&meant, &other] {
        assert_eq!(get(&both, url).await, Ok(200));
    }
    assert!(Fetch::new().identity_pem(&meant, &ours, "no key").is_err());
    assert!(Fetch::new().identity_pem("http://localhost/", &ours, &key).is_err());
    assert!(Fetch::new().trust_pem("no certificate").is_err());
}

async fn tls_server(
    certified: &rcgen::CertifiedKey<rcgen::KeyPair>,
    asks_for: Option<CertificateDer<'static>>,
) -> (u16, String) {
    let key = PrivateKeyDer::try_from(certified.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .unwrap();
    let config = match asks_for {
        None => config.with_no_client_auth(),
        Some(root) => {
            let mut roots = RootCertStore::empty();
            roots.add(root).unwrap();
            let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider);
            config.with_client_cert_verifier(verifier.build().unwrap())
        }
    };
    let config = config.with_single_cert(vec![certified.cert.der().clone()], key).unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(mut stream) = acceptor.accept(stream).await else { return };
                let mut head = [0; 4096];
                let _ = stream.read(&mut head).await;
                let _ = stream.write_all(OK.as_bytes()).await;
                let _ = stream.shutdown().await;
            });
        }
    });
    (port, certified.cert.pem())
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let (elsewhere, connections) = server(OK, false).await;
    let text = format!(
        "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:{elsewhere}/\r\nContent-Length: 0\r\n\r\n"
    );
    let (port, _) = server(&text, false).await;
    let url = format!("http://127.0.0.1:{port}/");
    let answer = Fetch::new().get(&url, HeaderMap::new()).await.unwrap();
    assert_eq!(answer.status.as_u16(), 302);
    assert!(answer.location().unwrap().ends_with(&format!(":{elsewhere}/")));
    assert_eq!(connections.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn size_and_time_are_bounded() {
    let (endless, _) = server("HTTP/1.1 200 OK\r\n\r\n", true).await;
    let announced = "HTTP/1.1 200 OK\r\nContent-Length: 9999999999\r\n\r\n";
    let (announced, _) = server(announced, false).await;
    for port in [endless, announced] {
        let refused = get(&Fetch::new(), &format!("http://127.0.0.1:{port}/")).await;
        assert!(matches!(refused, Err(FetchError::TooLarge { .. })), "{refused:?}");
    }
    let (endless_head, _) = server("HTTP/1.1 200 OK\r\nX: ", true).await;
    let many: String = (0..1000).map(|n| format!("X-{n}: 1\r\n")).collect();
    let (many, _) = server(&format!("HTTP/1.1 200 OK\r\n{many}\r\n"), false).await;
    let (garbage, _) = server("SSH-2.0-OpenSSH\r\n\r\n", false).await;
    for port in [endless_head, many, garbage] {
        let refused = get(&Fetch::new(), &format!("http://127.0.0.1:{port}/")).await;
        assert!(matches!(refused, Err(FetchError::InvalidResponse { .. })), "{refused:?}");
    }
    let (silent, _) = server("", false).await;
    let (stalled, _) = server("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", false).await;
    let began = Instant::now();
    for port in [silent, stalled] {
        let fetch = Fetch::new().timeout(Duration::from_millis(200));
        let refused = get(&fetch, &format!("http://127.0.0.1:{port}/")).await;
        assert!(matches!(refused, Err(FetchError::TimedOut { .. })), "{refused:?}");
    }
    assert!(began.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn bodies_are_not_repeated_in_errors() {
    let text = "HTTP/1.1 200 OK\r\nContent-Length: 24\r\n\r\n{\"access_token\":\"secret\"";
    let (port, _) = server(text, false).await;
    let url = format!("http://127.0.0.1:{port}/token?code=secret");
    let answer = Fetch::new().post_form(&url, HeaderMap::new(), &[("a", "b c")]).await.unwrap();
    let error = answer.json::<Vec<String>>().unwrap_err();
    assert!(!format!("{error} {error:?} {answer:?}").contains("secret"), "{error}");
}
