//! Addresses: the policy against SSRF, and happy eyeballs.

use std::net::{Ipv4Addr, SocketAddr};

use socket2::{Domain, Socket, Type};
use tokio::net::TcpStream;
use wharf_connect::{AddressPolicy, ConnectionErrorKind, HostConnector, ProxySettings};

use crate::support::{TestResolver, connect, echo_server, echoes};

fn connector(resolver: TestResolver) -> HostConnector {
    HostConnector::new().proxy(ProxySettings::none()).resolver(resolver)
}

/// Listener whose queue is full: the system drops further attempts to connect, without an answer.
async fn dead_address() -> (SocketAddr, impl Sized) {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).unwrap();
    socket.listen(0).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    let mut filling = Vec::new();
    for _ in 0..4 {
        let attempt = TcpStream::connect(address);
        let soon = tokio::time::timeout(std::time::Duration::from_millis(50), attempt);
        filling.push(soon.await);
    }
    assert!(filling.iter().any(Result::is_err), "the queue is full");
    (address, (socket, filling))
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_dead_first_address_is_passed_over() {
    let (dead, _open) = dead_address().await;
    let alive = SocketAddr::from(([127, 0, 0, 1], echo_server(None).await));
    let resolver = TestResolver::to(&[dead, alive]);
    let mut stream = connect(&connector(resolver), "http://name.example").await.unwrap();
    echoes(&mut stream).await;
}

#[tokio::test]
async fn one_forbidden_address_rejects_the_name() {
    let port = echo_server(None).await;
    let alive = SocketAddr::from(([127, 0, 0, 1], port));
    let public: SocketAddr = "9.9.9.9:443".parse().unwrap();
    let policies = [
        (AddressPolicy::PUBLIC, false),
        (AddressPolicy::PUBLIC.loopback(true), false),
        (AddressPolicy::PUBLIC.private(true), false),
        (AddressPolicy::PUBLIC.loopback(true).private(true), true),
        (AddressPolicy::ANY, true),
    ];
    for (policy, allowed) in policies {
        for addresses in [&[alive][..], &[alive, public], &[public, alive]] {
            let resolver = TestResolver::to(addresses);
            let checked = connector(resolver.clone()).addresses(policy);
            let origin = wharf_connect::Origin::parse("http://name.example").unwrap();
            let outcome = checked.check(&origin).await;
            assert_eq!(outcome.is_ok(), allowed, "{policy:?} {addresses:?}");
            if let Err(error) = outcome {
                assert_eq!(error.kind(), ConnectionErrorKind::Forbidden);
                assert!(connect(&checked, "http://name.example").await.is_err());
            }
            assert!(!resolver.names.lock().unwrap().is_empty());
        }
    }
}

#[tokio::test]
async fn loopback_is_allowed_where_the_url_names_it() {
    let port = echo_server(None).await;
    let near = connector(TestResolver::default()).addresses(AddressPolicy::PUBLIC.loopback(true));
    for host in ["localhost", "127.0.0.1", "2130706433", "LOCALHOST"] {
        echoes(&mut connect(&near, &format!("http://{host}:{port}")).await.unwrap()).await;
    }
    let public = near.clone().addresses(AddressPolicy::PUBLIC);
    for host in ["localhost", "127.0.0.1", "[::1]"] {
        let error = connect(&public, &format!("http://{host}:{port}")).await.unwrap_err();
        assert_eq!(error.kind(), ConnectionErrorKind::Forbidden, "{host}");
    }
    for host in ["[::ffff:127.0.0.1]", "0.0.0.0", "169.254.169.254", "10.0.0.1"] {
        let error = connect(&near, &format!("http://{host}:{port}")).await.unwrap_err();
        assert_eq!(error.kind(), ConnectionErrorKind::Forbidden, "{host}");
    }
    let error = connect(&near, "http://name.example").await.unwrap_err();
    assert_eq!(error.kind(), ConnectionErrorKind::Resolve, "{error}");
}
