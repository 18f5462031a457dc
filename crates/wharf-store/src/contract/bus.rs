//! Checks of the message bus.

use std::sync::Arc;

use wharf_model::{Bus, BusSubscriber, Lock};

use super::{StoreHandles, until, value_of};

type BusHandles = StoreHandles<dyn Bus>;

const HELLO: &[u8] = b"hello";

/// Subscriber that records the messages it receives.
#[derive(Default)]
struct MessageRecorder(Lock<Vec<(String, Vec<u8>)>>);

impl BusSubscriber for MessageRecorder {
    fn receive(&self, topic: &str, message: &[u8]) {
        let mut messages = self.0.lock();
        messages.push((topic.to_owned(), message.to_vec()));
    }
}

impl MessageRecorder {
    /// All messages except the hello messages.
    fn received(&self) -> Vec<(String, Vec<u8>)> {
        let messages = self.0.lock();
        messages.iter().filter(|(_, message)| message != HELLO).cloned().collect()
    }

    fn has_hello(&self) -> bool {
        let messages = self.0.lock();
        messages.iter().any(|(_, message)| message == HELLO)
    }
}

/// Publishes a hello message until every subscriber receives it: a subscription at another process
/// takes a moment to become active.
async fn publish_hello(store: &BusHandles, topic: &str, subscribers: &[Arc<MessageRecorder>]) {
    for bus in &store.0 {
        until("every subscriber receives the hello message", async || {
            value_of(bus.publish(topic, HELLO.to_vec()).await);
            subscribers.iter().all(|subscriber| subscriber.has_hello())
        })
        .await;
    }
}

pub(super) async fn messages_are_delivered_once_and_in_order(store: BusHandles) {
    // A publisher that has just subscribed receives its own message.
    let first: Arc<MessageRecorder> = Arc::default();
    let _first = store.first().subscribe("t", first.clone());
    value_of(store.first().publish("t", b"at once".to_vec()).await);
    until("it receives its own message", async || !first.received().is_empty()).await;

    let subscribers: Vec<Arc<MessageRecorder>> =
        store.round_robin().take(3).map(|_| Arc::default()).collect();
    let subscriptions = store
        .round_robin()
        .zip(&subscribers)
        .map(|(bus, subscriber)| bus.subscribe("t", subscriber.clone()));
    let subscriptions: Vec<_> = subscriptions.collect();
    publish_hello(&store, "t", &subscribers).await;
    let sent: Vec<_> = (0..200_u32).map(|n| ("t".to_owned(), n.to_le_bytes().to_vec())).collect();
    for (_, message) in &sent {
        value_of(store.first().publish("t", message.clone()).await);
    }
    for subscriber in &subscribers {
        until("all messages arrive", async || subscriber.received().len() >= sent.len()).await;
        assert_eq!(subscriber.received(), sent, "each message once, in order");
    }
    drop(subscriptions);
}

pub(super) async fn topics_are_separate(store: BusHandles) {
    let (left, right): (Arc<MessageRecorder>, Arc<MessageRecorder>) = Default::default();
    let _left = store.first().subscribe("left", left.clone());
    let _right = store.first().subscribe("right *", right.clone());
    for (topic, subscriber) in [("left", &left), ("right *", &right)] {
        publish_hello(&store, topic, std::slice::from_ref(subscriber)).await;
    }
    for topic in ["unused", "left", "right *", "right x", "lef", "left"] {
        value_of(store.first().publish(topic, topic.as_bytes().to_vec()).await);
    }
    value_of(store.first().publish("right *", b"end".to_vec()).await);
    until("the last message arrives", async || {
        right.received().len() >= 2 && left.received().len() >= 2
    })
    .await;
    let message = |topic: &str, message: &[u8]| (topic.to_owned(), message.to_vec());
    assert_eq!(left.received(), [message("left", b"left"), message("left", b"left")]);
    assert_eq!(right.received(), [message("right *", b"right *"), message("right *", b"end")]);
}

pub(super) async fn a_dropped_subscription_receives_nothing(store: BusHandles) {
    let (stays, goes): (Arc<MessageRecorder>, Arc<MessageRecorder>) = Default::default();
    let _stays = store.first().subscribe("t", stays.clone());
    let subscription = store.first().subscribe("t", goes.clone());
    publish_hello(&store, "t", &[stays.clone(), goes.clone()]).await;
    drop(subscription);
    assert_eq!(Arc::strong_count(&goes), 1, "a dropped subscription releases its subscriber");
    value_of(store.first().publish("t", b"secret".to_vec()).await);
    until("the other subscriber receives it", async || !stays.received().is_empty()).await;
    assert!(goes.received().is_empty(), "a dropped subscription receives nothing");
    let back = store.first().subscribe("t", goes.clone());
    value_of(store.first().publish("t", b"again".to_vec()).await);
    until("a new subscription receives it", async || !goes.received().is_empty()).await;
    drop(back);
}
