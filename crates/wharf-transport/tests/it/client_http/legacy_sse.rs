//! Legacy HTTP+SSE transport of 2024-11-05.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use tokio::sync::mpsc;
use wharf_model::ErrorKind;

use crate::client_http::{
    scripted_server::{ResponseWriter, ScriptedServer, SeenRequest},
    support::{assert_error, begin, call, connect, fails, options, refused, soon, text, tool},
};

/// Sender for events of the open stream.
type EventSender = Arc<Mutex<Option<mpsc::UnboundedSender<String>>>>;

/// A server that announces `endpoint` and sends the result of `answer` for each message as an
/// event.
async fn legacy_server(
    endpoint: &'static str,
    answer: fn(&SeenRequest) -> Option<Value>,
) -> (ScriptedServer, EventSender) {
    let feed: EventSender = Arc::default();
    let (fed, streams) = (feed.clone(), Arc::new(AtomicUsize::new(0)));
    let scripted = ScriptedServer::new(move |seen: SeenRequest, mut wire: ResponseWriter| {
        let (feed, streams) = (fed.clone(), streams.clone());
        async move {
            if seen.verb == "GET" {
                streams.fetch_add(1, Ordering::SeqCst);
                let (sender, mut events) = mpsc::unbounded_channel::<String>();
                *feed.lock().unwrap() = Some(sender);
                wire.stream().await;
                wire.raw(&format!("event: endpoint\ndata: {endpoint}\n\n")).await;
                while let Some(event) = events.recv().await {
                    wire.raw(&event).await;
                }
                return;
            }
            if !seen.path.starts_with("/messages") {
                return wire
                    .answer(405, "content-type: text/plain\r\n", "Method Not Allowed")
                    .await;
            }
            match seen.body["params"]["name"].as_str() {
                Some("refused") => return wire.status(418).await,
                Some("forgotten once") if streams.load(Ordering::SeqCst) == 1 => {
                    return wire.status(404).await;
                }
                _ => {}
            }
            wire.status(202).await;
            if let (Some(answer), Some(feed)) = (answer(&seen), &*feed.lock().unwrap()) {
                let _ = feed.send(format!("event: message\ndata: {answer}\n\n"));
            }
        }
    })
    .await;
    (scripted, feed)
}

fn usual_replies(seen: &SeenRequest) -> Option<Value> {
    Some(match seen.method() {
        "initialize" => seen.reply(json!({
            "protocolVersion": "2024-11-05", "capabilities": {"tools": {}},
            "serverInfo": {"name": "old", "version": "1"},
        })),
        "tools/call" if seen.body["params"]["name"] == "silent" => return None,
        "tools/call" => seen.text("old"),
        _ => return None,
    })
}

#[tokio::test(start_paused = true)]
async fn messages_are_posted_to_the_announced_endpoint() {
    for endpoint in ["/messages?session=1", "messages?session=1", "?x"] {
        let (scripted, feed) = legacy_server(endpoint, usual_replies).await;
        if endpoint == "?x" {
            // The announced endpoint does not accept POST.
            assert_error(
                &soon(refused(&scripted.url(), options())).await,
                ErrorKind::TransportError,
                &["405"],
            );
            continue;
        }
        let link = connect(&scripted.url()).await;
        assert_eq!((&*link.about().revision, &*link.about().info.name), ("2024-11-05", "old"));
        assert_eq!(call(&link, "x").await.unwrap(), "old");
        let posted = scripted.log().into_iter().filter(|it| it.path == "/messages?session=1");
        assert_eq!(posted.count(), 3);
        // That revision does not have the header.
        assert!(scripted.log().iter().all(|it| it.head("mcp-session-id").is_none()));
        let ping = "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n\n";
        feed.lock().unwrap().as_ref().unwrap().send(ping.into()).unwrap();
        scripted.wait_for("answer", 1).await;
        let mut calling = begin(&link, tool("silent", "{}"));
        calling.run_for(Duration::from_millis(20)).await;
        drop(calling);
        scripted.wait_for("notifications/cancelled", 1).await;
        link.close().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_ends_fails_its_calls_and_is_reopened() {
    let (scripted, feed) = legacy_server("/messages", usual_replies).await;
    let link = connect(&scripted.url()).await;
    let mut calling = begin(&link, tool("silent", "{}"));
    calling.run_for(Duration::from_millis(20)).await;
    feed.lock().unwrap().take();
    let error = text(soon(calling.done()).await).unwrap_err();
    assert_error(&error, ErrorKind::ConnectionClosed, &["stream"]);
    assert_eq!(soon(call(&link, "x")).await.unwrap(), "old");
    assert_eq!(scripted.log().iter().filter(|it| it.verb == "GET").count(), 2);
}

#[tokio::test(start_paused = true)]
async fn messages_go_to_no_other_origin() {
    for endpoint in [
        "http://127.0.0.1:9/messages",
        "//example.com/messages",
        "https://127.0.0.1/m",
        "javascript:x",
    ] {
        let (scripted, _feed) = legacy_server(endpoint, usual_replies).await;
        let error = refused(&scripted.url(), options()).await;
        assert!(!error.message.is_empty());
        if endpoint.starts_with("http") {
            assert_error(&error, ErrorKind::TransportError, &["another origin"]);
        }
        assert!(
            scripted.log().iter().all(|it| it.verb == "GET" || it.path == "/mcp"),
            "{endpoint}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_without_an_endpoint_event_is_an_error() {
    for stream in ["data: hello\n\n", ": nothing\n\n", "event: message\ndata: {}\n\n"] {
        let scripted =
            ScriptedServer::new(move |seen: SeenRequest, mut wire: ResponseWriter| async move {
                if seen.verb == "GET" {
                    wire.stream().await;
                    return wire.raw(stream).await;
                }
                wire.status(404).await;
            })
            .await;
        assert_error(
            &refused(&scripted.url(), options()).await,
            ErrorKind::TransportError,
            &["endpoint"],
        );
    }
    // A stream without events is given up after a timeout.
    let scripted = ScriptedServer::new(|seen: SeenRequest, mut wire: ResponseWriter| async move {
        if seen.verb == "GET" {
            wire.stream().await;
            return wire.hold().await;
        }
        wire.status(404).await;
    })
    .await;
    assert_error(&soon(refused(&scripted.url(), options())).await, ErrorKind::RequestTimeout, &[]);
}

#[tokio::test(start_paused = true)]
async fn a_refused_message_fails_its_call() {
    let (scripted, _feed) = legacy_server("/messages", usual_replies).await;
    let link = connect(&scripted.url()).await;
    assert_error(&fails(&link, "refused").await, ErrorKind::TransportError, &["418"]);
    assert_eq!(call(&link, "x").await.unwrap(), "old");
}

#[tokio::test(start_paused = true)]
async fn a_lost_stream_is_reopened() {
    let (scripted, _feed) = legacy_server("/messages", usual_replies).await;
    let link = connect(&scripted.url()).await;
    assert_eq!(soon(call(&link, "forgotten once")).await.unwrap(), "old");
    assert_eq!(scripted.log().iter().filter(|it| it.verb == "GET").count(), 2);
}
