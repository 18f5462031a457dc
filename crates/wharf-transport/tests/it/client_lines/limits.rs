//! Limits of the client: too many, too long and unsolicited messages of a server.

use std::time::Duration;

use serde_json::json;
use wharf_model::{ErrorKind, Event, SubscriptionFilter};

use crate::client_lines::{
    scripted_peer::{legacy, modern},
    support::{StreamCall, TraceLog, call_text, listening, options, tool, until},
};

#[tokio::test(start_paused = true)]
async fn a_line_too_long_fails_the_call_and_not_the_link() {
    let mut options = options();
    options.limits.message = 1000;
    let (mut peer, link) = modern(options).await;
    for end in ["\n", ""] {
        let calling = tokio::spawn({
            let link = link.clone();
            async move { call_text(&link, "x").await }
        });
        peer.expect("tools/call").await;
        peer.print(&format!("{}{end}", "x".repeat(5000))).await;
        let error = calling.await.unwrap().unwrap_err();
        assert_eq!(error.kind, ErrorKind::ContentTooLarge);
        assert!(error.message.contains("1000 bytes"), "{error}");
    }
    // The endless line ends at last.
    for _ in 0..100 {
        peer.print(&"x".repeat(50_000)).await;
    }
    peer.print("\n").await;
    let calling = tokio::spawn(async move { call_text(&link, "x").await });
    let call = peer.expect("tools/call").await;
    peer.reply_text(&call, "fits").await;
    assert_eq!(calling.await.unwrap().unwrap(), "fits");
}

#[tokio::test(start_paused = true)]
async fn unknown_members_are_skipped() {
    let mut options = options();
    let trail = TraceLog::on(&mut options);
    let (mut peer, link) = modern(options).await;
    let calling = tokio::spawn(async move { call_text(&link, "x").await });
    let call = peer.expect("tools/call").await;
    peer.print("debug: called\n\u{1b}[2J\n{\"half\n").await;
    peer.reply(&json!({"id": 9999}), json!({})).await;
    peer.reply(&json!({"id": "16"}), json!({})).await;
    for method in ["notifications/progress", "notifications/no/such", "notifications/message"] {
        peer.send(json!({"jsonrpc": "2.0", "method": method, "params": {"progressToken": 1}}))
            .await;
    }
    peer.reply_text(&call, "found").await;
    assert_eq!(calling.await.unwrap().unwrap(), "found");
    assert_eq!(trail.count("# skipped"), 3, "{:?}", trail.all());
}

