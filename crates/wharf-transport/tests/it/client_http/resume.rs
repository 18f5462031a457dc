//! Resumability: streams that break and continue with `Last-Event-ID`.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{sync::Notify, time::Instant};
use wharf_model::{Deadlines, ErrorKind, Outcome};

use crate::client_http::{
    scripted_server::{ResponseWriter, ScriptedServer, SeenRequest, legacy, progress},
    support::{assert_error, begin, begin_within, connect, soon, text, tool},
};

/// Server behaviour when a stream is resumed: number of earlier resumptions, request, call.
type ResumeHandler =
    dyn Fn(usize, SeenRequest, Value, ResponseWriter) -> wharf_model::BoxFuture<()> + Send + Sync;

/// A server that sends `first` for each call and cuts the stream, then continues as `again`
/// decides.
async fn cutting_server(
    first: impl Fn(Value) -> String + Clone + Send + Sync + 'static,
    again: Arc<ResumeHandler>,
) -> ScriptedServer {
    let (call, times) = (Arc::new(Mutex::new(None)), Arc::new(AtomicUsize::new(0)));
    ScriptedServer::new(move |seen: SeenRequest, mut wire: ResponseWriter| {
        let (call, times, first, again) =
            (call.clone(), times.clone(), first.clone(), again.clone());
        async move {
            match (seen.method(), seen.head("last-event-id").is_some()) {
                ("tools/call", _) => {
                    let reply = seen.text("done");
                    let token = seen.body["params"]["_meta"]["progressToken"].clone();
                    *call.lock().unwrap() = Some(json!({"reply": reply, "token": token}));
                    wire.chunked().await;
                    wire.chunk(&first(token)).await;
                }
                ("GET", true) => {
                    let call = call.lock().unwrap().clone().unwrap();
                    let time = times.fetch_add(1, Ordering::SeqCst);
                    again(time, seen, call, wire).await;
                }
                _ => _ = legacy(&seen, &mut wire).await,
            }
        }
    })
    .await
}

fn resumes(scripted: &ScriptedServer) -> Vec<String> {
    let ids =
        scripted.log().into_iter().filter_map(|it| it.head("last-event-id").map(str::to_owned));
    ids.collect()
}

#[tokio::test(start_paused = true)]
async fn a_cut_within_an_event_loses_and_repeats_nothing() {
    let first = |token: Value| {
        let whole = format!("id: 1\ndata: {}\n\n", progress(&token, 1));
        let cut = format!("id: 2\ndata: {}", progress(&token, 2));
        format!("{whole}{cut}")
    };
    let scripted = cutting_server(
        first,
        Arc::new(|time, seen, call, mut wire| {
            Box::pin(async move {
                wire.stream().await;
                let last: u64 = seen.head("last-event-id").unwrap().parse().unwrap();
                assert_eq!(last, if time == 0 { 1 } else { 3 });
                for number in last + 1..=last + 2 {
                    wire.event(Some(&number.to_string()), &progress(&call["token"], number)).await;
                }
                if time == 1 {
                    wire.event(Some("6"), &call["reply"]).await;
                }
            })
        }),
    )
    .await;
    let link = connect(&scripted.url()).await;
    let mut calling = begin(&link, tool("x", "{}"));
    assert_eq!(text(soon(calling.done()).await).unwrap(), "done");
    assert_eq!(calling.progress(), [1.0, 2.0, 3.0, 4.0, 5.0]);
    assert_eq!(resumes(&scripted), ["1", "3"]);
    let taken_up = scripted.log().pop().unwrap();
    assert_eq!(taken_up.head("mcp-protocol-version"), Some("2025-11-25"));
    assert_eq!(taken_up.head("mcp-session-id"), Some("a-session"));
    assert_eq!(scripted.count("tools/call"), 1);
}

#[tokio::test(start_paused = true)]
async fn the_retry_field_sets_the_reconnect_delay() {
    for (retry, least, most) in [
        ("retry: 30000\n", 30_000, 40_000),
        ("", 1_000, 5_000),
        ("retry: 0\n", 0, 1_000),
        ("retry: 99999999999\n", 60_000, 90_000),
        ("retry: soon\n", 1_000, 5_000),
    ] {
        let scripted = cutting_server(
            move |_| format!("id: primer\n{retry}data:\n\n"),
            Arc::new(|_, _, call, mut wire| {
                Box::pin(async move {
                    wire.stream().await;
                    wire.event(Some("2"), &call["reply"]).await;
                })
            }),
        )
        .await;
        let link = connect(&scripted.url()).await;
        let begun = Instant::now();
        assert_eq!(text(begin(&link, tool("x", "{}")).done().await).unwrap(), "done");
        let waited = begun.elapsed();
        let expected = Duration::from_millis(least)..Duration::from_millis(most);
        assert!(expected.contains(&waited), "{retry:?}: {waited:?}");
        assert_eq!(resumes(&scripted), ["primer"]);
    }
}

