//! Checks that stored data survives the process that stored it.

use std::time::Duration;

use wharf_model::{AttachResult, Record, Retention, Stores};

use crate::contract::{record, value_of};

const HOUR: Duration = Duration::from_secs(3600);

/// Stores data of every kind, for [`find_traces`] to find after the store was closed, killed or
/// opened by another process.
///
/// # Panics
/// If the store rejects it.
pub async fn leave_traces(stores: &Stores) {
    for store in [&stores.tasks, &stores.sessions, &stores.grants] {
        assert!(value_of(store.insert(trace(), 10).await));
        let seen = value_of(store.load("trace").await).expect("the record exists");
        assert!(value_of(store.swap(seen.body(b"changed".to_vec())).await));
        assert_eq!(
            value_of(store.attach("trace", 7, "step", vec![9]).await),
            AttachResult::Attached
        );
    }
    let keep = Retention::new(2, 1_000, HOUR);
    for event in 1..=3 {
        value_of(stores.events.append("trace", vec![event], keep).await);
    }
    assert!(value_of(stores.nonces.claim("trace", HOUR).await));
}

/// Checks that everything [`leave_traces`] stored is there.
///
/// # Panics
/// If any of it is missing or different.
pub async fn find_traces(stores: &Stores) {
    for store in [&stores.tasks, &stores.sessions, &stores.grants] {
        let found = value_of(store.load("trace").await).expect("the record is still there");
        assert_eq!(found, trace().body(b"changed".to_vec()).version(2));
        assert_eq!(value_of(store.due(9).await), ["trace"], "it is still due");
        assert_eq!(value_of(store.list("o", None, 9).await), [found], "it is still listed");
        let again = value_of(store.attach("trace", 7, "step", vec![8]).await);
        assert_eq!(again, AttachResult::Exists(vec![9]), "its kept value is still there");
    }
    let events = value_of(stores.events.read("trace", 0, 9).await);
    assert_eq!((events.newest, events.events), (3, vec![(2, vec![2]), (3, vec![3])]));
    assert!(!value_of(stores.nonces.claim("trace", HOUR).await), "the claim still holds");
}

fn trace() -> Record {
    record("trace", "o").fence(7).due(Some(1)).created(5)
}
