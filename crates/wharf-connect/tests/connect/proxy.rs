//! Connections through a proxy.

use std::{error::Error as _, io, time::Duration};

use wharf_connect::{
    AddressPolicy, ConnectionErrorKind, HostConnector, Origin, ProxySettings, TlsProblem,
};

use crate::support::{TestAuthority, TestProxy, TestResolver, connect, echo_server, echoes};

fn resolver() -> TestResolver {
    TestResolver::to(&["93.184.215.14:443".parse().unwrap()])
}

#[tokio::test]
async fn https_is_tunnelled_by_name() {
    let authority = TestAuthority::new();
    let server = echo_server(Some(authority.acceptor("mcp.example", None))).await;
    let proxy = TestProxy::start(server, None, None).await;
    let url = format!("http://me:p%40ss@127.0.0.1:{}", proxy.port);
    let names = resolver();
    let connector = HostConnector::new()
        .proxy(ProxySettings::url(&url).unwrap())
        .resolver(names.clone())
        .trust_pem(&authority.pem())
        .unwrap();
    let mut stream = connect(&connector, "https://mcp.example/mcp").await.unwrap();
    echoes(&mut stream).await;
    assert!(!stream.is_forwarded());
    let head = proxy.heads().remove(0);
    assert!(head.starts_with("CONNECT mcp.example:443 HTTP/1.1\r\n"), "{head}");
    assert!(head.contains("\r\nHost: mcp.example:443\r\n"), "{head}");
    assert!(head.contains("\r\nProxy-Authorization: Basic bWU6cEBzcw==\r\n"), "{head}");
    // The proxy resolves the name.
    assert_eq!(names.names.lock().unwrap().len(), 0);
}

#[tokio::test]
async fn a_protected_connection_gives_the_proxy_a_checked_address() {
    let authority = TestAuthority::new();
    let server = echo_server(Some(authority.acceptor("id.example", None))).await;
    let proxy = TestProxy::start(server, None, None).await;
    let protected = HostConnector::new()
        .proxy(proxy.settings())
        .addresses(AddressPolicy::PUBLIC)
        .trust_pem(&authority.pem())
        .unwrap();
    let connector = protected.clone().resolver(resolver());
    echoes(&mut connect(&connector, "https://id.example").await.unwrap()).await;
    assert_eq!(proxy.lines(), ["CONNECT 93.184.215.14:443 HTTP/1.1"]);
    // Nothing is sent to the proxy for an address that is not allowed.
    let inside = TestResolver::to(&["169.254.169.254:443".parse().unwrap()]);
    for (connector, url) in [
        (protected.clone().resolver(inside), "https://id.example"),
        (protected.clone(), "https://10.0.0.1"),
        (protected.clone().forwards(true), "http://10.0.0.1"),
    ] {
        let error = connect(&connector, url).await.unwrap_err();
        assert_eq!(error.kind(), ConnectionErrorKind::Forbidden, "{error}");
    }
    // Plain HTTP is not forwarded by name either.
    let forwarding = protected.resolver(resolver()).forwards(true);
    assert!(!connect(&forwarding, "http://id.example").await.unwrap().is_forwarded());
    assert_eq!(proxy.lines().last().unwrap(), "CONNECT 93.184.215.14:443 HTTP/1.1");
}

#[tokio::test]
async fn plain_http_is_forwarded_where_the_client_can() {
    let proxy = TestProxy::start(0, None, None).await;
    let url = format!("http://me:x@127.0.0.1:{}", proxy.port);
    let connector = HostConnector::new().proxy(ProxySettings::url(&url).unwrap()).forwards(true);
    let origin = Origin::parse("http://mcp.example").unwrap();
    assert!(connector.connect(&origin).await.unwrap().is_forwarded());
    assert_eq!(connector.forward_authorization(&origin), Some("Basic bWU6eA=="));
    for other in ["https://mcp.example", "http://127.0.0.1:1"] {
        let other = Origin::parse(other).unwrap();
        assert_eq!(connector.forward_authorization(&other), None, "{other}");
    }
    assert!(proxy.heads().is_empty());
}

