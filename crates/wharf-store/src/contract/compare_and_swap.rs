//! Checks of compare-and-swap: versions and concurrent changes.

use wharf_model::Record;

use crate::contract::{RecordHandles, count, record, run_concurrently, value_of};

pub(super) async fn a_record_comes_back_as_it_was(store: RecordHandles) {
    let store = store.first();
    let now = value_of(store.now().await);
    let full = Record::new("an id: \u{e9}\"'\\%*{}".to_owned())
        .owner("an owner, \u{1f980}")
        .created(now)
        .version(1)
        .fence(u64::MAX)
        .due(Some(now + 1_000))
        .expires(Some(now + 3_600_000))
        .body((0..=255).collect::<Vec<u8>>());
    let bare = record("bare", "");
    for sent in [full, bare.version(1)] {
        assert!(value_of(store.insert(sent.clone(), 10).await), "the record is inserted");
        let back = value_of(store.load(&sent.id).await);
        assert_eq!(back, Some(sent), "a record is loaded as it was stored");
    }
    assert_eq!(value_of(store.load("missing").await), None, "a missing id loads nothing");
}

pub(super) async fn the_store_assigns_versions(store: RecordHandles) {
    let store = store.first();
    let sent = record("a", "o").version(77);
    assert!(value_of(store.insert(sent, 10).await));
    let first = value_of(store.load("a").await).expect("the record exists");
    assert_eq!(first.version, 1, "a new record has version 1, whichever was sent");

    let changed = first.clone().body(b"two".to_vec()).fence(4);
    assert!(value_of(store.swap(changed.clone()).await), "the version matches");
    let second = value_of(store.load("a").await).expect("the record exists");
    assert_eq!(second, changed.clone().version(2), "a swap increments the version");

    assert!(!value_of(store.swap(changed).await), "the version is old");
    let ahead = second.clone().version(3);
    assert!(!value_of(store.swap(ahead).await), "the version is in the future");
    assert_eq!(value_of(store.load("a").await), Some(second), "a failed swap changes nothing");
    assert!(!value_of(store.swap(record("b", "o")).await), "a missing record is not swapped");
    assert_eq!(value_of(store.load("b").await), None, "nor created");
}

pub(super) async fn one_swap_of_a_version_wins(store: RecordHandles) {
    assert!(value_of(store.first().insert(record("a", "o"), 10).await));
    for version in 1..=10 {
        let racers = store.round_robin().take(24).enumerate().map(|(racer, store)| async move {
            let body = vec![u8::try_from(racer).expect("few tasks")];
            value_of(store.swap(record("a", "o").version(version).body(body)).await)
        });
        let won = run_concurrently(racers).await;
        assert_eq!(count(&won, &true), 1, "exactly one swap of version {version} wins");
        let winner = won.iter().position(|won| *won).expect("one won");
        let kept = value_of(store.first().load("a").await).expect("the record exists");
        assert_eq!(usize::from(kept.body[0]), winner, "the stored body is the winner's");
        assert_eq!(kept.version, version + 1);
    }
}

pub(super) async fn no_concurrent_change_is_lost(store: RecordHandles) {
    const RACERS: usize = 8;
    const ROUNDS: usize = 10;
    let zero = record("a", "o").body(vec![0]);
    assert!(value_of(store.first().insert(zero, 10).await));
    let racers = store.round_robin().take(RACERS).map(|store| async move {
        let mut done = 0;
        while done < ROUNDS {
            let mut seen = value_of(store.load("a").await).expect("the record exists");
            seen.body[0] += 1;
            done += usize::from(value_of(store.swap(seen).await));
        }
    });
    run_concurrently(racers).await;
    let end = value_of(store.first().load("a").await).expect("the record exists");
    assert_eq!(usize::from(end.body[0]), RACERS * ROUNDS, "no change is lost");
    assert_eq!(end.version, (RACERS * ROUNDS) as u64 + 1, "every change increments the version");
}

pub(super) async fn the_clock_does_not_go_back(store: RecordHandles) {
    let mut latest = 0;
    for store in store.round_robin().take(100) {
        let now = value_of(store.now().await);
        assert!(now >= latest, "the clock went back from {latest} to {now}");
        latest = now;
    }
}
