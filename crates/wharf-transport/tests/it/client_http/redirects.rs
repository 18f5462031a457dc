//! Redirects, and the headers that are sent along.

use wharf_model::ErrorKind;
use wharf_transport::client::{ClientTransportOptions, connect_http};

use crate::client_http::{
    scripted_server::{ResponseWriter, ScriptedServer, SeenRequest, legacy, modern},
    support::{assert_error, call, options, traced},
};

fn secret() -> Vec<(String, String)> {
    vec![("Authorization".into(), "Bearer secret".into()), ("X-Key".into(), "secret".into())]
}

/// A server that redirects all requests.
async fn redirecting_server(status: u16, to: String) -> ScriptedServer {
    ScriptedServer::new(move |_: SeenRequest, mut wire: ResponseWriter| {
        let location = format!("Location: {to}\r\n");
        async move { wire.answer(status, &location, "moved").await }
    })
    .await
}

async fn refused(url: &str, options: ClientTransportOptions) -> wharf_model::Error {
    connect_http(url, secret(), options).await.err().unwrap()
}

#[tokio::test(start_paused = true)]
async fn within_the_origin_messages_are_repeated() {
    for status in [307, 308] {
        let scripted =
            ScriptedServer::new(move |seen: SeenRequest, mut wire: ResponseWriter| async move {
                match &*seen.path {
                    "/mcp" => wire.answer(status, "Location: /mcp/\r\n", "moved").await,
                    "/mcp/" => wire.answer(status, "Location: ../there?x=1#y\r\n", "").await,
                    "/there?x=1" if modern(&seen, &mut wire).await => {}
                    "/there?x=1" => wire.json(200, &seen.text("there")).await,
                    other => panic!("{other}"),
                }
            })
            .await;
        let link = connect_http(&scripted.url(), secret(), options()).await.unwrap();
        assert_eq!(call(&link, "x").await.unwrap(), "there");
        let call = scripted.log().pop().unwrap();
        assert_eq!(
            (call.method(), call.head("authorization")),
            ("tools/call", Some("Bearer secret"))
        );
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_to_another_origin() {
    let thief = ScriptedServer::new(|seen: SeenRequest, mut wire: ResponseWriter| async move {
        _ = modern(&seen, &mut wire).await;
    })
    .await;
    let port = thief.port;
    let elsewhere = [
        format!("http://127.0.0.1:{port}/mcp"),
        format!("//127.0.0.1:{port}/mcp"),
        format!("http://localhost:{port}/mcp"),
        format!("https://127.0.0.1:{port}/mcp"),
        format!("http://x@127.0.0.1:{port}/mcp"),
        "file:///etc/passwd".to_owned(),
    ];
    for to in elsewhere {
        for status in [301, 302, 303, 307, 308] {
            let scripted = redirecting_server(status, to.clone()).await;
            let error = refused(&scripted.url(), options()).await;
            assert_error(&error, ErrorKind::TransportError, &["redirects", &status.to_string()]);
            if to.starts_with("http://127") {
                assert_error(
                    &error,
                    ErrorKind::TransportError,
                    &[&format!("http://127.0.0.1:{port}")],
                );
            }
        }
    }
    assert_eq!(thief.methods(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn loops_and_other_redirects_end() {
    let scripted = redirecting_server(307, "/mcp".into()).await;
    assert_error(
        &refused(&scripted.url(), options()).await,
        ErrorKind::TransportError,
        &["5 times"],
    );
    assert_eq!(scripted.log().len(), 6);
    for status in [301, 302, 303] {
        let scripted = redirecting_server(status, "/there".into()).await;
        let error = refused(&scripted.url(), options()).await;
        assert_error(&error, ErrorKind::TransportError, &["POST", "/there", "307"]);
        assert_eq!(scripted.log().len(), 1);
    }
    let scripted = ScriptedServer::new(|_: SeenRequest, mut wire: ResponseWriter| async move {
        wire.status(307).await
    })
    .await;
    assert_error(
        &refused(&scripted.url(), options()).await,
        ErrorKind::TransportError,
        &["Location"],
    );
}

#[tokio::test(start_paused = true)]
async fn headers_of_the_caller_are_sent_and_never_shown() {
    let scripted = ScriptedServer::new(|seen: SeenRequest, mut wire: ResponseWriter| async move {
        match seen.method() {
            "tools/call" => wire.json(200, &seen.text("x")).await,
            _ => _ = legacy(&seen, &mut wire).await,
        }
    })
    .await;
    let mut headers = secret();
    for (name, value) in [
        ("Accept", "text/html"),
        ("content-type", "text/plain"),
        ("Mcp-Session-Id", "mine"),
        ("MCP-Protocol-Version", "1999-01-01"),
        ("Last-Event-ID", "7"),
        ("User-Agent", "tug/2"),
        ("Cookie", "secret=1"),
    ] {
        headers.push((name.into(), value.into()));
    }
    let (options, trace) = traced(options());
    let url = format!("{}?key=secret", scripted.url());
    let link = connect_http(&url, headers, options).await.unwrap();
    call(&link, "x").await.unwrap();
    scripted.wait_for("GET", 1).await;
    link.close().await;
    for seen in scripted.log() {
        assert_eq!(seen.head("authorization"), Some("Bearer secret"), "{seen:?}");
        assert_eq!(seen.head("cookie"), Some("secret=1"));
        assert_eq!(seen.head("user-agent"), Some("tug/2"));
        assert!(seen.path.ends_with("?key=secret"), "{seen:?}");
        assert!(seen.head("accept").unwrap().contains("text/event-stream"));
        assert_ne!(seen.head("mcp-session-id"), Some("mine"));
        assert_ne!(seen.head("mcp-protocol-version"), Some("1999-01-01"));
        assert_eq!(seen.head("last-event-id"), None);
    }
    let trace = trace.lock().unwrap().join("\n");
    assert!(trace.contains("tools/call") && trace.contains("200"), "{trace}");
    assert!(!trace.contains("secret"), "{trace}");

    let bad = vec![("X Y".to_owned(), "secret".to_owned())];
    let error = connect_http(&scripted.url(), bad, crate::client_http::support::options())
        .await
        .err()
        .unwrap();
    assert_error(&error, ErrorKind::InvalidParams, &["X Y"]);
    let bad = vec![("X".to_owned(), "secret\n".to_owned() + "more")];
    let error = connect_http(&scripted.url(), bad, crate::client_http::support::options())
        .await
        .err()
        .unwrap();
    assert!(error.kind.is_invalid_params() && !error.message.contains("secret"), "{error:?}");
}
