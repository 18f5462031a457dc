//! The stores in memory fulfil the contract and stay within their limits.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use wharf_model::{EventStore, Record, RecordStore, Retention};
use wharf_store::{MemoryEvents, MemoryRecords, contract, memory_stores};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records() {
    contract::records(|| async { memory_stores().tasks }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events() {
    contract::events(|| async { memory_stores().events }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bus() {
    contract::bus(|| async { memory_stores().bus }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nonces_and_rates() {
    contract::nonces(|| async { memory_stores().nonces }).await;
    contract::rates(|| async { memory_stores().rates }).await;
}

#[tokio::test(start_paused = true)]
async fn a_paused_clock_moves_the_store() {
    let store = MemoryRecords::default();
    let expires = Some(store.now().await.unwrap() + 60_000);
    let record = Record::new("a").expires(expires);
    assert!(store.insert(record, 1).await.unwrap());
    tokio::time::advance(Duration::from_secs(59)).await;
    assert!(store.load("a").await.unwrap().is_some());
    tokio::time::advance(Duration::from_secs(1)).await;
    assert!(store.load("a").await.unwrap().is_none());
}

#[tokio::test]
async fn a_store_uses_the_given_clock() {
    let time_ms = Arc::new(AtomicU64::new(5));
    let clock = time_ms.clone();
    let store = MemoryRecords::with_clock(move || clock.load(Ordering::Relaxed));
    let record = Record::new("a").due(Some(7)).expires(Some(9));
    assert!(store.insert(record, 1).await.unwrap());
    for (time, due, lives) in [(6, 0, true), (7, 1, true), (8, 1, true), (9, 0, false)] {
        time_ms.store(time, Ordering::Relaxed);
        assert_eq!(store.now().await, Ok(time));
        assert_eq!(store.due(9).await.unwrap().len(), due, "at {time}");
        assert_eq!(store.load("a").await.unwrap().is_some(), lives, "at {time}");
    }
}

#[tokio::test]
async fn records_are_bounded_in_number_and_bytes() {
    let record =
        |id: &str, bytes: usize, expires| Record::new(id).expires(expires).body(vec![0; bytes]);
    let store = MemoryRecords::new(2, 100);
    assert!(store.insert(record("a", 50, None), 9).await.unwrap());
    assert!(store.insert(record("big", 51, None), 9).await.unwrap_err().kind.is_overloaded());
    assert!(store.attach("a", 0, "x", vec![0; 50]).await.unwrap_err().kind.is_overloaded());
    let grown = record("a", 101, None).version(1);
    assert!(store.swap(grown).await.unwrap_err().kind.is_overloaded());
    assert!(store.insert(record("b", 10, Some(1)), 9).await.unwrap());
    assert!(
        store.insert(record("c", 10, None), 9).await.unwrap(),
        "an expired record frees its place"
    );
    assert!(store.insert(record("d", 1, None), 9).await.unwrap_err().kind.is_overloaded());
    assert!(store.remove("a").await.unwrap());
    assert!(
        store.insert(record("d", 90, None), 9).await.unwrap(),
        "a removed record frees its place"
    );
}

#[tokio::test]
async fn streams_are_bounded_in_number_and_bytes() {
    let keep = Retention::new(10, 50, Duration::from_secs(60));
    let store: Arc<dyn EventStore> = Arc::new(MemoryEvents::new(2, 100));
    assert_eq!(store.append("a", vec![0; 50], keep).await, Ok(1));
    assert_eq!(store.append("b", vec![0; 50], keep).await, Ok(1));
    assert!(store.append("c", vec![], keep).await.unwrap_err().kind.is_overloaded());
    assert!(store.append("a", vec![0], keep).await.unwrap_err().kind.is_overloaded());
    store.remove("a").await.unwrap();
    assert_eq!(store.append("c", vec![0; 10], keep).await, Ok(1));
}
