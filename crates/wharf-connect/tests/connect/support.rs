//! Certificates, servers, a proxy and a resolver.

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy_bidirectional},
    net::{TcpListener, TcpStream},
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        RootCertStore, ServerConfig,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
        server::WebPkiClientVerifier,
    },
};
use wharf_connect::{ConnectionError, HostConnector, HostStream, Origin, ProxySettings, Resolve};
use wharf_model::BoxFuture;

/// Private certificate authority.
pub(crate) struct TestAuthority(CertifiedIssuer<'static, KeyPair>);

/// Certificate and key, as PEM text.
pub(crate) struct TestCertificate {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl TestAuthority {
    pub(crate) fn new() -> TestAuthority {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        TestAuthority(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub(crate) fn pem(&self) -> String {
        self.0.as_ref().pem()
    }

    pub(crate) fn sign(&self, name: &str) -> TestCertificate {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        // A certificate with the name of its authority would look self-signed.
        params.distinguished_name.push(DnType::CommonName, name);
        let certificate = params.signed_by(&key, &self.0).unwrap().pem();
        TestCertificate { certificate, key: key.serialize_pem() }
    }

    /// Acceptor with a certificate for `name`; requires certificates of `clients`, if given.
    pub(crate) fn acceptor(&self, name: &str, clients: Option<&TestAuthority>) -> TlsAcceptor {
        let own = self.sign(name);
        let provider = Arc::new(ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .unwrap();
        let config = match clients {
            None => config.with_no_client_auth(),
            Some(clients) => {
                let mut roots = RootCertStore::empty();
                roots.add(clients.0.as_ref().der().clone()).unwrap();
                let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider);
                config.with_client_cert_verifier(verifier.build().unwrap())
            }
        };
        let certificate = CertificateDer::from_pem_slice(own.certificate.as_bytes()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(own.key.as_bytes()).unwrap();
        let mut config = config.with_single_cert(vec![certificate], key).unwrap();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        TlsAcceptor::from(Arc::new(config))
    }
}

async fn echo(mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    let mut bytes = [0; 64];
    while let Ok(length @ 1..) = stream.read(&mut bytes).await {
        if stream.write_all(&bytes[..length]).await.is_err() || stream.flush().await.is_err() {
            return;
        }
    }
}

/// Server that returns what it receives; returns its port.
pub(crate) async fn echo_server(tls: Option<TlsAcceptor>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let tls = tls.clone();
            tokio::spawn(async move {
                match tls {
                    None => echo(stream).await,
                    Some(tls) => {
                        if let Ok(stream) = tls.accept(stream).await {
                            echo(stream).await;
                        }
                    }
                }
            });
        }
    });
    port
}

/// Server that sends `answer` to whatever it receives first, and closes the connection; returns its port.
pub(crate) async fn answering_server(answer: &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut bytes = [0; 4096];
            let _ = stream.read(&mut bytes).await;
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    port
}

/// Sends a word and expects it back.
pub(crate) async fn echoes(stream: &mut HostStream) {
    stream.write_all(b"hello").await.unwrap();
    stream.flush().await.unwrap();
    let mut bytes = [0; 5];
    stream.read_exact(&mut bytes).await.unwrap();
    assert_eq!(&bytes, b"hello");
}

/// Resolves every name to these addresses, with the port of each; counts the lookups.
#[derive(Clone, Default)]
pub(crate) struct TestResolver {
    addresses: Vec<SocketAddr>,
    pub(crate) names: Arc<Mutex<Vec<String>>>,
}

impl TestResolver {
    pub(crate) fn to(addresses: &[SocketAddr]) -> TestResolver {
        TestResolver { addresses: addresses.to_vec(), names: Arc::default() }
    }
}

impl Resolve for TestResolver {
    fn resolve(&self, host: &str, _: u16) -> BoxFuture<io::Result<Vec<SocketAddr>>> {
        self.names.lock().unwrap().push(host.to_owned());
        let found = self.addresses.clone();
        Box::pin(async move { Ok(found) })
    }
}

/// Forward proxy that tunnels every `CONNECT` to one port of loopback, and records the heads of all requests.
pub(crate) struct TestProxy {
    pub(crate) port: u16,
    pub(crate) heads: Arc<Mutex<Vec<String>>>,
}

impl TestProxy {
    /// Tunnels to `target`. Without `reply`, the usual `200` is sent; with an empty one, nothing ever is.
    pub(crate) async fn start(
        target: u16,
        tls: Option<TlsAcceptor>,
        reply: Option<&'static str>,
    ) -> TestProxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let heads = Arc::new(Mutex::new(Vec::new()));
        let seen = heads.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (tls, seen) = (tls.clone(), seen.clone());
                tokio::spawn(async move {
                    match tls {
                        None => tunnel(stream, target, &seen, reply).await,
                        Some(tls) => {
                            let stream = tls.accept(stream).await.unwrap();
                            tunnel(stream, target, &seen, reply).await;
                        }
                    }
                });
            }
        });
        TestProxy { port, heads }
    }

    pub(crate) fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }

    /// First lines of all requests.
    pub(crate) fn lines(&self) -> Vec<String> {
        let first = |head: &String| head.lines().next().unwrap_or_default().to_owned();
        self.heads.lock().unwrap().iter().map(first).collect()
    }

    pub(crate) fn settings(&self) -> ProxySettings {
        ProxySettings::url(&format!("http://127.0.0.1:{}", self.port)).unwrap()
    }
}

async fn tunnel(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    target: u16,
    seen: &Mutex<Vec<String>>,
    reply: Option<&str>,
) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return,
        }
    }
    seen.lock().unwrap().push(String::from_utf8(head).unwrap());
    let reply = reply.unwrap_or("HTTP/1.1 200 Connection established\r\nVia: test\r\n\r\n");
    if reply.is_empty() {
        std::future::pending::<()>().await;
    }
    stream.write_all(reply.as_bytes()).await.unwrap();
    stream.flush().await.unwrap();
    if reply.contains(" 200 ") {
        let mut server = TcpStream::connect(("127.0.0.1", target)).await.unwrap();
        let _ = copy_bidirectional(&mut stream, &mut server).await;
    }
}

pub(crate) async fn connect(
    connector: &HostConnector,
    url: &str,
) -> Result<HostStream, ConnectionError> {
    connector.connect(&Origin::parse(url).unwrap()).await
}