#[tokio::test]
async fn loopback_never_uses_a_proxy() {
    let server = echo_server(None).await;
    let proxy = TestProxy::start(server, None, None).await;
    let connector = HostConnector::new().proxy(proxy.settings());
    for host in ["localhost", "127.0.0.1", "127.8.8.8"] {
        let connected = connect(&connector, &format!("http://{host}:{server}")).await;
        if host != "127.8.8.8" {
            echoes(&mut connected.unwrap()).await;
        }
    }
    assert!(proxy.heads().is_empty());
}

#[tokio::test]
async fn a_proxy_may_be_encrypted_itself() {
    let authority = TestAuthority::new();
    let server = echo_server(Some(authority.acceptor("mcp.example", None))).await;
    let acceptor = authority.acceptor("localhost", None);
    let proxy = TestProxy::start(server, Some(acceptor), None).await;
    let url = format!("https://localhost:{}", proxy.port);
    let connector = HostConnector::new()
        .proxy(ProxySettings::url(&url).unwrap())
        .trust_pem(&authority.pem())
        .unwrap()
        .protocols(&[b"h2", b"http/1.1"]);
    let mut stream = connect(&connector, "https://mcp.example").await.unwrap();
    echoes(&mut stream).await;
    assert!(stream.is_http2());
    assert_eq!(proxy.lines(), ["CONNECT mcp.example:443 HTTP/1.1"]);
}

/// A proxy with a certificate of the system's authorities is used although the target has a private one. Runs
/// itself again in a process whose system certificates are a file.
#[tokio::test]
async fn a_proxy_has_a_certificate_of_the_system_where_the_target_has_a_private_one() {
    // A variable of its own: the environment may name the certificates of the machine, which this must not overwrite.
    const CERTIFICATES: &str = "WHARF_TEST_CERTIFICATES";
    let Ok(file) = std::env::var(CERTIFICATES) else {
        let name = format!("wharf-connect-{}.pem", std::process::id());
        let file = std::env::temp_dir().join(name);
        let test = std::thread::current().name().unwrap().to_owned();
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", &test])
            .env("SSL_CERT_FILE", &file)
            .env(CERTIFICATES, &file)
            .output()
            .unwrap();
        let _ = std::fs::remove_file(file);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
        return;
    };
    let (public, private) = (TestAuthority::new(), TestAuthority::new());
    std::fs::write(&file, public.pem()).unwrap();
    let server = echo_server(Some(private.acceptor("mcp.example", None))).await;
    let proxy = TestProxy::start(server, Some(public.acceptor("localhost", None)), None).await;
    let url = format!("https://localhost:{}", proxy.port);
    let connector = HostConnector::new()
        .proxy(ProxySettings::url(&url).unwrap())
        .without_system_roots()
        .trust_pem(&private.pem())
        .unwrap();
    echoes(&mut connect(&connector, "https://mcp.example").await.unwrap()).await;
    // The certificates are loaded once.
    std::fs::write(&file, "").unwrap();
    echoes(&mut connect(&connector, "https://mcp.example").await.unwrap()).await;
    // Those of the system are for the proxy alone.
    let trusted = echo_server(Some(public.acceptor("localhost", None))).await;
    let error = connect(&connector, &format!("https://localhost:{trusted}")).await.unwrap_err();
    assert_eq!(error.kind(), ConnectionErrorKind::Tls(TlsProblem::UnknownIssuer), "{error}");
}

