//! Redis over TLS, with and without client certificates.

use std::{
    cell::Cell,
    error::Error,
    fs,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicUsize, Ordering},
    },
};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use wharf_connect::{ConnectionError, ConnectionErrorKind, TlsProblem};
use wharf_model::{BusSubscriber, Record};
use wharf_store::{StoreOpenError, open};

use wharf_testbed::redis_server::{RedisServer, free_port};

use crate::redis::until;

/// Certificate authority, with a directory of its certificate and those it has signed.
struct TestAuthority {
    directory: PathBuf,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl TestAuthority {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("wharf-authority-{}-{number}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        fs::create_dir_all(&directory).unwrap();
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        fs::write(directory.join("ca.pem"), issuer.as_ref().pem()).unwrap();
        TestAuthority { directory, issuer }
    }

    /// Signs a certificate for `name`.
    fn sign(&self, name: &str) -> &Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        // A certificate with the name of its authority would look self-signed.
        params.distinguished_name.push(DnType::CommonName, name);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        fs::write(self.directory.join(format!("{name}.pem")), certificate.pem()).unwrap();
        fs::write(self.directory.join(format!("{name}.key")), key.serialize_pem()).unwrap();
        self
    }

    fn file(&self, name: &str) -> String {
        self.directory.join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for TestAuthority {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Starts a Redis with a certificate for `name`; returns it and its TLS port.
fn start(authority: &TestAuthority, name: &str, clients: &str) -> (RedisServer, u16) {
    let port = Cell::new(0);
    let server = RedisServer::start_with(|| {
        port.set(free_port());
        let settings = [
            ["--tls-port", &port.get().to_string()],
            ["--tls-cert-file", &authority.file(&format!("{name}.pem"))],
            ["--tls-key-file", &authority.file(&format!("{name}.key"))],
            ["--tls-ca-cert-file", &authority.file("ca.pem")],
            ["--tls-auth-clients", clients],
        ];
        settings.as_flattened().iter().map(|word| (*word).to_owned()).collect()
    });
    (server, port.get())
}

/// The first error of this type among the sources.
fn cause<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    let cause = error.source()?;
    cause.downcast_ref().or_else(|| self::cause(cause))
}

fn record(id: &str) -> Record {
    Record::new(id)
}

#[derive(Default)]
struct CountingSubscriber(AtomicUsize);

impl BusSubscriber for CountingSubscriber {
    fn receive(&self, _topic: &str, _message: &[u8]) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_its_own_ca_it_stores_publishes_and_reconnects() {
    let authority = TestAuthority::new();
    let (mut server, port) = start(authority.sign("127.0.0.1"), "127.0.0.1", "no");
    let url = format!("rediss://127.0.0.1:{port}/0?prefix=p&ca={}", authority.file("ca.pem"));
    let stores = open(&url).await.unwrap();
    let subscriber = Arc::new(CountingSubscriber::default());
    let _subscription = stores.bus.subscribe("t", subscriber.clone());
    for round in 1..=3 {
        assert_eq!(stores.tasks.insert(record(&round.to_string()), 99).await, Ok(true));
        stores.bus.publish("t", vec![1]).await.unwrap();
        until("the message arrives", async || subscriber.0.load(Ordering::SeqCst) == round).await;
        server.kill();
        until("the outage is detected", async || !stores.health.is_ready()).await;
        server.restart();
        until("Redis is reachable again", async || stores.health.is_ready()).await;
        assert!(stores.tasks.load(&round.to_string()).await.unwrap().is_some());
    }
    let near = open(&server.url("p")).await.unwrap();
    assert!(near.tasks.load("1").await.unwrap().is_some(), "the same Redis without TLS");
}

#[tokio::test]
async fn untrusted_certificates_are_rejected_with_advice() {
    let (authority, other) = (TestAuthority::new(), TestAuthority::new());
    let (server, port) = start(authority.sign("localhost").sign("wharf"), "localhost", "no");
    let [ca, other_ca, key] =
        [authority.file("ca.pem"), other.file("ca.pem"), authority.file("localhost.key")];
    let [certificate, invalid] = [authority.file("wharf.pem"), authority.file("invalid.pem")];
    fs::write(&invalid, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").unwrap();
    let plain = server.port;
    for (url, expected) in [
        (format!("rediss://localhost:{port}?ca={other_ca}"), "?ca=PATH"),
        (format!("rediss://localhost:{port}"), "?ca=PATH"),
        (format!("rediss://localhost:{port}#insecure"), "?ca=PATH"),
        (format!("rediss://127.0.0.1:{port}?ca={ca}"), "for another name"),
        (format!("rediss://localhost:{plain}?ca={ca}"), "speak TLS"),
        (format!("rediss://localhost:{port}?ca=/no/such.pem"), "/no/such.pem"),
        (format!("rediss://localhost:{port}?ca={key}"), "no certificate"),
        (format!("rediss://localhost:{port}?ca={ca}&cert={ca}"), "go together"),
        (format!("redis://localhost:{plain}?ca={ca}"), "rediss://"),
    ] {
        let error = open(&url).await.unwrap_err();
        assert!(error.message().contains(expected), "{url}: {error}");
        assert!(!error.message().contains("https://"), "{url}: {error}");
    }
    // A file that cannot be used is named with its setting, and the reason is kept.
    for (settings, expected) in [
        (format!("ca={invalid}"), "invalid.pem of `ca`"),
        ("ca=/no/such.pem".to_owned(), "/no/such.pem of `ca`"),
        (format!("ca={ca}&cert={certificate}&key=/no/such.key"), "/no/such.key of `key`"),
        (format!("ca={ca}&cert={certificate}&key={ca}"), "no private key"),
        // The key of another certificate.
        (format!("ca={ca}&cert={certificate}&key={key}"), "localhost.key of `key`"),
    ] {
        let error = open(&format!("rediss://localhost:{port}?{settings}")).await.unwrap_err();
        assert!(matches!(error, StoreOpenError::File { .. }), "{settings}: {error:?}");
        assert!(error.message().contains(expected), "{settings}: {error}");
        assert!(!error.message().contains("?ca="), "{settings}: {error}");
        assert!(error.source().is_some(), "{settings}");
    }
    let error = open(&format!("rediss://localhost:{port}?ca={other_ca}")).await.unwrap_err();
    let connection = cause::<ConnectionError>(&error).unwrap();
    assert_eq!(connection.kind(), ConnectionErrorKind::Tls(TlsProblem::UnknownIssuer));
    assert!(open(&format!("rediss://localhost:{port}?ca={ca}")).await.is_ok());
}

#[tokio::test]
async fn mutual_tls_presents_the_client_certificate() {
    let authority = TestAuthority::new();
    let (_server, port) = start(authority.sign("127.0.0.1").sign("wharf"), "127.0.0.1", "yes");
    let url = format!("rediss://127.0.0.1:{port}?ca={}", authority.file("ca.pem"));
    assert!(matches!(open(&url).await, Err(StoreOpenError::Unavailable { .. })));
    let [cert, key] = ["wharf.pem", "wharf.key"].map(|name| authority.file(name));
    let stores = open(&format!("{url}&cert={cert}&key={key}")).await.unwrap();
    assert_eq!(stores.tasks.insert(record("a"), 9).await, Ok(true));
}
