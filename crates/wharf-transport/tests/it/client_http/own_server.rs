//! Our own server, in every revision.

use wharf_client::ControlRequest;
use wharf_model::{ErrorKind, LogLevel, Notification, Outcome, Reply};
use wharf_transport::server::http::Http;

use crate::client_http::{
    support::{
        LEGACY, MODERN, assert_error, begin, call, connect, connect_pinned, fails, listen, pinned,
        refused, soon, text, tool,
    },
    test_server::HttpServer,
};

/// Every revision with a URL that serves it.
async fn all_revisions(server: &HttpServer) -> Vec<(&'static str, String)> {
    let at_one_url = LEGACY.into_iter().chain([MODERN]).map(|revision| (revision, server.url()));
    std::iter::once(("2024-11-05", server.at("/sse"))).chain(at_one_url).collect()
}

#[tokio::test(start_paused = true)]
async fn calls_in_every_revision() {
    let server = HttpServer::serve(Http::new().sse_2024()).await;
    for (revision, url) in all_revisions(&server).await {
        let link = connect_pinned(&url, revision).await;
        assert_eq!((&*link.about().revision, &*link.about().info.name), (revision, "toy"));
        assert_eq!(link.sends_param_headers(), revision == MODERN);
        assert_eq!(call(&link, "hello").await.unwrap(), "hello", "{revision}");
        let mut counting = begin(&link, tool("count", r#"{"to":5}"#));
        assert_eq!(text(counting.done().await).unwrap(), "done", "{revision}");
        assert_eq!(counting.progress(), [1.0, 2.0, 3.0, 4.0, 5.0], "{revision}");
        for errand in [
            ControlRequest::Ping,
            ControlRequest::LogLevel(LogLevel::Error),
            ControlRequest::RootsChanged,
        ] {
            link.run(errand).await.unwrap();
        }
        link.close().await;
        assert_error(&fails(&link, "hello").await, ErrorKind::ConnectionClosed, &["closed"]);
    }
}

#[tokio::test(start_paused = true)]
async fn server_to_client_requests_reach_their_call() {
    let server = HttpServer::serve(Http::new().sse_2024()).await;
    for (revision, url) in all_revisions(&server).await {
        if revision == MODERN {
            continue;
        }
        let link = connect_pinned(&url, revision).await;
        let mut asking = begin(&link, tool("ask", "{}"));
        let answer = text(soon(asking.done()).await).unwrap();
        assert!(answer.contains("file:///here"), "{revision}: {answer}");
        assert_eq!(asking.asked, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_call_ends_at_the_server() {
    let server = HttpServer::serve(Http::new().sse_2024()).await;
    for (revision, url) in all_revisions(&server).await {
        let link = connect_pinned(&url, revision).await;
        let mut waiting = begin(&link, tool("gate", "{}"));
        waiting.run_for(std::time::Duration::from_millis(10)).await;
        server.has_calls(1).await;
        drop(waiting);
        server.has_calls(0).await;
        assert_eq!(call(&link, "still").await.unwrap(), "still", "{revision}");
    }
}

#[tokio::test(start_paused = true)]
async fn subscriptions_receive_the_changes_of_their_filter() {
    let server = HttpServer::serve(Http::new().sse_2024()).await;
    for (revision, url) in all_revisions(&server).await {
        let link = connect_pinned(&url, revision).await;
        let mut listening = listen(&link, &["toy:1"]);
        soon(listening.receive(1)).await;
        let Notification::Acknowledged(agreed) = &listening.received[0] else { panic!() };
        assert!(agreed.tools && agreed.uris.contains("toy:1"), "{revision}: {agreed:?}");
        // The session's GET stream is opened in the background.
        listening.run_for(std::time::Duration::from_millis(100)).await;
        for uri in ["toy:2", "toy:1"] {
            server.changes.send(Notification::ResourceUpdated { uri: uri.into() }).unwrap();
        }
        server.changes.send(Notification::ToolsChanged).unwrap();
        soon(listening.receive(3)).await;
        let received = format!("{:?}", &listening.received[1..]);
        assert_eq!(received, r#"[ResourceUpdated { uri: "toy:1" }, ToolsChanged]"#, "{revision}");
        link.close().await;
        let end = soon(listening.done()).await;
        assert!(matches!(end, Outcome::Complete(Reply::Listened)), "{revision}: {end:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_released_connection_is_resumed() {
    let server = HttpServer::serve(Http::new()).await;
    for revision in ["2025-06-18", "2025-11-25"] {
        let link = connect_pinned(&server.url(), revision).await;
        let mut calling = begin(&link, tool("let_go", r#"{"to":3}"#));
        soon(calling.receive(3)).await;
        // Long enough for some streams to be closed and resumed.
        calling.run_for(std::time::Duration::from_secs(20)).await;
        server.gate.add_permits(1);
        assert_eq!(text(soon(calling.done()).await).unwrap(), "done");
        assert_eq!(calling.progress(), [1.0, 2.0, 3.0, 1.0, 2.0, 3.0], "{revision}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_newest_revision_is_found() {
    let server = HttpServer::serve(Http::new().sse_2024()).await;
    let link = connect(&server.url()).await;
    assert_eq!(link.about().revision, MODERN);
    assert!(link.about().supported.iter().any(|it| it == "2025-03-26"));
    let link = connect(&server.at("/sse")).await;
    assert!(LEGACY.contains(&&*link.about().revision), "{:?}", link.about());
    assert_eq!(call(&link, "hello").await.unwrap(), "hello");
    // A pinned revision excludes all others.
    let error = refused(&server.at("/sse"), pinned(MODERN)).await;
    assert_error(&error, ErrorKind::UnsupportedProtocolVersion, &[MODERN]);
}

#[tokio::test(start_paused = true)]
async fn stateless_servers_do_as_well() {
    let server = HttpServer::serve(Http::new().stateless()).await;
    for revision in LEGACY {
        let link = connect_pinned(&server.url(), revision).await;
        assert_eq!(call(&link, "hello").await.unwrap(), "hello", "{revision}");
        link.close().await;
    }
}

#[tokio::test(start_paused = true)]
async fn any_request_by_its_name() {
    let server = HttpServer::serve(Http::new()).await;
    for revision in LEGACY.into_iter().chain([MODERN]) {
        let link = connect_pinned(&server.url(), revision).await;
        let outbox = wharf_model::Outbox::new(
            std::sync::Arc::new(wharf_transport::TokioTimer),
            wharf_model::Deadlines::default(),
        );
        let params = serde_json::value::to_raw_value(&serde_json::json!({"name": "ünï"})).unwrap();
        let result = link.request("tools/call".into(), Some(params), outbox.clone()).await.unwrap();
        assert!(result.get().contains("ünï"), "{revision}: {result}");
        let error = link.request("no/such".into(), None, outbox).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::MethodNotFound, "{revision}: {error:?}");
    }
}

#[tokio::test]
async fn two_hundred_calls_at_once() {
    let server = HttpServer::serve(Http::new()).await;
    for revision in ["2025-11-25", MODERN] {
        let link = connect_pinned(&server.url(), revision).await;
        let mut calls = tokio::task::JoinSet::new();
        for number in 0..200 {
            let link = link.clone();
            calls.spawn(async move {
                let name = format!("tool-{number}");
                assert_eq!(call(&link, &name).await.unwrap(), name);
            });
        }
        soon(async {
            while let Some(done) = calls.join_next().await {
                done.unwrap()
            }
        })
        .await;
    }
}

#[tokio::test]
async fn one_connection_serves_call_after_call() {
    let server = HttpServer::serve(Http::new()).await;
    for revision in ["2025-11-25", MODERN] {
        let (port, accepted) = counting_proxy(server.port).await;
        let link = connect_pinned(&format!("http://127.0.0.1:{port}/mcp"), revision).await;
        for _ in 0..10 {
            let mut counting = begin(&link, tool("count", r#"{"to":3}"#));
            assert_eq!(text(counting.done().await).unwrap(), "done");
            assert_eq!(call(&link, "hello").await.unwrap(), "hello");
        }
        // A stream that is read to its end returns its connection to the pool shortly after the
        // reply.
        let accepted = accepted.load(std::sync::atomic::Ordering::SeqCst);
        assert!(accepted <= 5, "{accepted} connections for 20 calls in {revision}");
    }
}

/// Forwards all bytes and counts connections.
async fn counting_proxy(to: u16) -> (u16, std::sync::Arc<std::sync::atomic::AtomicUsize>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let accepted = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = accepted.clone();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            tokio::spawn(async move {
                let mut server = tokio::net::TcpStream::connect(("127.0.0.1", to)).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
    (port, accepted)
}
