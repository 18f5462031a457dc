//! Legacy sessions: session ids, their end, and server-to-client requests.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::json;
use tokio::sync::Notify;
use wharf_client::{ControlRequest, NotificationListener};
use wharf_model::{ErrorKind, LogLevel, Notification};

use crate::client_http::{
    scripted_server::{ResponseWriter, SESSION, ScriptedServer, SeenRequest, legacy},
    support::{
        assert_error, begin, call, connect, connect_pinned, fails, options, refused, soon, text,
        tool,
    },
};

#[tokio::test(start_paused = true)]
async fn every_request_names_its_session_and_the_last_one_ends_it() {
    let scripted = ScriptedServer::new(|seen: SeenRequest, mut wire: ResponseWriter| async move {
        if !legacy(&seen, &mut wire).await {
            wire.json(200, &seen.text("x")).await;
        }
    })
    .await;
    let link = connect(&scripted.url()).await;
    call(&link, "x").await.unwrap();
    scripted.wait_for("GET", 1).await;
    link.close().await;
    // Closing twice has no further effect.
    link.close().await;
    assert_eq!(scripted.count("DELETE"), 1);
    for seen in scripted.log() {
        let is_opening = matches!(seen.method(), "server/discover" | "initialize");
        let expected = (!is_opening).then_some(SESSION);
        assert_eq!(seen.head("mcp-session-id"), expected, "{seen:?}");
        let version = match seen.method() {
            "server/discover" => Some("2026-07-28"),
            "initialize" => None,
            _ => Some("2025-11-25"),
        };
        assert_eq!(seen.head("mcp-protocol-version"), version, "{seen:?}");
        assert_eq!(seen.head("mcp-method").is_some(), seen.method() == "server/discover");
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_transport_ends_its_session() {
    let scripted = ScriptedServer::new(|seen: SeenRequest, mut wire: ResponseWriter| async move {
        _ = legacy(&seen, &mut wire).await;
    })
    .await;
    drop(connect(&scripted.url()).await);
    scripted.wait_for("DELETE", 1).await;
}

#[tokio::test(start_paused = true)]
async fn strange_session_ids_are_refused() {
    for id in ["with space".to_owned(), "tab\tbed".to_owned(), "ü".to_owned(), "x".repeat(5000)] {
        let shown = id.clone();
        let scripted = ScriptedServer::new(move |seen: SeenRequest, mut wire: ResponseWriter| {
            let id = id.clone();
            async move {
                match seen.method() {
                    "initialize" => wire.hello(&seen, "2025-06-18", Some(&id)).await,
                    _ => _ = legacy(&seen, &mut wire).await,
                }
            }
        })
        .await;
        let error = refused(&scripted.url(), options()).await;
        assert_error(&error, ErrorKind::TransportError, &["session id"]);
        assert!(!error.message.contains(&shown));
    }
}

/// A server that drops its sessions on demand; session ids are numbers.
async fn session_dropping_server(how: u16) -> (ScriptedServer, Arc<AtomicUsize>) {
    let session = Arc::new(AtomicUsize::new(1));
    let state = session.clone();
    let scripted = ScriptedServer::new(move |seen: SeenRequest, mut wire: ResponseWriter| {
        let now = state.load(Ordering::SeqCst).to_string();
        async move {
            match seen.method() {
                "initialize" => wire.hello(&seen, "2025-06-18", Some(&now)).await,
                "server/discover" => wire.status(404).await,
                _ if seen.head("mcp-session-id") != Some(&now) => match how {
                    404 => wire.status(404).await,
                    _ => {
                        wire.json(
                            400,
                            &json!({"jsonrpc": "2.0", "id": null, "error":
                        {"code": -32000, "message": "Bad Request: No valid session ID provided"}}),
                        )
                        .await
                    }
                },
                "tools/call" => wire.json(200, &seen.text(&now)).await,
                "logging/setLevel" => wire.json(200, &seen.reply(json!({}))).await,
                _ => _ = legacy(&seen, &mut wire).await,
            }
        }
    })
    .await;
    (scripted, session)
}

#[tokio::test(start_paused = true)]
async fn a_lost_session_is_reopened_once_for_all_calls() {
    for how in [404, 400] {
        let (scripted, session) = session_dropping_server(how).await;
        let link = connect(&scripted.url()).await;
        link.run(ControlRequest::LogLevel(LogLevel::Warning)).await.unwrap();
        assert_eq!(call(&link, "x").await.unwrap(), "1");
        session.store(2, Ordering::SeqCst);
        let calls = (call(&link, "x"), call(&link, "x"), call(&link, "x"));
        let said = soon(async { tokio::join!(calls.0, calls.1, calls.2) }).await;
        assert_eq!(
            (said.0.unwrap(), said.1.unwrap(), said.2.unwrap()),
            ("2".into(), "2".into(), "2".into())
        );
        assert_eq!(scripted.count("initialize"), 2);
        // The log level applies to the next session as well.
        assert_eq!(scripted.count("logging/setLevel"), 2);
        session.store(3, Ordering::SeqCst);
        link.run(ControlRequest::Ping).await.unwrap_err();
        link.run(ControlRequest::LogLevel(LogLevel::Error)).await.unwrap();
        assert_eq!(call(&link, "x").await.unwrap(), "3");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_drops_sessions_at_once_is_an_error() {
    let scripted = ScriptedServer::new(|seen: SeenRequest, mut wire: ResponseWriter| async move {
        match seen.method() {
            "tools/call" => wire.status(404).await,
            _ => _ = legacy(&seen, &mut wire).await,
        }
    })
    .await;
    let link = connect(&scripted.url()).await;
    assert_error(&fails(&link, "x").await, ErrorKind::TransportError, &["404"]);
    assert_eq!((scripted.count("initialize"), scripted.count("tools/call")), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn without_a_session_404_is_an_error() {
    let scripted = ScriptedServer::new(|seen: SeenRequest, mut wire: ResponseWriter| async move {
        match seen.method() {
            "initialize" => wire.hello(&seen, "2025-06-18", None).await,
            "tools/call" => wire.status(404).await,
            _ => _ = legacy(&seen, &mut wire).await,
        }
    })
    .await;
    let link = connect(&scripted.url()).await;
    assert_error(&fails(&link, "x").await, ErrorKind::TransportError, &["404"]);
    link.close().await;
    assert_eq!((scripted.count("initialize"), scripted.count("DELETE")), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn server_to_client_requests_are_answered_by_post() {
    let answered = Arc::new(Notify::new());
    let scripted = ScriptedServer::new(move |seen: SeenRequest, mut wire: ResponseWriter| {
        let answered = answered.clone();
        async move {
            match seen.method() {
                "tools/call" => {
                    wire.stream().await;
                    let ask = |id: &str, method: &str| json!({"jsonrpc": "2.0", "id": id, "method": method});
                    wire.event(None, &ask("p", "ping")).await;
                    wire.event(None, &ask("r", "roots/list")).await;
                    wire.event(None, &ask("u", "unknown/thing")).await;
                    for _ in 0..3 {
                        answered.notified().await;
                    }
                    wire.event(None, &seen.text("thanks")).await;
                }
                "answer" => {
                    wire.status(202).await;
                    answered.notify_one();
                }
                _ => _ = legacy(&seen, &mut wire).await,
            }
        }
    })
    .await;
    let link = connect(&scripted.url()).await;
    let mut calling = begin(&link, tool("x", "{}"));
    assert_eq!(text(soon(calling.done()).await).unwrap(), "thanks");
    assert_eq!(calling.asked, 1);
    let answers: Vec<_> = scripted.log().into_iter().filter(|it| it.method() == "answer").collect();
    for answer in &answers {
        assert_eq!(answer.head("mcp-session-id"), Some(SESSION));
        match answer.body["id"].as_str().unwrap() {
            "p" => assert_eq!(answer.body["result"], json!({})),
            "r" => assert_eq!(answer.body["result"]["roots"][0]["uri"], "file:///here"),
            _ => assert_eq!(answer.body["error"]["code"], -32601),
        }
    }
    assert_eq!(answers.len(), 3);
}

struct SessionNotifications(std::sync::Mutex<Vec<String>>);

impl NotificationListener for SessionNotifications {
    fn on_notification(&self, notification: &Notification) {
        self.0.lock().unwrap().push(format!("{notification:?}"));
    }
}

#[tokio::test(start_paused = true)]
async fn notifications_arrive_on_the_get_stream() {
    let speak = Arc::new(Notify::new());
    let may_speak = speak.clone();
    let scripted = ScriptedServer::new(move |seen: SeenRequest, mut wire: ResponseWriter| {
        let speak = may_speak.clone();
        async move {
            match seen.method() {
                "GET" => {
                    wire.stream().await;
                    speak.notified().await;
                    wire.event(
                        None,
                        &json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}),
                    )
                    .await;
                    wire.event(None, &json!({"jsonrpc": "2.0", "id": 7, "method": "ping"})).await;
                    wire.hold().await;
                }
                // The reply is sent on the other stream.
                "tools/call" => wire.status(202).await,
                _ => _ = legacy(&seen, &mut wire).await,
            }
        }
    })
    .await;
    let link = connect(&scripted.url()).await;
    let ear = Arc::new(SessionNotifications(Default::default()));
    let received: Arc<dyn NotificationListener> = ear.clone();
    link.add_listener(Arc::downgrade(&received));
    scripted.wait_for("GET", 1).await;
    assert_eq!(
        scripted.log().iter().find(|it| it.verb == "GET").unwrap().head("accept"),
        Some("text/event-stream")
    );
    speak.notify_one();
    scripted.wait_for("answer", 1).await;
    assert_eq!(*ear.0.lock().unwrap(), ["ToolsChanged"]);
    // A call without a reply ends when the transport is closed.
    let mut calling = begin(&link, tool("x", "{}"));
    calling.run_for(Duration::from_millis(50)).await;
    let (outcome, ()) = soon(async { tokio::join!(calling.done(), link.close()) }).await;
    assert_eq!(text(outcome).unwrap_err().kind, ErrorKind::ConnectionClosed);
}

#[tokio::test(start_paused = true)]
async fn a_reply_may_come_on_the_other_stream() {
    let asked: Arc<std::sync::Mutex<Option<SeenRequest>>> = Arc::default();
    let scripted = ScriptedServer::new(move |seen: SeenRequest, mut wire: ResponseWriter| {
        let asked = asked.clone();
        async move {
            match seen.method() {
                "GET" => {
                    wire.stream().await;
                    let call = loop {
                        if let Some(call) = asked.lock().unwrap().take() {
                            break call;
                        }
                        tokio::time::sleep(Duration::from_millis(1)).await;
                    };
                    wire.event(None, &call.text("here")).await;
                    wire.hold().await;
                }
                "tools/call" => {
                    wire.stream().await;
                    *asked.lock().unwrap() = Some(seen);
                    wire.hold().await;
                }
                _ => _ = legacy(&seen, &mut wire).await,
            }
        }
    })
    .await;
    let link = connect(&scripted.url()).await;
    assert_eq!(soon(call(&link, "x")).await.unwrap(), "here");
}

#[tokio::test(start_paused = true)]
async fn a_dropped_call_is_cancelled_by_name() {
    for streams in [true, false] {
        let scripted =
            ScriptedServer::new(move |seen: SeenRequest, mut wire: ResponseWriter| async move {
                match seen.method() {
                    "tools/call" => {
                        if streams {
                            wire.stream().await;
                        }
                        wire.hold().await;
                    }
                    _ => _ = legacy(&seen, &mut wire).await,
                }
            })
            .await;
        let link = connect_pinned(&scripted.url(), "2025-11-25").await;
        let mut calling = begin(&link, tool("x", "{}"));
        calling.run_for(Duration::from_millis(50)).await;
        drop(calling);
        scripted.wait_for("notifications/cancelled", 1).await;
        let log = scripted.log();
        let of = |method: &str| log.iter().find(|it| it.method() == method).unwrap().clone();
        let cancelled = of("notifications/cancelled");
        assert_eq!(cancelled.body["params"]["requestId"], of("tools/call").body["id"]);
        assert_eq!(cancelled.head("mcp-session-id"), Some(SESSION));
        // A call that is dropped just before the transport is closed is still cancelled.
        let mut calling = begin(&link, tool("x", "{}"));
        calling.run_for(Duration::from_millis(50)).await;
        drop(calling);
        link.close().await;
        assert_eq!(
            scripted.methods()[scripted.methods().len() - 2..],
            ["notifications/cancelled", "DELETE"]
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_delete_times_out() {
    let scripted = ScriptedServer::new(|seen: SeenRequest, mut wire: ResponseWriter| async move {
        match seen.method() {
            "DELETE" => wire.hold().await,
            _ => _ = legacy(&seen, &mut wire).await,
        }
    })
    .await;
    let link = connect(&scripted.url()).await;
    soon(link.close()).await;
    assert_eq!(scripted.count("DELETE"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_session_outlives_a_method_that_the_server_does_not_have() {
    let scripted = ScriptedServer::new(|seen: SeenRequest, mut wire: ResponseWriter| async move {
        match seen.method() {
            "tools/call" => match seen.body["params"]["name"].as_str().unwrap() {
                "unknown" => wire.json(404, &seen.error(-32601, "Method not found")).await,
                _ => wire.json(400, &seen.error(-32602, "session_name is not valid")).await,
            },
            _ => _ = legacy(&seen, &mut wire).await,
        }
    })
    .await;
    let link = connect(&scripted.url()).await;
    assert_error(&fails(&link, "unknown").await, ErrorKind::MethodNotFound, &[]);
    assert_error(&fails(&link, "wrong").await, ErrorKind::InvalidParams, &["session_name"]);
    assert_eq!(scripted.count("initialize"), 1);
}

#[tokio::test(start_paused = true)]
async fn closing_does_not_wait_for_a_handshake() {
    let is_stuck = Arc::new(AtomicUsize::new(0));
    let state = is_stuck.clone();
    let scripted = ScriptedServer::new(move |seen: SeenRequest, mut wire: ResponseWriter| {
        let is_stuck = state.load(Ordering::SeqCst) == 1;
        async move {
            match seen.method() {
                "tools/call" => wire.status(404).await,
                "initialize" if is_stuck => wire.hold().await,
                _ => _ = legacy(&seen, &mut wire).await,
            }
        }
    })
    .await;
    let link = connect(&scripted.url()).await;
    is_stuck.store(1, Ordering::SeqCst);
    let mut calling = begin(&link, tool("x", "{}"));
    calling.run_for(Duration::from_millis(100)).await;
    assert_eq!(scripted.count("initialize"), 2);
    let begun = tokio::time::Instant::now();
    let (outcome, ()) = tokio::join!(calling.done(), link.close());
    assert_eq!(text(outcome).unwrap_err().kind, ErrorKind::ConnectionClosed);
    assert!(begun.elapsed() < Duration::from_secs(10));
}
