//! Modern servers: every request is stateless.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use wharf_model::{ErrorKind, HeaderParams, Method, RequestBuilder};

use crate::client_http::{
    scripted_server::{ResponseWriter, ScriptedServer, SeenRequest, legacy, modern, progress},
    support::{MODERN, assert_error, begin, call, connect, soon, text, tool},
};

#[tokio::test(start_paused = true)]
async fn headers_mirror_the_message() {
    let scripted = ScriptedServer::new(|seen: SeenRequest, mut wire: ResponseWriter| async move {
        if !modern(&seen, &mut wire).await {
            wire.json(200, &seen.text("x")).await;
        }
    })
    .await;
    let link = connect(&scripted.url()).await;
    let mut request = RequestBuilder::new(Method::CallTool).target("grüß").arguments("{}").build();
    request.mirrored =
        Some([("Region".to_owned(), Some("us".to_owned()))].into_iter().collect::<HeaderParams>());
    text(begin(&link, request).done().await).unwrap();
    for seen in scripted.log() {
        assert_eq!(seen.head("mcp-protocol-version"), Some(MODERN));
        assert_eq!(seen.head("mcp-method"), Some(seen.method()));
        assert_eq!(seen.head("content-type"), Some("application/json"));
        assert_eq!(seen.head("accept"), Some("application/json, text/event-stream"));
    }
    let call = scripted.log().pop().unwrap();
    assert!(call.head("mcp-name").unwrap().starts_with("=?base64?"), "{call:?}");
    assert_eq!(call.head("mcp-param-region"), Some("us"));
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_ends_without_a_reply_is_not_resumed() {
    for is_cut in [true, false] {
        let scripted =
            ScriptedServer::new(move |seen: SeenRequest, mut wire: ResponseWriter| async move {
                if modern(&seen, &mut wire).await {
                    return;
                }
                let token = &seen.body["params"]["_meta"]["progressToken"];
                wire.chunked().await;
                wire.chunk(&format!("id: 1\ndata: {}\n\n", progress(token, 1))).await;
                if !is_cut {
                    wire.raw("0\r\n\r\n").await;
                }
            })
            .await;
        let link = connect(&scripted.url()).await;
        let mut calling = begin(&link, tool("x", "{}"));
        let error = text(soon(calling.done()).await).unwrap_err();
        assert_error(&error, ErrorKind::ConnectionClosed, &[]);
        assert_eq!(calling.progress(), [1.0]);
        assert_eq!(scripted.methods(), ["server/discover", "tools/call"]);
    }
}

#[tokio::test(start_paused = true)]
async fn dropping_a_call_closes_its_connection() {
    for streams in [true, false] {
        let ended = Arc::new(AtomicUsize::new(0));
        let count = ended.clone();
        let scripted = ScriptedServer::new(move |seen: SeenRequest, mut wire: ResponseWriter| {
            let count = count.clone();
            async move {
                if modern(&seen, &mut wire).await {
                    return;
                }
                if streams {
                    wire.stream().await;
                }
                wire.disconnected().await;
                count.fetch_add(1, Ordering::SeqCst);
            }
        })
        .await;
        let link = connect(&scripted.url()).await;
        let mut calling = begin(&link, tool("x", "{}"));
        calling.run_for(Duration::from_millis(50)).await;
        scripted.wait_for("tools/call", 1).await;
        drop(calling);
        soon(async {
            while ended.load(Ordering::SeqCst) == 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
        .await;
        assert_eq!(scripted.methods(), ["server/discover", "tools/call"]);
    }
}

#[tokio::test(start_paused = true)]
async fn requests_of_the_server_are_not_answered() {
    let scripted = ScriptedServer::new(|seen: SeenRequest, mut wire: ResponseWriter| async move {
        if modern(&seen, &mut wire).await {
            return;
        }
        wire.stream().await;
        wire.raw("event: other\ndata: {}\n\ndata: garbage\n\n").await;
        wire.raw("data: {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n\n").await;
        wire.raw("data: {\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"roots/list\"}\n\n").await;
        wire.event(None, &seen.text("x")).await;
        wire.hold().await;
    })
    .await;
    let link = connect(&scripted.url()).await;
    assert_eq!(soon(call(&link, "x")).await.unwrap(), "x");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(scripted.methods(), ["server/discover", "tools/call"]);
}

#[tokio::test(start_paused = true)]
async fn a_changed_server_is_probed_again() {
    let downgraded = Arc::new(AtomicUsize::new(0));
    let state = downgraded.clone();
    let scripted = ScriptedServer::new(move |seen: SeenRequest, mut wire: ResponseWriter| {
        let is_legacy = state.load(Ordering::SeqCst) == 1;
        async move {
            match (is_legacy, seen.method(), seen.head("mcp-session-id")) {
                (false, "tools/call", _) => wire.json(200, &seen.text("modern")).await,
                (false, ..) => _ = modern(&seen, &mut wire).await,
                (true, "tools/call", Some(_)) => wire.json(200, &seen.text("legacy")).await,
                (true, "tools/call", None) => wire.answer(400, "", "Bad Request: no session").await,
                (true, ..) => _ = legacy(&seen, &mut wire).await,
            }
        }
    })
    .await;
    let link = connect(&scripted.url()).await;
    assert_eq!(call(&link, "x").await.unwrap(), "modern");
    assert!(link.sends_param_headers());
    downgraded.store(1, Ordering::SeqCst);
    assert_eq!(call(&link, "x").await.unwrap(), "legacy");
    assert!(!link.sends_param_headers());
    assert_eq!(link.about().revision, "2025-11-25");
}
