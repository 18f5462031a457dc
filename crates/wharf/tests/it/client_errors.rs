//! Errors of a client that an application matches on.

use std::{error::Error as _, io, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
use wharf::{
    Client, Endpoint, ErrorKind, Resource, Server, args,
    client::{CallError, ChildCommand, ConnectError, TimeoutKind},
    tool,
};

/// Adds two numbers.
#[tool]
fn add(a: i64, b: i64) -> i64 {
    a + b
}

/// Never ends.
#[tool]
async fn hang() {
    std::future::pending().await
}

fn server() -> Endpoint {
    Server::new("harbour", "1.0.0").tool::<add>().tool::<hang>().build().unwrap()
}

/// The first I/O error among the sources of `error`.
fn io_error(error: &dyn std::error::Error) -> Option<io::ErrorKind> {
    let mut cause = error.source();
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return Some(error.kind());
        }
        cause = error.source();
    }
    None
}

/// Address at which no socket listens.
async fn free_address() -> String {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().to_string()
}

/// Serves one response, which is not an MCP message, to each connection.
async fn rubbish(answer: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 4096];
            let _ = stream.read(&mut request).await;
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    address
}

#[tokio::test]
async fn refusal_carries_the_error_that_travelled() {
    let client = Client::builder().era(wharf::Era::Modern).connect(server()).await.unwrap();
    match client.call("absent", ()).await {
        Err(CallError::Refused(error)) => {
            assert_eq!(error.kind, ErrorKind::ToolNotFound);
            assert_eq!((error.code, &*error.message), (Some(-32602), "Unknown tool: absent"));
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_timeout_error_names_its_limit_and_duration() {
    let client = Client::connect(server()).await.unwrap();
    let second = Duration::from_secs(1);
    let idle = client.call("hang", ()).timeout(second).await.unwrap_err();
    let total = client.call("hang", ()).total(second).await.unwrap_err();
    for (error, expected) in [(idle, TimeoutKind::Idle), (total, TimeoutKind::Total)] {
        match error {
            CallError::TimedOut { timeout, limit, .. } => {
                assert_eq!((timeout, limit), (expected, second));
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn refused_connection_leads_to_the_io_error() {
    let address = free_address().await;
    for scheme in ["http", "ws", "tcp"] {
        let target = format!("{scheme}://{address}");
        let error = Client::connect(target.as_str()).await.unwrap_err();
        assert!(matches!(error, ConnectError::Transport { .. }), "{target}: {error:?}");
        assert_eq!(io_error(&error), Some(io::ErrorKind::ConnectionRefused), "{target}");
    }
}

#[tokio::test]
async fn program_that_does_not_start_leads_to_the_io_error() {
    let error = Client::connect(ChildCommand::new("/no/such/program")).await.unwrap_err();
    assert!(matches!(error, ConnectError::Start { .. }), "{error:?}");
    assert_eq!(io_error(&error), Some(io::ErrorKind::NotFound));
}

#[tokio::test]
async fn rubbish_is_not_mcp() {
    let page = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 6\r\n\r\n<html>";
    let no_http = "SSH-2.0-OpenSSH_9.6\r\n";
    for answer in [page, no_http] {
        let address = rubbish(answer).await;
        let error = Client::connect(format!("http://{address}/").as_str()).await.unwrap_err();
        assert!(matches!(error, ConnectError::NotMcp { .. }), "{answer}: {error:?}");
    }
}

#[tokio::test]
async fn unusable_targets_differ_from_unreachable_ones() {
    for target in ["mailto:harbour", "http://", "ws://", "http://me:x@host", "tcp:1"] {
        let error = Client::connect(target).await.unwrap_err();
        assert!(matches!(error, ConnectError::InvalidTarget { .. }), "{target}: {error:?}");
    }
}

/// Errors that the user must fix are not reported as an unreachable server, and are not retried.
#[tokio::test]
async fn unusable_settings_differ_from_unreachable_servers() {
    let demands = "HTTP/1.1 407 Proxy Authentication Required\r\n\r\n";
    let proxy = format!("http://{}", rubbish(demands).await);
    for target in ["https://harbour.example/", "wss://harbour.example/"] {
        let builder = Client::builder().proxy(&proxy).unwrap();
        let error = builder.connect(target).await.unwrap_err();
        assert!(matches!(error, ConnectError::InvalidTarget { .. }), "{target}: {error:?}");
        assert!(error.message().contains("USER:PASSWORD"), "{error}");
        assert!(error.source().is_some(), "{target}");
    }
}

#[tokio::test]
async fn too_many_redirects_are_not_mcp() {
    let address =
        rubbish("HTTP/1.1 307 Temporary Redirect\r\nlocation: /again\r\ncontent-length: 0\r\n\r\n");
    let address = address.await;
    let error = Client::connect(format!("http://{address}/").as_str()).await.unwrap_err();
    assert!(matches!(error, ConnectError::NotMcp { .. }), "{error:?}");
    assert!(error.message().contains("redirects more than 5 times"), "{error}");
}

#[tokio::test]
async fn options_of_urls_are_not_ignored_for_other_targets() {
    let proxied = || Client::builder().proxy("http://proxy.example:3128").unwrap();
    let unix = if cfg!(unix) { "unix:/no/such/socket" } else { "tcp://127.0.0.1:1" };
    for target in ["tcp://127.0.0.1:1", unix] {
        let error = proxied().connect(target).await.unwrap_err();
        assert!(matches!(error, ConnectError::InvalidTarget { .. }), "{target}: {error:?}");
        assert!(error.message().contains("`proxy`"), "{error}");
    }
    let error = proxied().connect(ChildCommand::new("true")).await.unwrap_err();
    assert!(matches!(error, ConnectError::InvalidTarget { .. }), "{error:?}");
    // These targets connect without an HTTP proxy anyway.
    let connected = Client::builder().no_proxy().connect(server()).await;
    assert!(connected.is_ok(), "{connected:?}");
}

#[tokio::test]
async fn wrong_usage_is_not_a_refusal() {
    let client = Client::connect(server()).await.unwrap();
    let error = client.call("add", [1, 2]).await.unwrap_err();
    assert!(matches!(error, CallError::Usage { kind: ErrorKind::InvalidParams, .. }), "{error:?}");
    let error = client.read("harbour:tide").await.unwrap_err();
    let unsupported = ErrorKind::CapabilityNotSupported;
    assert!(matches!(error, CallError::Usage { kind, .. } if kind == unsupported), "{error:?}");
}

#[tokio::test]
async fn closed_client_is_wrong_usage() {
    let client = Client::builder().era(wharf::Era::Modern).connect(server()).await.unwrap();
    client.close().await;
    let error = client.call("add", args! { a: 1, b: 2 }).await.unwrap_err();
    assert!(matches!(error, CallError::Usage { .. }), "{error:?}");
}

/// A failed call of a handler to its upstream server is an internal error, whatever error the upstream server reports.
#[tokio::test]
async fn question_mark_in_a_handler_is_an_internal_error() {
    let upstream = Client::connect(server()).await.unwrap();
    let tide = Resource::new("harbour:tide", move || {
        let upstream = upstream.clone();
        async move {
            let tide: String = upstream.call_as("absent", ()).await?;
            Ok::<_, wharf::Error>(tide)
        }
    });
    let endpoint = Server::new("proxy", "1.0.0").add(tide).build().unwrap();
    let client = Client::builder().era(wharf::Era::Modern).connect(endpoint).await.unwrap();
    match client.read("harbour:tide").await {
        Err(CallError::Refused(error)) => {
            assert_eq!(error.kind, ErrorKind::InternalError);
            assert!(!error.message.contains("absent"), "{error}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn errors_of_a_transport_survive_the_way_to_the_caller() {
    let error = CallError::transport("the cable is cut", false, io::Error::other("snap"));
    let received = CallError::of_outcome(error.into_outcome_error());
    assert!(matches!(received, CallError::Transport { may_have_arrived: false, .. }));
    assert_eq!(received.source().unwrap().to_string(), "snap");
}
