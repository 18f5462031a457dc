//! Checks of the expiry of records.

use wharf_model::{AttachResult, Record, RecordStore};

use super::{RecordHandles, SHORT_TTL, record, until, value_of};

pub(super) async fn expired_records_are_gone(store: RecordHandles) {
    let store = store.first();
    let expiring = with_short_expiry(&**store, record("a", "o")).await.due(Some(1));
    let expires = expiring.expires;
    assert!(value_of(store.insert(expiring.clone(), 10).await));
    value_of(store.attach("a", 0, "step", vec![1]).await);
    wait_expired(&**store, "a").await;
    assert!(Some(value_of(store.now().await)) >= expires, "it does not expire early");

    assert!(!value_of(store.swap(expiring.version(1)).await), "an expired record is not swapped");
    assert_eq!(value_of(store.attach("a", 0, "more", vec![2]).await), AttachResult::Lost);
    assert!(value_of(store.attachments("a").await).is_empty(), "its kept values are gone as well");
    assert!(value_of(store.due(9).await).is_empty(), "it is not due");
    assert!(value_of(store.list("o", None, 9).await).is_empty(), "an expired record is not listed");
    assert!(!value_of(store.remove("a").await), "there is nothing to remove");
}

pub(super) async fn a_swap_changes_the_expiry(store: RecordHandles) {
    let store = store.first();
    for id in ["longer", "forever"] {
        // On a slow machine the record may expire before the swap; then it is inserted again.
        until("a record is swapped in time", async || {
            let first = with_short_expiry(&**store, record(id, "o")).await;
            value_of(store.insert(first.clone(), 10).await);
            value_of(store.attach(id, 0, "step", vec![1]).await);
            let expires = first.expires.map(|at| at + 3_600_000).filter(|_| id == "longer");
            value_of(store.swap(first.version(1).expires(expires)).await)
        })
        .await;
    }
    assert!(value_of(store.insert(record("shorter", "o"), 10).await));
    value_of(store.attach("shorter", 0, "step", vec![1]).await);
    let seen = value_of(store.load("shorter").await).expect("the record exists");
    assert!(value_of(store.swap(with_short_expiry(&**store, seen).await).await));

    // When this one has expired, the first expiry of the others has passed as well.
    wait_expired(&**store, "shorter").await;
    assert!(value_of(store.attachments("shorter").await).is_empty());
    for id in ["longer", "forever"] {
        assert!(value_of(store.load(id).await).is_some(), "record `{id}` exists");
        assert_eq!(value_of(store.attachments(id).await).len(), 1, "with its kept value");
    }
    assert_eq!(value_of(store.sweep(9).await), 1, "only one record expired");
    assert_eq!(value_of(store.list("o", None, 9).await).len(), 2);
}

pub(super) async fn expired_records_do_not_count(store: RecordHandles) {
    let store = store.first();
    assert!(value_of(store.insert(record("stays", "o"), 3).await));
    for id in ["a", "b"] {
        assert!(value_of(
            store.insert(with_short_expiry(&**store, record(id, "o")).await, 3).await
        ));
    }
    wait_expired(&**store, "a").await;
    wait_expired(&**store, "b").await;
    for (id, fits) in [("c", true), ("d", true), ("e", false)] {
        assert_eq!(value_of(store.insert(record(id, "o"), 3).await), fits, "insert of {id}");
    }
}

pub(super) async fn an_expired_id_can_be_reused(store: RecordHandles) {
    let store = store.first();
    let first = with_short_expiry(&**store, record("a", "one")).await.due(Some(1));
    assert!(value_of(store.insert(first, 10).await));
    value_of(store.attach("a", 0, "step", vec![1]).await);
    wait_expired(&**store, "a").await;
    assert!(value_of(store.insert(record("a", "two"), 10).await), "the id can be used again");
    value_of(store.sweep(9).await);
    let second = value_of(store.load("a").await).expect("a sweep leaves the new record");
    assert_eq!((second.owner.as_str(), second.version), ("two", 1));
    assert!(value_of(store.attachments("a").await).is_empty(), "the new record has no values");
    assert!(value_of(store.due(9).await).is_empty(), "the new record is not due");
    assert!(
        value_of(store.list("one", None, 9).await).is_empty(),
        "it is not listed for its first owner"
    );
    assert_eq!(value_of(store.list("two", None, 9).await).len(), 1);
}

pub(super) async fn sweeps_are_bounded(store: RecordHandles) {
    let store = store.first();
    assert!(value_of(store.insert(record("stays", "o"), 10).await));
    for id in ["a", "b", "c", "d", "e"] {
        assert!(value_of(
            store.insert(with_short_expiry(&**store, record(id, "o")).await, 10).await
        ));
    }
    for id in ["a", "b", "c", "d", "e"] {
        wait_expired(&**store, id).await;
    }
    for swept in [2, 2, 1, 0] {
        assert_eq!(
            value_of(store.sweep(2).await),
            swept,
            "at most two at a time, until none is left"
        );
    }
    assert!(value_of(store.load("stays").await).is_some(), "a record without expiry stays");
}

/// Returns the same record with an expiry in the near future.
async fn with_short_expiry(store: &dyn RecordStore, record: Record) -> Record {
    let short = u64::try_from(SHORT_TTL.as_millis()).expect("the duration is short");
    record.expires(Some(value_of(store.now().await) + short))
}

async fn wait_expired(store: &dyn RecordStore, id: &str) {
    until("a record expires", async || value_of(store.load(id).await).is_none()).await;
}