#[tokio::test(start_paused = true)]
async fn babble_without_end_breaks_the_connection() {
    let (mut peer, link) = modern(options()).await;
    let calling = tokio::spawn(async move { call_text(&link, "x").await });
    peer.expect("tools/call").await;
    for _ in 0..3 {
        peer.print(&"yes\n".repeat(500)).await;
    }
    let error = calling.await.unwrap().unwrap_err();
    assert!(error.message.contains("log to stderr"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn no_more_calls_than_the_limit_are_under_way() {
    let mut options = options();
    options.limits.in_flight = 2;
    let (mut peer, link) = modern(options).await;
    let hang = || {
        let link = link.clone();
        tokio::spawn(async move { call_text(&link, "x").await })
    };
    let hanging = [hang(), hang()];
    let first = peer.expect("tools/call").await;
    peer.expect("tools/call").await;
    assert_eq!(call_text(&link, "x").await.unwrap_err().kind, ErrorKind::Overloaded);
    peer.reply_text(&first, "done").await;
    until(|| hanging.iter().any(|it| it.is_finished())).await;
    let next = hang();
    let call = peer.expect("tools/call").await;
    peer.reply_text(&call, "next").await;
    assert_eq!(next.await.unwrap().unwrap(), "next");
}

#[tokio::test(start_paused = true)]
async fn an_error_without_an_id_fails_the_only_call() {
    let (mut peer, link) = legacy(options()).await;
    let calling = tokio::spawn(async move { call_text(&link, "x").await });
    peer.expect("tools/call").await;
    peer.refuse(&json!({"id": null}), -32700).await;
    assert_eq!(calling.await.unwrap().unwrap_err().kind, ErrorKind::ParseError);
}

#[tokio::test(start_paused = true)]
async fn a_late_reply_is_ignored() {
    let (mut peer, link) = modern(options()).await;
    let mut calling = StreamCall::start(&link, tool("x"));
    assert!(tokio::time::timeout(Duration::from_secs(1), calling.next()).await.is_err());
    let call = peer.expect("tools/call").await;
    drop(calling);
    let cancelled = peer.expect("notifications/cancelled").await;
    assert_eq!(cancelled["params"]["requestId"], call["id"]);
    peer.reply_text(&call, "late").await;
    let calling = tokio::spawn(async move { call_text(&link, "y").await });
    let call = peer.expect("tools/call").await;
    peer.reply_text(&call, "own").await;
    assert_eq!(calling.await.unwrap().unwrap(), "own");
}

#[tokio::test(start_paused = true)]
async fn an_unpolled_call_blocks_others_only_temporarily() {
    let (mut peer, link) = modern(options()).await;
    let mut deaf = StreamCall::start(&link, tool("deaf"));
    assert!(tokio::time::timeout(Duration::from_secs(1), deaf.next()).await.is_err());
    let call = peer.expect("tools/call").await;
    let params = json!({"progressToken": call["id"], "progress": 1});
    for _ in 0..2000 {
        let progress =
            json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params});
        peer.send(progress).await;
    }
    let calling = tokio::spawn(async move { call_text(&link, "x").await });
    let other = peer.expect("tools/call").await;
    peer.reply_text(&other, "through").await;
    assert_eq!(calling.await.unwrap().unwrap(), "through");
    let mut received = 0;
    while let Ok(Event::Notify(_)) = tokio::time::timeout(Duration::from_secs(1), deaf.next()).await
    {
        received += 1;
    }
    assert!((200..500).contains(&received), "{received}");
    peer.reply_text(&call, "heard").await;
    let (_, outcome) = deaf.end().await;
    assert!(matches!(outcome, wharf_model::Outcome::Complete(_)), "{outcome:?}");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_reads_nothing_holds_back_its_callers_only() {
    let mut options = options();
    options.limits.outgoing = 2;
    let (mut peer, link) = legacy(options).await;
    // More pings than the client answers while its output is blocked.
    for id in 0..5000 {
        peer.send(json!({"jsonrpc": "2.0", "id": id, "method": "ping"})).await;
    }
    let calling = tokio::spawn(async move { call_text(&link, "x").await });
    let call = loop {
        let message = peer.read().await;
        if message["method"] == "tools/call" {
            break message;
        }
        assert_eq!(message["result"], json!({}));
    };
    peer.reply_text(&call, "read").await;
    assert_eq!(calling.await.unwrap().unwrap(), "read");
}

#[tokio::test(start_paused = true)]
async fn messages_of_the_oddest_shapes_do_no_harm() {
    let (mut peer, link) = legacy(options()).await;
    let calling = tokio::spawn(async move { call_text(&link, "x").await });
    let call = peer.expect("tools/call").await;
    let deep = |open: &str, close: &str| open.repeat(100_000) + &close.repeat(100_000);
    peer.print(&format!("{}\n", deep("[", "]"))).await;
    peer.print(&format!("{}1{}\n", "{\"a\":".repeat(100_000), "}".repeat(100_000))).await;
    let nested = deep("[", "]");
    for method in ["notifications/message", "roots/list"] {
        peer.print(&format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{nested},\"method\":\"{method}\",\"params\":{nested}}}\n"
        ))
        .await;
    }
    for odd in [
        json!({"jsonrpc": "2.0", "id": call["id"]}),
        json!({"jsonrpc": "1.0", "id": 1, "method": []}),
        json!({"jsonrpc": "2.0", "id": {}, "method": "ping"}),
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": []}}),
        json!([[[]], 1, null, {}]),
        json!("text"),
    ] {
        peer.send(odd).await;
    }
    peer.reply_text(&call, "unharmed").await;
    let ended = calling.await.unwrap();
    assert!(
        ended.is_ok() || ended.as_ref().is_err_and(|error| !error.message.is_empty()),
        "{ended:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_call_that_was_answered_is_not_cancelled() {
    let mut options = options();
    let trail = TraceLog::on(&mut options);
    let (mut peer, link) = modern(options).await;
    let mut calling = StreamCall::start(&link, tool("x"));
    assert!(tokio::time::timeout(Duration::from_secs(1), calling.next()).await.is_err());
    let call = peer.expect("tools/call").await;
    peer.reply_text(&call, "there already").await;
    trail.until("there already").await;
    drop(calling);
    let calling = tokio::spawn(async move { call_text(&link, "y").await });
    let call = peer.expect("tools/call").await;
    peer.reply_text(&call, "y").await;
    calling.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_text_arrives_as_it_is_whatever_it_holds() {
    let (mut peer, link) = modern(options()).await;
    let text = "tab\t line\n del\u{7f} nul\0 end\u{2028}";
    let calling = tokio::spawn(async move { call_text(&link, text).await });
    let call = peer.expect("tools/call").await;
    assert_eq!(call["params"]["name"], text);
    peer.reply_text(&call, text).await;
    assert_eq!(calling.await.unwrap().unwrap(), text);
}

#[tokio::test(start_paused = true)]
async fn many_unpolled_subscriptions_delay_a_call_like_one() {
    let (mut peer, link) = legacy(options()).await;
    let filter = SubscriptionFilter::default().tools(true);
    let mut deaf = Vec::new();
    for _ in 0..20 {
        let mut calling = StreamCall::start(&link, listening(filter.clone()));
        calling.next_notification().await;
        deaf.push(calling);
    }
    for _ in 0..300 {
        let method = "notifications/tools/list_changed";
        peer.send(json!({"jsonrpc": "2.0", "method": method})).await;
    }
    let calling = tokio::spawn(async move { call_text(&link, "x").await });
    let call = peer.expect("tools/call").await;
    peer.reply_text(&call, "through").await;
    assert_eq!(calling.await.unwrap().unwrap(), "through");
}
