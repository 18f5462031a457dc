//! What happens to records when their time is over.

use wharf_model::{PutResult, Record, RecordStore};

use super::{RecordHandles, SHORT, record, told, until};

pub(super) async fn what_expired_is_gone(store: RecordHandles) {
    let store = store.one();
    let fleeting = Record { due: Some(1), ..soon(&**store, record("a", "o")).await };
    let expires = fleeting.expires;
    assert!(told(store.insert(fleeting.clone(), 10).await));
    told(store.keep("a", 0, "step", vec![1]).await);
    gone(&**store, "a").await;
    assert!(Some(told(store.now().await)) >= expires, "not before its time");

    assert!(!told(store.swap(Record { version: 1, ..fleeting }).await), "it is not swapped");
    assert_eq!(told(store.keep("a", 0, "more", vec![2]).await), PutResult::Lost);
    assert!(told(store.kept("a").await).is_empty(), "what was beside it is gone as well");
    assert!(told(store.due(9).await).is_empty(), "nobody must look after it");
    assert!(told(store.list("o", None, 9).await).is_empty(), "it is not listed");
    assert!(!told(store.remove("a").await), "it was removed already");
}

pub(super) async fn a_new_expiry_counts(store: RecordHandles) {
    let store = store.one();
    for id in ["longer", "for ever"] {
        // Where everything is slow, it may have expired before it is swapped: then once more.
        until("a record is swapped in time", async || {
            let first = soon(&**store, record(id, "o")).await;
            told(store.insert(first.clone(), 10).await);
            told(store.keep(id, 0, "step", vec![1]).await);
            let expires = first.expires.map(|at| at + 3_600_000).filter(|_| id == "longer");
            told(store.swap(Record { version: 1, expires, ..first }).await)
        })
        .await;
    }
    assert!(told(store.insert(record("shorter", "o"), 10).await));
    told(store.keep("shorter", 0, "step", vec![1]).await);
    let seen = told(store.load("shorter").await).expect("it is there");
    assert!(told(store.swap(soon(&**store, seen).await).await));

    // By the time that this one is gone, the first expiry of the others is over as well.
    gone(&**store, "shorter").await;
    assert!(told(store.kept("shorter").await).is_empty());
    for id in ["longer", "for ever"] {
        assert!(told(store.load(id).await).is_some(), "it lives {id}");
        assert_eq!(told(store.kept(id).await).len(), 1, "with what is beside it");
    }
    assert_eq!(told(store.sweep(9).await), 1, "only one expired");
    assert_eq!(told(store.list("o", None, 9).await).len(), 2);
}

pub(super) async fn what_expired_makes_room(store: RecordHandles) {
    let store = store.one();
    assert!(told(store.insert(record("stays", "o"), 3).await));
    for id in ["a", "b"] {
        assert!(told(store.insert(soon(&**store, record(id, "o")).await, 3).await));
    }
    gone(&**store, "a").await;
    gone(&**store, "b").await;
    for (id, fits) in [("c", true), ("d", true), ("e", false)] {
        assert_eq!(told(store.insert(record(id, "o"), 3).await), fits, "room for {id}");
    }
}

pub(super) async fn an_id_that_expired_begins_anew(store: RecordHandles) {
    let store = store.one();
    let first = Record { due: Some(1), ..soon(&**store, record("a", "one")).await };
    assert!(told(store.insert(first, 10).await));
    told(store.keep("a", 0, "step", vec![1]).await);
    gone(&**store, "a").await;
    assert!(told(store.insert(record("a", "two"), 10).await), "its id is free");
    told(store.sweep(9).await);
    let second = told(store.load("a").await).expect("a sweep leaves the new one alone");
    assert_eq!((second.owner.as_str(), second.version), ("two", 1));
    assert!(told(store.kept("a").await).is_empty(), "it begins with nothing");
    assert!(told(store.due(9).await).is_empty(), "and is not due");
    assert!(told(store.list("one", None, 9).await).is_empty(), "its first owner lost it");
    assert_eq!(told(store.list("two", None, 9).await).len(), 1);
}

pub(super) async fn sweeps_are_bounded(store: RecordHandles) {
    let store = store.one();
    assert!(told(store.insert(record("stays", "o"), 10).await));
    for id in ["a", "b", "c", "d", "e"] {
        assert!(told(store.insert(soon(&**store, record(id, "o")).await, 10).await));
    }
    for id in ["a", "b", "c", "d", "e"] {
        gone(&**store, id).await;
    }
    for swept in [2, 2, 1, 0] {
        assert_eq!(told(store.sweep(2).await), swept, "two at a time, until there are no more");
    }
    assert!(told(store.load("stays").await).is_some(), "what lives is left alone");
}

/// The same record, which expires soon.
async fn soon(store: &dyn RecordStore, record: Record) -> Record {
    let short = u64::try_from(SHORT.as_millis()).expect("it is short");
    Record { expires: Some(told(store.now().await) + short), ..record }
}

async fn gone(store: &dyn RecordStore, id: &str) {
    until("a record expires", async || told(store.load(id).await).is_none()).await;
}