#[tokio::test(start_paused = true)]
async fn resumption_is_retried_for_a_limited_time() {
    let scripted = cutting_server(
        |_| "id: 1\ndata:\n\n".into(),
        Arc::new(|time, _, call, mut wire| {
            Box::pin(async move {
                match time {
                    0 => wire.status(503).await,
                    1 => drop(wire),
                    2 => wire.stream().await,
                    _ => {
                        wire.stream().await;
                        wire.event(None, &call["reply"]).await;
                    }
                }
            })
        }),
    )
    .await;
    let link = connect(&scripted.url()).await;
    assert_eq!(text(soon(begin(&link, tool("x", "{}")).done()).await).unwrap(), "done");
    assert_eq!(resumes(&scripted), ["1", "1", "1", "1"]);

    let away = cutting_server(
        |_| "id: 1\ndata:\n\n".into(),
        Arc::new(|_, _, _, mut wire| Box::pin(async move { wire.status(503).await })),
    )
    .await;
    let link = connect(&away.url()).await;
    let error = text(begin(&link, tool("x", "{}")).done().await).unwrap_err();
    assert_error(&error, ErrorKind::ConnectionClosed, &["resumed"]);
    assert!((5..20).contains(&resumes(&away).len()), "{:?}", resumes(&away));
}

#[tokio::test(start_paused = true)]
async fn an_unresumable_stream_is_closed() {
    // Without an event id, the stream cannot be resumed.
    let scripted =
        cutting_server(|_| ": hello\n\n".into(), Arc::new(|_, _, _, _| unreachable!())).await;
    let link = connect(&scripted.url()).await;
    let error = text(begin(&link, tool("x", "{}")).done().await).unwrap_err();
    assert_error(&error, ErrorKind::ConnectionClosed, &[]);
    // The server may not recognize the id, or may not support resumption.
    for status in [400, 405] {
        let scripted = cutting_server(
            |_| "id: 1\ndata:\n\n".into(),
            Arc::new(move |_, _, _, mut wire| Box::pin(async move { wire.status(status).await })),
        )
        .await;
        let link = connect(&scripted.url()).await;
        let error = text(begin(&link, tool("x", "{}")).done().await).unwrap_err();
        assert_error(&error, ErrorKind::ConnectionClosed, &["resumed"]);
        assert_eq!((resumes(&scripted).len(), scripted.count("tools/call")), (1, 1));
    }
    // The session is gone as well; the next call opens another one.
    let scripted = cutting_server(
        |_| "id: 1\ndata:\n\n".into(),
        Arc::new(|_, _, _, mut wire| Box::pin(async move { wire.status(404).await })),
    )
    .await;
    let link = connect(&scripted.url()).await;
    for opened in [1, 2] {
        let error = text(begin(&link, tool("x", "{}")).done().await).unwrap_err();
        assert_error(&error, ErrorKind::ConnectionClosed, &[]);
        assert_eq!(scripted.count("initialize"), opened);
    }
}

#[tokio::test(start_paused = true)]
async fn the_get_stream_is_resumed_as_well() {
    let times = Arc::new(AtomicUsize::new(0));
    let scripted = ScriptedServer::new(move |seen: SeenRequest, mut wire: ResponseWriter| {
        let times = times.clone();
        async move {
            if seen.method() != "GET" {
                legacy(&seen, &mut wire).await;
 return;
            }
            match times.fetch_add(1, Ordering::SeqCst) {
                0 => {
                    assert_eq!(seen.head("last-event-id"), None);
                    wire.stream().await;
                    wire.raw("retry: 100\nid: a\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n\nid: b\ndata: {").await;
                }
                // The server has not detected the end of the first stream yet.
                1 => wire.status(409).await,
                2 => {
                    assert_eq!(seen.head("last-event-id"), Some("a"));
                    wire.stream().await;
                    wire.event(Some("b"), &json!({"jsonrpc": "2.0", "id": 2, "method": "ping"})).await;
                    wire.hold().await;
                }
                _ => panic!("there is a stream already"),
            }
        }
    })
    .await;
    let link = connect(&scripted.url()).await;
    scripted.wait_for("answer", 2).await;
    let answers = scripted.log().into_iter().filter(|it| it.method() == "answer");
    assert_eq!(answers.map(|it| it.body["id"].clone()).collect::<Vec<_>>(), [1, 2]);
    link.close().await;
}

/// TS#2615: the stream of a call that had timed out was opened again with `Last-Event-ID`.
#[tokio::test(start_paused = true)]
async fn the_stream_of_a_call_that_timed_out_is_not_resumed() {
    for ends_by_itself in [true, false] {
        let cancelled = Arc::new(Notify::new());
        let scripted = ScriptedServer::new(move |seen: SeenRequest, mut wire: ResponseWriter| {
            let cancelled = cancelled.clone();
            async move {
                match seen.method() {
                    "tools/call" => {
                        wire.stream().await;
                        wire.event(
                            Some("1"),
                            &progress(&seen.body["params"]["_meta"]["progressToken"], 1),
                        )
                        .await;
                        if !ends_by_itself {
                            return wire.hold().await;
                        }
                        cancelled.notified().await;
                    }
                    "notifications/cancelled" => {
                        cancelled.notify_one();
                        wire.status(202).await;
                    }
                    _ => _ = legacy(&seen, &mut wire).await,
                }
            }
        })
        .await;
        let link = connect(&scripted.url()).await;
        let limit = Deadlines::NONE.total(Some(Duration::from_secs(5)));
        let mut call = begin_within(&link, tool("x", "{}"), limit);
        let Outcome::Failed(error) = call.done().await else { panic!("it has no end") };
        assert_error(&error, ErrorKind::RequestTimeout, &[]);
        assert_eq!(call.progress(), [1.0]);
        drop(call);
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert_eq!(resumes(&scripted), [""; 0]);
        assert_eq!(scripted.count("notifications/cancelled"), 1);
        assert_eq!(scripted.count("tools/call"), 1);
    }
}
