//! Guarantees of encrypted stores beyond the contract of all stores.

use std::{sync::Arc, time::Duration};

use wharf_model::{AttachResult, ErrorKind, Events, Record, Retention, Stores};
use wharf_store::{contract, encrypted, memory_stores};

use crate::encrypted_store::{KEY, OTHER, keys};

const KEEP: Retention = Retention::new(10, 1_000, Duration::from_secs(600));

fn record(id: &str, owner: &str) -> Record {
    Record::new(id).owner(owner).body(b"body").due(0)
}

/// The same stores without a key, with a key, and with another key.
fn three() -> [Stores; 3] {
    let bare = memory_stores();
    let with = |key| encrypted(bare.clone(), keys(key));
    [bare.clone(), with(KEY), with(OTHER)]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_contract_holds() {
    let stores = || async { encrypted(memory_stores(), keys(KEY)) };
    contract::records(|| async { stores().await.tasks }).await;
    contract::records(|| async { stores().await.sessions }).await;
    contract::bus(|| async { stores().await.bus }).await;
}

#[tokio::test]
async fn a_record_that_was_moved_does_not_open() {
    let [bare, own, _] = three();
    assert!(own.tasks.insert(record("a", "alice"), 9).await.unwrap());
    let stored = bare.tasks.load("a").await.unwrap().unwrap();
    let moves = [stored.clone().id("b"), stored.clone().id("c").owner("mallory")];
    for moved in moves {
        assert!(bare.tasks.insert(moved.clone(), 9).await.unwrap());
        assert_eq!(own.tasks.load(&moved.id).await, Ok(None), "{}", moved.id);
    }
    assert!(bare.sessions.insert(stored.clone(), 9).await.unwrap());
    assert_eq!(own.sessions.load("a").await, Ok(None), "a task is no session");
    assert!(own.tasks.load("a").await.unwrap().is_some());
    assert!(bare.tasks.swap(stored.owner("mallory")).await.unwrap());
    assert_eq!(own.tasks.load("a").await, Ok(None), "nor is it somebody else's");
}

#[tokio::test]
async fn records_of_another_store_do_not_decrypt() {
    let [bare, own, other] = three();
    for id in ["a", "b", "c"] {
        assert!(own.tasks.insert(record(id, "alice"), 9).await.unwrap());
    }
    assert_eq!(own.tasks.attach("a", 0, "buy", b"bought".into()).await, Ok(AttachResult::Attached));
    let known = AttachResult::Exists(b"bought".into());
    assert_eq!(own.tasks.attach("a", 0, "buy", b"again".into()).await, Ok(known));
    let value = bare.tasks.attachments("a").await.unwrap().remove("buy").unwrap();
    assert_ne!(value, b"bought");
    bare.tasks.attach("b", 0, "buy", value.clone()).await.unwrap();
    bare.tasks.attach("c", 0, "pay", value).await.unwrap();
    // A moved attachment is an error, not a missing one: a step that ran must not look as if it had not run.
    for id in ["b", "c"] {
        assert_eq!(own.tasks.attachments(id).await.unwrap_err().kind, ErrorKind::InternalError);
    }
    assert_eq!(own.tasks.attach("b", 0, "buy", b"x".into()).await, Ok(AttachResult::Lost));
    assert_eq!(other.tasks.attach("a", 0, "buy", b"x".into()).await, Ok(AttachResult::Lost));
}

#[tokio::test]
async fn an_undecryptable_record_does_not_block_others() {
    let [bare, own, other] = three();
    for number in 0..10 {
        let stores = if number % 5 == 4 { &own } else { &other };
        let record = record(&format!("r{number}"), "alice");
        assert!(stores.tasks.insert(record, 99).await.unwrap());
    }
    let mut after: Option<String> = None;
    for id in ["r4", "r9"] {
        let listed = own.tasks.list("alice", after.as_deref(), 1).await.unwrap();
        assert_eq!(listed.iter().map(|it| &*it.id).collect::<Vec<_>>(), [id]);
        after = Some(id.to_owned());
    }
    assert_eq!(own.tasks.list("alice", after.as_deref(), 1).await, Ok(Vec::new()));
    assert_eq!(own.tasks.list("alice", None, 9).await.unwrap().len(), 2);
    assert_eq!(own.tasks.due(3).await, Ok(vec!["r4".to_owned()]));
    assert_eq!(own.tasks.due(9).await.unwrap(), ["r4", "r9"]);
    assert_eq!(bare.tasks.due(99).await.unwrap().len(), 2, "the others rest");
    assert_eq!(bare.tasks.list("alice", None, 99).await.unwrap().len(), 10, "and are there");
}

#[tokio::test]
async fn events_belong_to_their_stream() {
    let [bare, own, other] = three();
    for event in [b"one", b"two"] {
        own.events.append("s", event.to_vec(), KEEP).await.unwrap();
    }
    let read = own.events.read("s", 0, 9).await.unwrap();
    assert_eq!(read.events, [(1, b"one".to_vec()), (2, b"two".to_vec())]);
    let nothing = Events::new(2, Vec::new());
    assert_eq!(other.events.read("s", 0, 9).await, Ok(nothing));
    let moved = bare.events.read("s", 0, 1).await.unwrap().events.remove(0).1;
    for _ in 0..3 {
        bare.events.append("t", moved.clone(), KEEP).await.unwrap();
    }
    own.events.append("t", b"own".to_vec(), KEEP).await.unwrap();
    for limit in 1..5 {
        let read = own.events.read("t", 0, limit).await.unwrap();
        assert_eq!(read, Events::new(4, vec![(4, b"own".to_vec())]), "{limit}");
    }
}

#[tokio::test]
async fn as_many_events_are_kept_as_without_a_key() {
    let [bare, own, _] = three();
    for _ in 0..10 {
        for stores in [&bare, &own] {
            stores.events.append(&format!("{stores:p}"), vec![0; 100], KEEP).await.unwrap();
        }
    }
    for stores in [&bare, &own] {
        let read = stores.events.read(&format!("{stores:p}"), 0, 99).await.unwrap();
        assert_eq!(read.events.len(), 10);
    }
}

#[tokio::test]
async fn only_nodes_with_the_same_key_exchange_messages() {
    #[derive(Default)]
    struct ReceivedMessages(std::sync::Mutex<Vec<Vec<u8>>>);
    impl wharf_model::BusSubscriber for ReceivedMessages {
        fn receive(&self, _: &str, message: &[u8]) {
            self.0.lock().unwrap().push(message.to_vec());
        }
    }
    let [bare, own, other] = three();
    let ears: [Arc<ReceivedMessages>; 3] = Default::default();
    let _hearing: Vec<_> = [&bare, &own, &other]
        .into_iter()
        .zip(&ears)
        .map(|(stores, ear)| stores.bus.subscribe("t", ear.clone()))
        .collect();
    own.bus.publish("t", b"word".to_vec()).await.unwrap();
    let heard = ears.map(|ear| ear.0.lock().unwrap().clone());
    assert_eq!(heard[1..], [vec![b"word".to_vec()], Vec::new()]);
    assert_ne!(heard[0], [b"word".to_vec()]);
}
