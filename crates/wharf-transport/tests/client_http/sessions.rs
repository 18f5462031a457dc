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

use crate::{
    bed::{begin, call, connect, connect_pinned, fails, options, refused, says, soon, text, tool},
    script::{SESSION, Seen, ServerProtocol, Site, legacy},
};

#[tokio::test(start_paused = true)]
async fn every_request_names_its_session_and_the_last_one_ends_it() {
    let site = Site::new(|seen: Seen, mut wire: ServerProtocol| async move {
        if !legacy(&seen, &mut wire).await {
            wire.json(200, &seen.text("x")).await;
        }
    })
    .await;
    let link = connect(&site.url()).await;
    call(&link, "x").await.unwrap();
    site.came("GET", 1).await;
    link.close().await;
    // Closing twice has no further effect.
    link.close().await;
    assert_eq!(site.count("DELETE"), 1);
    for seen in site.log() {
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
async fn a_link_that_is_only_dropped_ends_its_session_too() {
    let site = Site::new(|seen: Seen, mut wire: ServerProtocol| async move {
        _ = legacy(&seen, &mut wire).await;
    })
    .await;
    drop(connect(&site.url()).await);
    site.came("DELETE", 1).await;
}

#[tokio::test(start_paused = true)]
async fn strange_session_ids_are_refused() {
    for id in ["with space".to_owned(), "tab\tbed".to_owned(), "ü".to_owned(), "x".repeat(5000)] {
        let shown = id.clone();
        let site = Site::new(move |seen: Seen, mut wire: ServerProtocol| {
            let id = id.clone();
            async move {
                match seen.method() {
                    "initialize" => wire.hello(&seen, "2025-06-18", Some(&id)).await,
                    _ => _ = legacy(&seen, &mut wire).await,
                }
            }
        })
        .await;
        let error = refused(&site.url(), options()).await;
        says(&error, ErrorKind::TransportError, &["session id"]);
        assert!(!error.message.contains(&shown));
    }
}

/// A server that drops its sessions on demand; session ids are numbers.
async fn forgetful(how: u16) -> (Site, Arc<AtomicUsize>) {
    let session = Arc::new(AtomicUsize::new(1));
    let state = session.clone();
    let site = Site::new(move |seen: Seen, mut wire: ServerProtocol| {
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
    (site, session)
}

#[tokio::test(start_paused = true)]
async fn a_forgotten_session_is_opened_anew_once_for_all() {
    for how in [404, 400] {
        let (site, session) = forgetful(how).await;
        let link = connect(&site.url()).await;
        link.run(ControlRequest::LogLevel(LogLevel::Warning)).await.unwrap();
        assert_eq!(call(&link, "x").await.unwrap(), "1");
        session.store(2, Ordering::SeqCst);
        let calls = (call(&link, "x"), call(&link, "x"), call(&link, "x"));
        let said = soon(async { tokio::join!(calls.0, calls.1, calls.2) }).await;
        assert_eq!(
            (said.0.unwrap(), said.1.unwrap(), said.2.unwrap()),
            ("2".into(), "2".into(), "2".into())
        );
        assert_eq!(site.count("initialize"), 2);
        // The log level applies to the next session as well.
        assert_eq!(site.count("logging/setLevel"), 2);
        session.store(3, Ordering::SeqCst);
        link.run(ControlRequest::Ping).await.unwrap_err();
        link.run(ControlRequest::LogLevel(LogLevel::Error)).await.unwrap();
        assert_eq!(call(&link, "x").await.unwrap(), "3");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_forgets_at_once_is_given_up() {
    let site = Site::new(|seen: Seen, mut wire: ServerProtocol| async move {
        match seen.method() {
            "tools/call" => wire.status(404).await,
            _ => _ = legacy(&seen, &mut wire).await,
        }
    })
    .await;
    let link = connect(&site.url()).await;
    says(&fails(&link, "x").await, ErrorKind::TransportError, &["404"]);
    assert_eq!((site.count("initialize"), site.count("tools/call")), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn without_a_session_404_is_an_error() {
    let site = Site::new(|seen: Seen, mut wire: ServerProtocol| async move {
        match seen.method() {
            "initialize" => wire.hello(&seen, "2025-06-18", None).await,
            "tools/call" => wire.status(404).await,
            _ => _ = legacy(&seen, &mut wire).await,
        }
    })
    .await;
    let link = connect(&site.url()).await;
    says(&fails(&link, "x").await, ErrorKind::TransportError, &["404"]);
    link.close().await;
    assert_eq!((site.count("initialize"), site.count("DELETE")), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn questions_are_answered_by_post() {
    let answered = Arc::new(Notify::new());
    let site = Site::new(move |seen: Seen, mut wire: ServerProtocol| {
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
    let link = connect(&site.url()).await;
    let mut calling = begin(&link, tool("x", "{}"));
    assert_eq!(text(soon(calling.done()).await).unwrap(), "thanks");
    assert_eq!(calling.asked, 1);
    let answers: Vec<_> = site.log().into_iter().filter(|it| it.method() == "answer").collect();
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

struct ServerNotification(std::sync::Mutex<Vec<String>>);

impl NotificationListener for ServerNotification {
    fn on_notification(&self, notification: &Notification) {
        self.0.lock().unwrap().push(format!("{notification:?}"));
    }
}

#[tokio::test(start_paused = true)]
async fn the_server_speaks_on_a_stream_of_its_own() {
    let speak = Arc::new(Notify::new());
    let may_speak = speak.clone();
    let site = Site::new(move |seen: Seen, mut wire: ServerProtocol| {
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
    let link = connect(&site.url()).await;
    let ear = Arc::new(ServerNotification(Default::default()));
    let heard: Arc<dyn NotificationListener> = ear.clone();
    link.add_listener(Arc::downgrade(&heard));
    site.came("GET", 1).await;
    assert_eq!(
        site.log().iter().find(|it| it.verb == "GET").unwrap().head("accept"),
        Some("text/event-stream")
    );
    speak.notify_one();
    site.came("answer", 1).await;
    assert_eq!(*ear.0.lock().unwrap(), ["ToolsChanged"]);
    // A call without a reply ends when the transport is closed.
    let mut calling = begin(&link, tool("x", "{}"));
    calling.run_for(Duration::from_millis(50)).await;
    let (outcome, ()) = soon(async { tokio::join!(calling.done(), link.close()) }).await;
    assert_eq!(text(outcome).unwrap_err().kind, ErrorKind::ConnectionClosed);
}

#[tokio::test(start_paused = true)]
async fn a_reply_may_come_on_the_other_stream() {
    let asked: Arc<std::sync::Mutex<Option<Seen>>> = Arc::default();
    let site = Site::new(move |seen: Seen, mut wire: ServerProtocol| {
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
    let link = connect(&site.url()).await;
    assert_eq!(soon(call(&link, "x")).await.unwrap(), "here");
}

#[tokio::test(start_paused = true)]
async fn a_dropped_call_is_cancelled_by_name() {
    for streams in [true, false] {
        let site = Site::new(move |seen: Seen, mut wire: ServerProtocol| async move {
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
        let link = connect_pinned(&site.url(), "2025-11-25").await;
        let mut calling = begin(&link, tool("x", "{}"));
        calling.run_for(Duration::from_millis(50)).await;
        drop(calling);
        site.came("notifications/cancelled", 1).await;
        let log = site.log();
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
            site.methods()[site.methods().len() - 2..],
            ["notifications/cancelled", "DELETE"]
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_goodbye_that_nobody_answers_does_not_last() {
    let site = Site::new(|seen: Seen, mut wire: ServerProtocol| async move {
        match seen.method() {
            "DELETE" => wire.hold().await,
            _ => _ = legacy(&seen, &mut wire).await,
        }
    })
    .await;
    let link = connect(&site.url()).await;
    soon(link.close()).await;
    assert_eq!(site.count("DELETE"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_session_outlives_a_method_that_the_server_does_not_have() {
    let site = Site::new(|seen: Seen, mut wire: ServerProtocol| async move {
        match seen.method() {
            "tools/call" => match seen.body["params"]["name"].as_str().unwrap() {
                "unknown" => wire.json(404, &seen.error(-32601, "Method not found")).await,
                _ => wire.json(400, &seen.error(-32602, "session_name is not valid")).await,
            },
            _ => _ = legacy(&seen, &mut wire).await,
        }
    })
    .await;
    let link = connect(&site.url()).await;
    says(&fails(&link, "unknown").await, ErrorKind::MethodNotFound, &[]);
    says(&fails(&link, "wrong").await, ErrorKind::InvalidParams, &["session_name"]);
    assert_eq!(site.count("initialize"), 1);
}

#[tokio::test(start_paused = true)]
async fn closing_does_not_wait_for_an_opening() {
    let is_stuck = Arc::new(AtomicUsize::new(0));
    let state = is_stuck.clone();
    let site = Site::new(move |seen: Seen, mut wire: ServerProtocol| {
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
    let link = connect(&site.url()).await;
    is_stuck.store(1, Ordering::SeqCst);
    let mut calling = begin(&link, tool("x", "{}"));
    calling.run_for(Duration::from_millis(100)).await;
    assert_eq!(site.count("initialize"), 2);
    let begun = tokio::time::Instant::now();
    let (outcome, ()) = tokio::join!(calling.done(), link.close());
    assert_eq!(text(outcome).unwrap_err().kind, ErrorKind::ConnectionClosed);
    assert!(begun.elapsed() < Duration::from_secs(10));
}