#[tokio::test]
async fn a_proxy_that_refuses_is_reported() {
    use ConnectionErrorKind::{Proxy, ProxyAuthentication};
    for (reply, kind, expected) in [
        (
            "HTTP/1.1 407 Proxy Authentication Required\r\n\r\n",
            ProxyAuthentication,
            "USER:PASSWORD",
        ),
        ("HTTP/1.1 403 Not \x1b[31mhere\r\n\r\n", Proxy, "403 Not [31mhere"),
        ("HTTP/1.1 200 OK\r\n\r\nearly", Proxy, "before the connection was used"),
        ("SSH-2.0-OpenSSH\r\n\r\n", Proxy, "is it an HTTP proxy"),
    ] {
        let proxy = TestProxy::start(0, None, Some(reply)).await;
        let connector = HostConnector::new().proxy(proxy.settings());
        let error = connect(&connector, "https://mcp.example").await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(expected), "{error}");
    }
    let long: &'static str = Box::leak(format!("HTTP/1.1 200 {}", "x".repeat(40_000)).into());
    let proxy = TestProxy::start(0, None, Some(long)).await;
    let connector = HostConnector::new().proxy(proxy.settings());
    let error = connect(&connector, "https://mcp.example").await.unwrap_err();
    assert!(error.to_string().contains("too long"), "{error}");
    let nothing = ProxySettings::url("http://127.0.0.1:1").unwrap();
    let error = connect(&HostConnector::new().proxy(nothing), "https://mcp.example").await;
    let error = error.unwrap_err();
    assert!(error.to_string().starts_with("cannot use the proxy"), "{error}");
    let cause = error.source().unwrap().downcast_ref::<io::Error>().unwrap();
    assert_eq!(cause.kind(), io::ErrorKind::ConnectionRefused);
}

/// A proxy that accepts connections and says nothing is named, and not the host behind it.
#[tokio::test]
async fn a_silent_proxy_is_named() {
    let authority = TestAuthority::new();
    let plain = TestProxy::start(0, None, Some("")).await;
    let mute = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mute = format!("https://localhost:{}", mute.local_addr().unwrap().port());
    let [plain, encrypted] = [&format!("http://127.0.0.1:{}", plain.port), &mute];
    for (proxy, url) in [
        (plain, "https://mcp.example"),
        (plain, "http://mcp.example"),
        (encrypted, "https://mcp.example"),
    ] {
        let connector = HostConnector::new()
            .proxy(ProxySettings::url(proxy).unwrap())
            .trust_pem(&authority.pem())
            .unwrap()
            .timeout(Duration::from_millis(100));
        let error = connect(&connector, url).await.unwrap_err();
        assert_eq!(error.kind(), ConnectionErrorKind::TimedOut, "{error}");
        assert!(error.to_string().contains(proxy.as_str()), "{error}");
    }
}

/// Addresses that the proxy cannot reach, or does not answer for, take an equal part of the time.
#[tokio::test]
async fn each_address_of_a_protected_connection_is_tried_through_the_proxy() {
    let addresses = ["93.184.215.14:443", "93.184.215.15:443", "93.184.215.16:443"];
    let addresses = addresses.map(|it| it.parse().unwrap());
    let protected = |proxy: &TestProxy| {
        HostConnector::new()
            .proxy(proxy.settings())
            .addresses(AddressPolicy::PUBLIC)
            .resolver(TestResolver::to(&addresses))
            .timeout(Duration::from_millis(600))
    };
    let forbidden = "HTTP/1.1 403 Forbidden\r\n\r\n";
    let unauthorized = "HTTP/1.1 407 Proxy Authentication Required\r\n\r\n";
    for (reply, kind, attempts) in [
        (forbidden, ConnectionErrorKind::Proxy, 3),
        ("", ConnectionErrorKind::TimedOut, 3),
        // The same user and password would be rejected again.
        (unauthorized, ConnectionErrorKind::ProxyAuthentication, 1),
    ] {
        let proxy = TestProxy::start(0, None, Some(reply)).await;
        let error = connect(&protected(&proxy), "http://id.example").await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert_eq!(proxy.lines().len(), attempts, "{reply}");
    }
}

#[tokio::test]
async fn a_timeout_without_end_is_one() {
    let port = echo_server(None).await;
    let connector = HostConnector::new().proxy(ProxySettings::none()).timeout(Duration::MAX);
    let origin = Origin::parse(&format!("http://127.0.0.1:{port}")).unwrap();
    connector.check(&origin).await.unwrap();
    echoes(&mut connector.connect(&origin).await.unwrap()).await;
}
