//! Subscriptions: native ones of modern servers, and emulated ones for legacy servers.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::timeout,
};
use wharf_client::NotificationListener;
use wharf_model::{ErrorKind, Event, Notification, Outcome, Reply, SubscriptionFilter};
use wharf_transport::client::connect_tcp;
use wharf_wire::Revision;

use crate::client_lines::{
    scripted_peer::{ReconnectPort, ScriptedPeer, legacy, modern},
    support::{StreamCall, StreamServer, TraceLog, listening, options, pinned, short},
};

fn everything() -> SubscriptionFilter {
    let uris = uris(["toy://a"]);
    SubscriptionFilter::default().tools(true).prompts(true).resources(true).uris(uris)
}

fn uris<const N: usize>(uris: [&str; N]) -> BTreeSet<String> {
    uris.map(str::to_owned).into()
}

fn updated(uri: &str) -> Notification {
    Notification::ResourceUpdated { uri: uri.into() }
}

fn notification(method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "method": method, "params": params})
}

#[tokio::test(start_paused = true)]
async fn changes_are_received_in_every_revision() {
    for date in Revision::ALL.map(Revision::as_str) {
        let server = StreamServer::new();
        let link = server.link(pinned(date)).await;
        let mut calling = StreamCall::start(&link, listening(everything()));
        let agreed = calling.next_notification().await;
        assert_eq!(agreed, serde_json::to_string(&everything()).unwrap(), "{date}");
        for change in [
            updated("toy://b"),
            updated("toy://a"),
            Notification::ToolsChanged,
            Notification::PromptsChanged,
            Notification::ResourcesChanged,
        ] {
            server.change(change).await;
        }
        for change in ["updated toy://a", "ToolsChanged", "PromptsChanged", "ResourcesChanged"] {
            assert_eq!(calling.next_notification().await, change, "{date}");
        }
        if date == "2026-07-28" {
            drop(calling);
            server.until_listens(0).await;
        } else {
            link.close().await;
            let (_, outcome) = calling.end().await;
            assert!(matches!(outcome, Outcome::Complete(Reply::Listened)), "{date} {outcome:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_played_listen_agrees_to_what_the_server_can() {
    let (mut peer, link) = legacy(options()).await;
    let mut calling = StreamCall::start(&link, listening(everything()));
    let answering = tokio::spawn(async move {
        let subscribe = peer.expect("resources/subscribe").await;
        assert_eq!(subscribe["params"]["uri"], "toy://a");
        // A notification before the reply is delivered after the acknowledgement.
        peer.send(notification("notifications/resources/updated", json!({"uri": "toy://a"}))).await;
        peer.reply(&subscribe, json!({})).await;
        peer
    });
    let agreed = everything().prompts(false).resources(false);
    assert_eq!(calling.next_notification().await, serde_json::to_string(&agreed).unwrap());
    assert_eq!(calling.next_notification().await, "ToolsChanged");
    assert_eq!(calling.next_notification().await, "updated toy://a");
    let mut peer = answering.await.unwrap();
    peer.send(notification("notifications/prompts/list_changed", json!({}))).await;
    peer.send(notification("notifications/tools/list_changed", json!({}))).await;
    assert_eq!(calling.next_notification().await, "ToolsChanged");
}

#[tokio::test(start_paused = true)]
async fn a_resource_is_subscribed_once_and_unsubscribed_with_its_last_listen() {
    let (mut peer, link) = legacy(options()).await;
    let listen = |filter| {
        let link = link.clone();
        tokio::spawn(async move {
            let mut calling = StreamCall::start(&link, listening(filter));
            calling.next_notification().await;
            calling
        })
    };
    let filter = |name| SubscriptionFilter::default().uris(uris([name]));
    let first = listen(filter("toy://a"));
    let subscribe = peer.expect("resources/subscribe").await;
    let second = listen(filter("toy://a"));
    peer.reply(&subscribe, json!({})).await;
    let (first, mut second) = (first.await.unwrap(), second.await.unwrap());
    drop(first);
    assert!(timeout(Duration::from_secs(60), peer.read()).await.is_err());
    peer.send(notification("notifications/resources/updated", json!({"uri": "toy://a"}))).await;
    assert_eq!(second.next_notification().await, "updated toy://a");
    drop(second);
    // A listener that follows the last one subscribes after the unsubscription.
    let third = listen(filter("toy://a"));
    let unsubscribe = peer.expect("resources/unsubscribe").await;
    assert_eq!(unsubscribe["params"]["uri"], "toy://a");
    peer.reply(&unsubscribe, json!({})).await;
    let subscribe = peer.expect("resources/subscribe").await;
    peer.reply(&subscribe, json!({})).await;
    third.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_refused_subscription_fails_the_listen() {
    let (mut peer, link) = legacy(options()).await;
    let calling = StreamCall::start(&link, listening(everything()));
    let ended = tokio::spawn(calling.end());
    let subscribe = peer.expect("resources/subscribe").await;
    peer.refuse(&subscribe, -32002).await;
    let (received, outcome) = ended.await.unwrap();
    let Outcome::Failed(error) = outcome else { panic!("{outcome:?}") };
    assert_eq!((error.kind, received.len()), (ErrorKind::ResourceNotFound, 0));
}

#[tokio::test(start_paused = true)]
async fn a_server_ends_a_listen_in_either_way() {
    for with_result in [true, false] {
        let (mut peer, link) = modern(options()).await;
        let calling = StreamCall::start(&link, listening(everything()));
        let ended = tokio::spawn(calling.end());
        let listen = peer.expect("subscriptions/listen").await;
        let meta = json!({"io.modelcontextprotocol/subscriptionId": listen["id"]});
        let filter = json!({"toolsListChanged": true});
        let params = json!({"_meta": meta, "notifications": filter});
        peer.send(notification("notifications/subscriptions/acknowledged", params)).await;
        peer.send(notification("notifications/tools/list_changed", json!({"_meta": meta}))).await;
        // For another subscription, or without one.
        let other = json!({"io.modelcontextprotocol/subscriptionId": 7});
        peer.send(notification("notifications/tools/list_changed", json!({"_meta": other}))).await;
        if with_result {
            peer.reply(&listen, json!({"resultType": "complete", "_meta": meta})).await;
        } else {
            let params = json!({"requestId": listen["id"]});
            peer.send(notification("notifications/cancelled", params)).await;
        }
        let (received, outcome) = ended.await.unwrap();
        assert_eq!(received, [r#"{"toolsListChanged":true}"#, "ToolsChanged"]);
        assert!(matches!(outcome, Outcome::Complete(Reply::Listened)), "{outcome:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_listen_over_a_stream_ends_with_it() {
    let (mut peer, link) = legacy(options()).await;
    let filter = SubscriptionFilter::default().tools(true);
    let mut calling = StreamCall::start(&link, listening(filter));
    calling.next_notification().await;
    peer.print("bye\n").await;
    drop(peer);
    let (_, outcome) = calling.end().await;
    let Outcome::Failed(error) = outcome else { panic!("{outcome:?}") };
    assert_eq!(error.kind, ErrorKind::ConnectionClosed);
}

struct RecordedNotifications(Mutex<Vec<String>>);

impl NotificationListener for RecordedNotifications {
    fn on_notification(&self, notification: &Notification) {
        self.0.lock().unwrap().push(short(notification));
    }
}

/// Answers two subscription requests.
async fn subscribe<S: AsyncRead + AsyncWrite>(peer: &mut ScriptedPeer<S>) {
    for _ in 0..2 {
        let subscribe = peer.expect("resources/subscribe").await;
        peer.reply(&subscribe, json!({})).await;
    }
}

#[tokio::test]
async fn a_played_listen_goes_on_over_another_connection() {
    let (port, address) = ReconnectPort::open().await;
    let connecting = tokio::spawn(connect_tcp(address, pinned("2025-11-25")));
    let mut peer = port.accept().await;
    peer.initialize("2025-11-25").await;
    let link = connecting.await.unwrap().unwrap();
    let ear = Arc::new(RecordedNotifications(Mutex::default()));
    let weak = Arc::downgrade(&ear);
    link.add_listener(weak);
    let filter = SubscriptionFilter::default().tools(true).uris(uris(["toy://a", "toy://b"]));
    let mut calling = StreamCall::start(&link, listening(filter.clone()));
    let (agreed, ()) = tokio::join!(calling.next_notification(), subscribe(&mut peer));
    assert_eq!(agreed, serde_json::to_string(&filter).unwrap());
    drop(peer);
    let returning = async {
        let mut peer = port.accept().await;
        peer.initialize("2025-11-25").await;
        subscribe(&mut peer).await;
        peer
    };
    // Something may have changed while there was no subscription.
    let (first, mut peer) = tokio::join!(calling.next_notification(), returning);
    let missed = [first, calling.next_notification().await, calling.next_notification().await];
    assert_eq!(missed, ["ToolsChanged", "updated toy://a", "updated toy://b"]);
    peer.send(notification("notifications/resources/updated", json!({"uri": "toy://b"}))).await;
    assert_eq!(calling.next_notification().await, "updated toy://b");
    let ears = ear.0.lock().unwrap().clone();
    assert_eq!(ears[..3], ["ToolsChanged", "PromptsChanged", "ResourcesChanged"], "{ears:?}");
}

#[tokio::test]
async fn a_listen_of_a_modern_server_goes_on_over_another_connection() {
    let (port, address) = ReconnectPort::open().await;
    let mut options = options();
    let trail = TraceLog::on(&mut options);
    let connecting = tokio::spawn(connect_tcp(address, options));
    let acknowledge = |listen: &Value| {
        let meta = json!({"io.modelcontextprotocol/subscriptionId": listen["id"]});
        let params = json!({"_meta": meta, "notifications": {"toolsListChanged": true}});
        notification("notifications/subscriptions/acknowledged", params)
    };
    let mut peer = port.accept().await;
    let probe = peer.read().await;
    peer.discover(&probe).await;
    let link = connecting.await.unwrap().unwrap();
    let mut calling = StreamCall::start(&link, listening(everything()));
    let asking = async {
        // A disconnect before the acknowledgement is reported to the caller.
        peer.expect("subscriptions/listen").await;
        drop(peer);
    };
    let (event, ()) = tokio::join!(calling.next(), asking);
    let Event::Done(Outcome::Failed(error)) = event else { panic!("{event:?}") };
    assert_eq!(error.kind, ErrorKind::ConnectionClosed);

    let mut calling = StreamCall::start(&link, listening(everything()));
    let serving = tokio::spawn(async move {
        for end in [true, false] {
            let mut peer = port.accept().await;
            let probe = peer.read().await;
            peer.discover(&probe).await;
            let listen = peer.expect("subscriptions/listen").await;
            peer.send(acknowledge(&listen)).await;
            if !end {
                peer.reply(&listen, json!({"resultType": "complete"})).await;
                peer.next().await;
            }
        }
    });
    let agreed = calling.next_notification().await;
    let (received, outcome) = timeout(Duration::from_secs(60), calling.end()).await.unwrap();
    assert_eq!(agreed, r#"{"toolsListChanged":true}"#);
    assert_eq!(received, ["ToolsChanged"], "{:?}", trail.all());
    assert!(matches!(outcome, Outcome::Complete(Reply::Listened)), "{outcome:?}");
    drop(link);
    serving.await.unwrap();
}

#[tokio::test]
async fn a_subscription_of_a_stopped_server_ends() {
    let (port, address) = ReconnectPort::open().await;
    let connecting = tokio::spawn(connect_tcp(address, pinned("2025-11-25")));
    let mut peer = port.accept().await;
    peer.initialize("2025-11-25").await;
    let link = connecting.await.unwrap().unwrap();
    let filter = SubscriptionFilter::default().tools(true);
    let mut calling = StreamCall::start(&link, listening(filter));
    calling.next_notification().await;
    drop((peer, port));
    tokio::time::pause();
    let (_, outcome) = calling.end().await;
    let Outcome::Failed(error) = outcome else { panic!("{outcome:?}") };
    assert_eq!(error.kind, ErrorKind::TransportError, "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_subscription_that_is_never_answered_holds_up_no_other_for_ever() {
    let (mut peer, link) = legacy(options()).await;
    let follow = |uri: &str| {
        let filter = SubscriptionFilter::default().uris(uris([uri]));
        tokio::spawn(StreamCall::start(&link, listening(filter)).end())
    };
    let first = follow("toy://a");
    peer.expect("resources/subscribe").await;
    let _second = follow("toy://b");
    let (_, outcome) = timeout(Duration::from_secs(600), first).await.unwrap().unwrap();
    let Outcome::Failed(error) = outcome else { panic!("{outcome:?}") };
    assert_eq!(error.kind, ErrorKind::RequestTimeout);
    peer.expect("notifications/cancelled").await;
    let next = peer.expect("resources/subscribe").await;
    assert_eq!(next["params"]["uri"], "toy://b");
}

#[tokio::test(start_paused = true)]
async fn an_unpolled_subscription_does_not_block_others() {
    let (mut peer, link) = legacy(options()).await;
    let follow = |uri: &str| {
        let filter = SubscriptionFilter::default().uris(uris([uri]));
        StreamCall::start(&link, listening(filter))
    };
    let mut kept = follow("toy://a");
    assert!(timeout(Duration::from_secs(1), kept.next()).await.is_err());
    let subscribe = peer.expect("resources/subscribe").await;
    peer.reply(&subscribe, json!({})).await;
    let other = tokio::spawn(follow("toy://b").end());
    assert_eq!(peer.expect("resources/subscribe").await["params"]["uri"], "toy://b");
    other.abort();
}
