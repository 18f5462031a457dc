//! What is kept beside records, and by whom.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use wharf_model::{PutResult, Record};

use crate::contract::{RecordHandles, count, record, together, told};

pub(super) async fn the_first_value_stays(store: RecordHandles) {
    let store = store.one();
    let held = |id: &str| Record { fence: 3, ..record(id, "o") };
    assert!(told(store.insert(held("a"), 10).await) && told(store.insert(held("b"), 10).await));
    let keep = async |id: &str, name: &str, value: &[u8]| {
        told(store.keep(id, 3, name, value.to_vec()).await)
    };
    assert_eq!(keep("a", "step", b"\0one\xff").await, PutResult::Kept);
    assert_eq!(keep("a", "step", b"two").await, PutResult::Known(b"\0one\xff".to_vec()));
    assert_eq!(keep("a", "other", b"").await, PutResult::Kept, "nothing is something, too");
    assert_eq!(keep("a", "other", b"late").await, PutResult::Known(Vec::new()));
    assert_eq!(keep("b", "step", b"three").await, PutResult::Kept, "records are apart");
    assert_eq!(keep("c", "step", b"four").await, PutResult::Lost, "beside nothing is nothing");

    let all = told(store.kept("a").await).into_iter().collect::<Vec<_>>();
    let one = ("step".to_owned(), b"\0one\xff".to_vec());
    assert_eq!(all, [("other".to_owned(), Vec::new()), one], "all of it, and nothing else");
    assert!(told(store.kept("c").await).is_empty());
    let seen = told(store.load("a").await).expect("it is there");
    assert_eq!(seen.version, 1, "what is kept beside a record does not change it");
    assert!(told(store.swap(seen).await));
    assert_eq!(told(store.kept("a").await).len(), 2, "and a change of it forgets nothing");
}

pub(super) async fn one_of_many_is_kept(store: RecordHandles) {
    assert!(told(store.one().insert(record("a", "o"), 10).await));
    let racers = store.in_turn().take(24).enumerate().map(|(racer, store)| async move {
        told(store.keep("a", 0, "step", racer.to_string().into_bytes()).await)
    });
    let all = together(racers).await;
    assert_eq!(count(&all, &PutResult::Kept), 1, "one of them is the first");
    let first = all.iter().position(|it| *it == PutResult::Kept).expect("one was first");
    let known = PutResult::Known(first.to_string().into_bytes());
    assert_eq!(count(&all, &known), all.len() - 1, "the others learn what the first kept");
}

pub(super) async fn an_earlier_holder_keeps_nothing(store: RecordHandles) {
    let store = store.one();
    assert!(told(store.insert(Record { fence: 1, ..record("a", "o") }, 10).await));
    assert_eq!(told(store.keep("a", 1, "one", vec![1]).await), PutResult::Kept);
    assert_eq!(told(store.keep("a", 2, "two", vec![2]).await), PutResult::Lost, "not yet");
    let seen = told(store.load("a").await).expect("it is there");
    assert!(told(store.swap(Record { fence: 2, ..seen }).await));
    assert_eq!(told(store.keep("a", 1, "three", vec![3]).await), PutResult::Lost, "no more");
    assert_eq!(told(store.keep("a", 1, "one", vec![3]).await), PutResult::Lost, "nor is it told");
    let known = told(store.keep("a", 2, "one", vec![4]).await);
    assert_eq!(known, PutResult::Known(vec![1]), "the next holder finds what was kept");
    assert_eq!(told(store.kept("a").await).len(), 1, "what was lost is not there");
}

pub(super) async fn a_holder_that_lost_keeps_nothing_more(store: RecordHandles) {
    assert!(told(store.one().insert(record("a", "o"), 10).await));
    let taken_over = Arc::new(AtomicBool::new(false));
    let racers = store.in_turn().take(8).enumerate().map(|(racer, store)| {
        let taken_over = taken_over.clone();
        async move {
            for step in 0.. {
                let over_before = taken_over.load(Ordering::SeqCst);
                let name = format!("{racer}/{step}");
                match told(store.keep("a", 0, &name, Vec::new()).await) {
                    PutResult::Lost => return,
                    kept => assert!(!over_before, "kept after the record was taken over: {kept:?}"),
                }
            }
        }
    });
    let (taker, took) = (store.one().clone(), taken_over.clone());
    let takeover = async move {
        let seen = told(taker.load("a").await).expect("it is there");
        assert!(told(taker.swap(Record { fence: 1, ..seen }).await), "keeping swaps nothing");
        took.store(true, Ordering::SeqCst);
    };
    let running = tokio::spawn(together(racers.collect::<Vec<_>>()));
    takeover.await;
    running.await.expect("no racer panics");
}

pub(super) async fn what_is_removed_takes_all_along(store: RecordHandles) {
    let store = store.one();
    assert!(told(store.insert(record("a", "o"), 10).await));
    assert_eq!(told(store.keep("a", 0, "one", vec![1]).await), PutResult::Kept);
    assert!(told(store.remove("a").await));
    assert_eq!(told(store.load("a").await), None);
    assert!(told(store.kept("a").await).is_empty());
    assert_eq!(told(store.keep("a", 0, "two", vec![2]).await), PutResult::Lost);
    assert!(told(store.insert(record("a", "o"), 10).await), "its id is free");
    assert!(told(store.kept("a").await).is_empty(), "and begins with nothing");
}
