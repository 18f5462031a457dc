//! Checks of the values kept beside a record, which are fenced.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use wharf_model::AttachResult;

use crate::contract::{RecordHandles, count, record, run_concurrently, value_of};

pub(super) async fn the_first_value_is_kept(store: RecordHandles) {
    let store = store.first();
    let held = |id: &str| record(id, "o").fence(3);
    assert!(
        value_of(store.insert(held("a"), 10).await) && value_of(store.insert(held("b"), 10).await)
    );
    let keep = async |id: &str, name: &str, value: &[u8]| {
        value_of(store.attach(id, 3, name, value.to_vec()).await)
    };
    assert_eq!(keep("a", "step", b"\0one\xff").await, AttachResult::Attached);
    assert_eq!(keep("a", "step", b"two").await, AttachResult::Exists(b"\0one\xff".to_vec()));
    assert_eq!(
        keep("a", "other", b"").await,
        AttachResult::Attached,
        "an empty value is kept, too"
    );
    assert_eq!(keep("a", "other", b"late").await, AttachResult::Exists(Vec::new()));
    assert_eq!(
        keep("b", "step", b"three").await,
        AttachResult::Attached,
        "each record has its own values"
    );
    assert_eq!(
        keep("c", "step", b"four").await,
        AttachResult::Lost,
        "a missing record keeps nothing"
    );

    let all = value_of(store.attachments("a").await).into_iter().collect::<Vec<_>>();
    let one = ("step".to_owned(), b"\0one\xff".to_vec());
    assert_eq!(all, [("other".to_owned(), Vec::new()), one], "all values, and nothing else");
    assert!(value_of(store.attachments("c").await).is_empty());
    let seen = value_of(store.load("a").await).expect("the record exists");
    assert_eq!(seen.version, 1, "keeping a value does not change the version");
    assert!(value_of(store.swap(seen).await));
    assert_eq!(value_of(store.attachments("a").await).len(), 2, "a swap keeps the values");
}

pub(super) async fn one_of_concurrent_values_is_kept(store: RecordHandles) {
    assert!(value_of(store.first().insert(record("a", "o"), 10).await));
    let racers = store.round_robin().take(24).enumerate().map(|(racer, store)| async move {
        value_of(store.attach("a", 0, "step", racer.to_string().into_bytes()).await)
    });
    let all = run_concurrently(racers).await;
    assert_eq!(count(&all, &AttachResult::Attached), 1, "exactly one value is the first");
    let first = all.iter().position(|it| *it == AttachResult::Attached).expect("one was first");
    let known = AttachResult::Exists(first.to_string().into_bytes());
    assert_eq!(count(&all, &known), all.len() - 1, "the others get the first value");
}

pub(super) async fn an_old_fence_is_rejected(store: RecordHandles) {
    let store = store.first();
    assert!(value_of(store.insert(record("a", "o").fence(1), 10).await));
    assert_eq!(value_of(store.attach("a", 1, "one", vec![1]).await), AttachResult::Attached);
    assert_eq!(
        value_of(store.attach("a", 2, "two", vec![2]).await),
        AttachResult::Lost,
        "a later fence"
    );
    let seen = value_of(store.load("a").await).expect("the record exists");
    assert!(value_of(store.swap(seen.fence(2)).await));
    assert_eq!(
        value_of(store.attach("a", 1, "three", vec![3]).await),
        AttachResult::Lost,
        "an earlier fence"
    );
    assert_eq!(
        value_of(store.attach("a", 1, "one", vec![3]).await),
        AttachResult::Lost,
        "an earlier fence reads nothing either"
    );
    let known = value_of(store.attach("a", 2, "one", vec![4]).await);
    assert_eq!(known, AttachResult::Exists(vec![1]), "the next holder gets the kept value");
    assert_eq!(value_of(store.attachments("a").await).len(), 1, "rejected values are not stored");
}

pub(super) async fn a_fence_is_rejected_from_the_takeover_on(store: RecordHandles) {
    assert!(value_of(store.first().insert(record("a", "o"), 10).await));
    let taken_over = Arc::new(AtomicBool::new(false));
    let racers = store.round_robin().take(8).enumerate().map(|(racer, store)| {
        let taken_over = taken_over.clone();
        async move {
            for step in 0.. {
                let over_before = taken_over.load(Ordering::SeqCst);
                let name = format!("{racer}/{step}");
                match value_of(store.attach("a", 0, &name, Vec::new()).await) {
                    AttachResult::Lost => return,
                    kept => assert!(!over_before, "kept after the record was taken over: {kept:?}"),
                }
            }
        }
    });
    let (taker, took) = (store.first().clone(), taken_over.clone());
    let takeover = async move {
        let seen = value_of(taker.load("a").await).expect("the record exists");
        assert!(value_of(taker.swap(seen.fence(1)).await), "keeping a value changes no version");
        took.store(true, Ordering::SeqCst);
    };
    let running = tokio::spawn(run_concurrently(racers.collect::<Vec<_>>()));
    takeover.await;
    running.await.expect("no concurrent task panics");
}

pub(super) async fn removal_deletes_kept_values(store: RecordHandles) {
    let store = store.first();
    assert!(value_of(store.insert(record("a", "o"), 10).await));
    assert_eq!(value_of(store.attach("a", 0, "one", vec![1]).await), AttachResult::Attached);
    assert!(value_of(store.remove("a").await));
    assert_eq!(value_of(store.load("a").await), None);
    assert!(value_of(store.attachments("a").await).is_empty());
    assert_eq!(value_of(store.attach("a", 0, "two", vec![2]).await), AttachResult::Lost);
    assert!(value_of(store.insert(record("a", "o"), 10).await), "the id can be used again");
    assert!(value_of(store.attachments("a").await).is_empty(), "the new record has no values");
}
