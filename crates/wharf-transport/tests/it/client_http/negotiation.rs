//! Version negotiation: the first response selects the protocol revision.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::json;
use tokio::{sync::Semaphore, time::timeout};
use wharf_model::ErrorKind;
use wharf_transport::client::{RevisionCache, connect_http};

use crate::client_http::{
    scripted_server::{ResponseWriter, ScriptedServer, SeenRequest, legacy, modern},
    support::{MODERN, assert_error, begin, call, connect, options, refused, soon, tool},
};

/// Response to the probe: status, further headers, body.
type ProbeReply = (u16, &'static str, &'static str);

/// A server that answers `server/discover` with this response, and all other messages as a legacy
/// server does.
async fn answering_server((status, heads, body): ProbeReply) -> ScriptedServer {
    ScriptedServer::new(move |seen: SeenRequest, mut wire: ResponseWriter| async move {
        match seen.method() {
            "server/discover" => wire.answer(status, heads, body).await,
            "tools/call" => wire.json(200, &seen.text("legacy")).await,
            _ => _ = legacy(&seen, &mut wire).await,
        }
    })
    .await
}

const JSON: &str = "content-type: application/json\r\n";
const EVENTS: &str = "content-type: text/event-stream\r\n";

#[tokio::test(start_paused = true)]
async fn responses_of_no_modern_server_select_legacy() {
    let answers: [ProbeReply; 14] = [
        (200, JSON, r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"what?"}}"#),
        (200, JSON, r#"{"jsonrpc":"2.0","id":"discover-1","result":{}}"#),
        (200, JSON, r#"{"jsonrpc":"2.0","id":"discover-1","result":{"tools":[]}}"#),
        (200, JSON, "garbage"),
        (200, JSON, ""),
        (200, "content-type: text/html\r\n", "<h1>Welcome</h1>"),
        (200, EVENTS, ""),
        (200, EVENTS, ": hello\n\ndata: garbage\n\n"),
        (202, "", ""),
        (204, "", ""),
        (400, "", "Bad Request: Server not initialized"),
        (
            400,
            JSON,
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no session"}}"#,
        ),
        (404, "", ""),
        (405, "", ""),
    ];
    for probe in answers {
        let scripted = answering_server(probe).await;
        let link = connect(&scripted.url()).await;
        assert_eq!(link.about().revision, "2025-11-25", "{probe:?}");
        assert_eq!(call(&link, "x").await.unwrap(), "legacy", "{probe:?}");
        assert!(!link.sends_param_headers());
    }
}

#[tokio::test(start_paused = true)]
async fn some_statuses_select_no_revision() {
    let challenge = "WWW-Authenticate: Bearer resource_metadata=\"https://x/y\"\r\n";
    let answers: [(ProbeReply, ErrorKind); 8] = [
        ((401, challenge, ""), ErrorKind::Unauthenticated),
        ((403, "", "no"), ErrorKind::Forbidden),
        ((429, "Retry-After: 3\r\n", ""), ErrorKind::RateLimited),
        ((503, "Retry-After: 3\r\n", ""), ErrorKind::TemporarilyUnavailable),
        ((500, "", "Internal Server Error"), ErrorKind::TransportError),
        ((502, "", ""), ErrorKind::TransportError),
        ((504, "", ""), ErrorKind::TransportError),
        (
            (500, JSON, r#"{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"m"}}"#),
            ErrorKind::TransportError,
        ),
    ];
    for (probe, kind) in answers {
        let scripted = answering_server(probe).await;
        let options = options();
        let verdicts = options.revision_cache.clone();
        let error = refused(&scripted.url(), options).await;
        assert_eq!(error.kind, kind, "{probe:?}: {error:?}");
        let data = error.data.unwrap();
        assert_eq!(data["httpStatus"], probe.0);
        match probe.0 {
            401 => assert!(data["wwwAuthenticate"].as_str().unwrap().contains("https://x/y")),
            429 | 503 => assert_eq!(data["retryAfterMs"], 3000),
            _ => assert!(error.message.contains(&probe.0.to_string()), "{}", error.message),
        }
        assert_eq!(scripted.methods(), ["server/discover"], "{probe:?}");
        assert_eq!(verdicts.get(&scripted.url()), None);
    }
}

#[tokio::test(start_paused = true)]
async fn silence_is_followed_by_a_handshake() {
    let scripted = ScriptedServer::new(|seen: SeenRequest, mut wire: ResponseWriter| async move {
        match seen.method() {
            "server/discover" => wire.hold().await,
            "tools/call" => wire.json(200, &seen.text("legacy")).await,
            _ => _ = legacy(&seen, &mut wire).await,
        }
    })
    .await;
    let link = soon(connect(&scripted.url())).await;
    assert_eq!(call(&link, "x").await.unwrap(), "legacy");

    let silent = ScriptedServer::new(|_: SeenRequest, wire: ResponseWriter| wire.hold()).await;
    let error = soon(refused(&silent.url(), options())).await;
    assert_error(&error, ErrorKind::RequestTimeout, &["server"]);
}

#[tokio::test(start_paused = true)]
async fn a_modern_error_leads_to_the_version_it_names() {
    let scripted = ScriptedServer::new(|seen: SeenRequest, mut wire: ResponseWriter| async move {
        if seen.method() == "server/discover" {
            let mut error = seen.error(-32022, "Unsupported protocol version");
            error["error"]["data"] = json!({"supported": ["2025-06-18"], "requested": MODERN});
            return wire.json(400, &error).await;
        }
        match seen.method() {
            "initialize" => wire.hello(&seen, "2025-06-18", None).await,
            _ => _ = legacy(&seen, &mut wire).await,
        }
    })
    .await;
    let link = connect(&scripted.url()).await;
    assert_eq!(link.about().revision, "2025-06-18");
    assert_eq!(scripted.log()[1].body["params"]["protocolVersion"], "2025-06-18");
}

#[tokio::test(start_paused = true)]
async fn the_handshake_may_come_as_events() {
    let scripted = ScriptedServer::new(|seen: SeenRequest, mut wire: ResponseWriter| async move {
        if seen.method() != "initialize" {
            legacy(&seen, &mut wire).await;
 return;
        }
        wire.raw("HTTP/1.1 200 X\r\nconnection: close\r\nMcp-Session-Id: streamed\r\ncontent-type: text/event-stream; charset=utf-8\r\n\r\n").await;
        wire.raw(": hello\n\nid: 1\ndata:\n\n").await;
        let log = json!({"level": "info", "data": "starting"});
        wire.event(None, &json!({"jsonrpc": "2.0", "method": "notifications/message", "params": log})).await;
        wire.event(Some("2"), &seen.reply(json!({
            "protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"},
        })))
        .await;
        // The stream does not end by itself.
        wire.hold().await;
    })
    .await;
    let link = soon(connect(&scripted.url())).await;
    assert_eq!(link.about().revision, "2025-06-18");
    scripted.wait_for("GET", 1).await;
    for seen in &scripted.log()[2..] {
        assert_eq!(seen.head("mcp-session-id"), Some("streamed"), "{seen:?}");
        assert_eq!(seen.head("mcp-protocol-version"), Some("2025-06-18"), "{seen:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_revision_is_cached_and_corrected() {
    let scripted = ScriptedServer::new(|seen: SeenRequest, mut wire: ResponseWriter| async move {
        _ = legacy(&seen, &mut wire).await;
    })
    .await;
    let verdicts = Arc::new(RevisionCache::in_memory());
    let again = || {
        let mut options = options();
        options.revision_cache = verdicts.clone();
        options
    };
    connect_http(&scripted.url(), Vec::new(), again()).await.unwrap().close().await;
    assert_eq!(scripted.count("server/discover"), 1);
    connect_http(&scripted.url(), Vec::new(), again()).await.unwrap().close().await;
    assert_eq!(scripted.count("server/discover"), 1);

    // The same key, but the server has changed since.
    let scripted = ScriptedServer::new(|seen: SeenRequest, mut wire: ResponseWriter| async move {
        if !modern(&seen, &mut wire).await {
            wire.json(404, &seen.error(-32601, "Method not found")).await;
        }
    })
    .await;
    verdicts.put(&scripted.url(), "2025-06-18".parse().unwrap());
    let link = connect_http(&scripted.url(), Vec::new(), again()).await.unwrap();
    assert_eq!(link.about().revision, MODERN);
    assert_eq!(scripted.methods()[..2], ["initialize", "server/discover"]);
    assert_eq!(verdicts.get(&scripted.url()).unwrap().to_string(), MODERN);
}

#[tokio::test(start_paused = true)]
async fn a_refused_connection_is_an_error() {
    let error = refused("http://127.0.0.1:9/mcp", options()).await;
    assert_error(
        &error,
        ErrorKind::TransportError,
        &["nothing listens at 127.0.0.1:9 (connection refused)"],
    );
    let error = refused("http://no-such-host.invalid/mcp", options()).await;
    assert_error(&error, ErrorKind::TransportError, &["no-such-host.invalid"]);
    // An international name gets its ASCII form.
    let error = refused("http://ü.invalid/mcp", options()).await;
    assert_error(&error, ErrorKind::TransportError, &["xn--tda.invalid"]);
    for url in
        ["", "mcp", "ftp://127.0.0.1/", "http://", "http://u:secret@127.0.0.1/", "http://ü\u{0}/"]
    {
        let error = refused(url, options()).await;
        assert_error(&error, ErrorKind::InvalidParams, &["URL"]);
        assert!(!error.message.contains("secret"));
    }
}

#[tokio::test(start_paused = true)]
async fn an_html_page_is_an_error() {
    let scripted = ScriptedServer::new(|_: SeenRequest, mut wire: ResponseWriter| async move {
        wire.answer(404, "content-type: text/html\r\n", "<h1>Not here</h1>").await;
    })
    .await;
    let error = refused(&scripted.url(), options()).await;
    assert_error(&error, ErrorKind::TransportError, &[&scripted.url(), "404"]);
    assert_eq!(scripted.methods(), ["server/discover", "initialize", "GET"]);

    // Servers that do not use HTTP, or close the connection without a response.
    for greeting in ["SSH-2.0-OpenSSH_9.9\r\n", "HTTP/1.1 200 OK\r\nbroken header\r\n\r\n", ""] {
        let scripted =
            ScriptedServer::new(move |_: SeenRequest, mut wire: ResponseWriter| async move {
                wire.raw(greeting).await
            })
            .await;
        let error = refused(&scripted.url(), options()).await;
        let kinds = [ErrorKind::TransportError, ErrorKind::ConnectionClosed];
        assert!(kinds.contains(&error.kind), "{greeting:?}: {error:?}");
        assert!(error.message.contains(&scripted.url()), "{greeting:?}: {error:?}");
    }
}

#[cfg(not(feature = "tls"))]
#[tokio::test]
async fn https_without_the_feature_is_an_error() {
    let scripted = answering_server((404, "", "")).await;
    let error = refused(&format!("https://127.0.0.1:{}/mcp", scripted.port), options()).await;
    assert_error(&error, ErrorKind::TransportError, &["`tls`"]);
    assert!(scripted.log().is_empty());
}

/// Error for `https://` with a server that uses plain HTTP.
#[cfg(feature = "tls")]
#[tokio::test]
async fn https_to_a_plain_port_explains_the_error() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    for (answer, said) in [
        (
            "HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n",
            "does not speak TLS; try http://",
        ),
        ("", "if it does not speak TLS, try http://"),
    ] {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let _ = stream.read(&mut [0; 4096]).await;
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        });
        let error = refused(&format!("https://{address}/mcp"), options()).await;
        let says_where = format!("{said}{address}");
        assert_error(
            &error,
            ErrorKind::TransportError,
            &[&says_where, &format!("https://{address}")],
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_handshake_that_is_dropped_ends_its_session() {
    let scripted = ScriptedServer::new(|seen: SeenRequest, mut wire: ResponseWriter| async move {
        match seen.method() {
            "notifications/initialized" => wire.hold().await,
            _ => _ = legacy(&seen, &mut wire).await,
        }
    })
    .await;
    let url = scripted.url();
    let opening = tokio::spawn(async move { connect(&url).await });
    scripted.wait_for("notifications/initialized", 1).await;
    opening.abort();
    scripted.wait_for("DELETE", 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_not_polled_delays_neither_other_calls_nor_close() {
    for closes in [false, true] {
        let calls = Arc::new(AtomicUsize::new(0));
        let gate = Arc::new(Semaphore::new(1));
        let opens = gate.clone();
        let scripted = ScriptedServer::new(move |seen: SeenRequest, mut wire: ResponseWriter| {
            let (calls, opens) = (calls.clone(), opens.clone());
            async move {
                match seen.method() {
                    "initialize" => {
                        opens.acquire().await.unwrap().forget();
                        _ = legacy(&seen, &mut wire).await;
                    }
                    "tools/call" if calls.fetch_add(1, Ordering::SeqCst) == 0 => {
                        wire.status(404).await;
                    }
                    "tools/call" => wire.json(200, &seen.text("x")).await,
                    _ => _ = legacy(&seen, &mut wire).await,
                }
            }
        })
        .await;
        let link = connect(&scripted.url()).await;
        let mut kept = begin(&link, tool("x", "{}"));
        tokio::select! {
            ended = kept.done() => panic!("{ended:?}"),
            () = scripted.wait_for("initialize", 2) => {}
        }
        if closes {
            timeout(Duration::from_secs(600), link.close()).await.unwrap();
        } else {
            gate.add_permits(1);
            timeout(Duration::from_secs(600), call(&link, "x")).await.unwrap().unwrap();
        }
    }
}
