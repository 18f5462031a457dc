//! What is said and heard.

use std::sync::{Arc, Mutex, PoisonError};

use wharf_model::{Bus, BusSubscriber};

use super::{StoreHandles, told, until};

type BusHandles = StoreHandles<dyn Bus>;

const HELLO: &[u8] = b"hello";

/// Writes down what it hears.
#[derive(Default)]
struct MessageRecorder(Mutex<Vec<(String, Vec<u8>)>>);

impl BusSubscriber for MessageRecorder {
    fn hear(&self, topic: &str, message: &[u8]) {
        let mut notes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        notes.push((topic.to_owned(), message.to_vec()));
    }
}

impl MessageRecorder {
    /// All but the greetings.
    fn heard(&self) -> Vec<(String, Vec<u8>)> {
        let notes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        notes.iter().filter(|(_, message)| message != HELLO).cloned().collect()
    }

    fn is_greeted(&self) -> bool {
        let notes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        notes.iter().any(|(_, message)| message == HELLO)
    }
}

/// Greets until every ear heard it: a bus between processes may take a moment to be there.
async fn greet(store: &BusHandles, topic: &str, ears: &[Arc<MessageRecorder>]) {
    for bus in &store.0 {
        until("an ear hears", async || {
            told(bus.publish(topic, HELLO.to_vec()).await);
            ears.iter().all(|ear| ear.is_greeted())
        })
        .await;
    }
}

pub(super) async fn messages_are_heard_once_and_in_order(store: BusHandles) {
    // Whoever says something right after it began to hear, hears itself.
    let first: Arc<MessageRecorder> = Arc::default();
    let _first = store.one().subscribe("t", first.clone());
    told(store.one().publish("t", b"at once".to_vec()).await);
    until("it hears itself", async || !first.heard().is_empty()).await;

    let ears: Vec<Arc<MessageRecorder>> = store.in_turn().take(3).map(|_| Arc::default()).collect();
    let places = store.in_turn().zip(&ears).map(|(bus, ear)| bus.subscribe("t", ear.clone()));
    let places: Vec<_> = places.collect();
    greet(&store, "t", &ears).await;
    let said: Vec<_> = (0..200_u32).map(|n| ("t".to_owned(), n.to_le_bytes().to_vec())).collect();
    for (_, message) in &said {
        told(store.one().publish("t", message.clone()).await);
    }
    for ear in &ears {
        until("all is heard", async || ear.heard().len() >= said.len()).await;
        assert_eq!(ear.heard(), said, "each message once, in the order it was said");
    }
    drop(places);
}

pub(super) async fn topics_are_apart(store: BusHandles) {
    let (left, right): (Arc<MessageRecorder>, Arc<MessageRecorder>) = Default::default();
    let _left = store.one().subscribe("left", left.clone());
    let _right = store.one().subscribe("right *", right.clone());
    for (topic, ear) in [("left", &left), ("right *", &right)] {
        greet(&store, topic, std::slice::from_ref(ear)).await;
    }
    for topic in ["nobody", "left", "right *", "right x", "lef", "left"] {
        told(store.one().publish(topic, topic.as_bytes().to_vec()).await);
    }
    told(store.one().publish("right *", b"end".to_vec()).await);
    until("the end is heard", async || right.heard().len() >= 2 && left.heard().len() >= 2).await;
    let said = |topic: &str, message: &[u8]| (topic.to_owned(), message.to_vec());
    assert_eq!(left.heard(), [said("left", b"left"), said("left", b"left")]);
    assert_eq!(right.heard(), [said("right *", b"right *"), said("right *", b"end")]);
}

pub(super) async fn who_is_gone_hears_nothing(store: BusHandles) {
    let (stays, goes): (Arc<MessageRecorder>, Arc<MessageRecorder>) = Default::default();
    let _stays = store.one().subscribe("t", stays.clone());
    let place = store.one().subscribe("t", goes.clone());
    greet(&store, "t", &[stays.clone(), goes.clone()]).await;
    drop(place);
    assert_eq!(Arc::strong_count(&goes), 1, "nobody holds what hears no more");
    told(store.one().publish("t", b"secret".to_vec()).await);
    until("the other hears", async || !stays.heard().is_empty()).await;
    assert!(goes.heard().is_empty(), "who is gone hears nothing");
    let back = store.one().subscribe("t", goes.clone());
    told(store.one().publish("t", b"again".to_vec()).await);
    until("who comes back hears", async || !goes.heard().is_empty()).await;
    drop(back);
}
