//! TLS with a private authority and client certificates.

use std::{error::Error as _, time::Duration};

use tokio::net::TcpListener;
use wharf_connect::{
    ConnectionErrorKind, HostConnector, Origin, ProxySettings, TlsIdentity, TlsProblem,
};

use crate::support::{TestAuthority, answering_server, connect, echo_server, echoes};

fn connector() -> HostConnector {
    HostConnector::new().proxy(ProxySettings::none()).without_system_roots()
}

#[tokio::test]
async fn a_private_authority_is_trusted() {
    let authority = TestAuthority::new();
    let port = echo_server(Some(authority.acceptor("localhost", None))).await;
    let url = format!("https://localhost:{port}");
    let trusting = connector().trust_pem(&authority.pem()).unwrap();
    let mut stream = connect(&trusting, &url).await.unwrap();
    assert!(!stream.is_http2());
    echoes(&mut stream).await;
    let offering = trusting.clone().protocols(&[b"h2", b"http/1.1"]);
    assert!(connect(&offering, &url).await.unwrap().is_http2());

    let other = connector().trust_pem(&TestAuthority::new().pem()).unwrap();
    for (connector, url, problem) in [
        (&other, url.clone(), TlsProblem::UnknownIssuer),
        (&trusting, format!("https://127.0.0.1:{port}"), TlsProblem::WrongName),
    ] {
        let error = connect(connector, &url).await.unwrap_err();
        assert_eq!(error.kind(), ConnectionErrorKind::Tls(problem), "{error}");
        assert!(error.to_string().contains("trusted certificate"), "{error}");
    }
    assert!(connector().trust_pem("no certificate").is_err());
    assert!(connector().load().await.is_err(), "no root at all");
}

#[tokio::test]
async fn a_client_certificate_is_presented_to_its_origin_only() {
    let (authority, clients) = (TestAuthority::new(), TestAuthority::new());
    let ours = clients.sign("client.example");
    let meant = echo_server(Some(authority.acceptor("localhost", Some(&clients)))).await;
    let other = echo_server(Some(authority.acceptor("localhost", Some(&clients)))).await;
    let [meant, other] = [meant, other].map(|port| format!("https://localhost:{port}/mcp"));
    let identity = TlsIdentity::from_pem(&ours.certificate, &ours.key).unwrap();
    let origin = Origin::parse(&meant).unwrap();
    // The order of the options does not matter.
    let first =
        connector().identity(&origin, identity.clone()).trust_pem(&authority.pem()).unwrap();
    let last = connector().trust_pem(&authority.pem()).unwrap().identity(&origin, identity);
    for connector in [&first, &last] {
        connector.load().await.unwrap();
        echoes(&mut connect(connector, &meant).await.unwrap()).await;
        // With TLS 1.3, the server rejects the client after the client's part of the handshake.
        let refused = match connect(connector, &other).await {
            Err(_) => true,
            Ok(mut stream) => {
                let read = tokio::io::AsyncReadExt::read_u8(&mut stream).await;
                read.unwrap_err().to_string().contains("CertificateRequired")
            }
        };
        assert!(refused);
    }
    assert!(TlsIdentity::from_pem(&ours.certificate, "no key").is_err());
    assert!(TlsIdentity::from_pem("no certificate", &ours.key).is_err());
    assert!(!format!("{:?}", TlsIdentity::from_pem(&ours.certificate, &ours.key)).contains("KEY"));
}

#[tokio::test]
async fn the_reason_of_a_failed_handshake_is_recognized() {
    let authority = TestAuthority::new();
    let trusting = connector().trust_pem(&authority.pem()).unwrap();
    let http = answering_server("HTTP/1.1 400 Bad Request\r\n\r\n").await;
    let closing = answering_server("").await;
    let tls = echo_server(Some(authority.acceptor("localhost", None))).await;
    // A message of TLS, but not the one that is due.
    let echoing = echo_server(None).await;
    let strange = trusting.clone().protocols(&[b"smtp"]);
    for (connector, port, problem, text) in [
        (&trusting, http, TlsProblem::NotTls, "does not speak TLS; try http://"),
        (&trusting, closing, TlsProblem::Closed, "ended the TLS handshake"),
        (&strange, tls, TlsProblem::Rejected, "rejected the TLS handshake"),
        (&trusting, echoing, TlsProblem::Other, "the TLS handshake with https://localhost:"),
    ] {
        let error = connect(connector, &format!("https://localhost:{port}")).await.unwrap_err();
        assert_eq!(error.kind(), ConnectionErrorKind::Tls(problem), "{error}");
        assert!(error.to_string().contains(text), "{error}");
        assert!(error.source().is_some(), "{error}");
    }
}

#[tokio::test]
async fn a_server_without_tls_may_wait_for_more() {
    let trusting = connector().trust_pem(&TestAuthority::new().pem()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://127.0.0.1:{}", listener.local_addr().unwrap().port());
    let hasty = trusting.timeout(Duration::from_millis(200));
    let error = connect(&hasty, &url).await.unwrap_err();
    assert_eq!(error.kind(), ConnectionErrorKind::Tls(TlsProblem::NoReply), "{error}");
    let error = connect(&hasty, "http://127.0.0.1:1").await.unwrap_err();
    assert_eq!(error.kind(), ConnectionErrorKind::Unreachable, "{error}");
}

#[tokio::test]
async fn a_file_with_an_invalid_certificate_is_rejected() {
    let invalid = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    for pem in [invalid.to_owned(), format!("{}{invalid}", TestAuthority::new().pem())] {
        let error = connector().trust_pem(&pem).unwrap_err();
        assert!(error.to_string().contains("invalid certificate"), "{error}");
        assert!(error.source().is_some());
    }
    let error = TlsIdentity::from_pem(&TestAuthority::new().pem(), "no key").unwrap_err();
    assert!(error.source().is_some(), "{error}");
}
