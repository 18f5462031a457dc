//! Checks of event streams.

use std::time::Duration;

use wharf_model::{EventStore, Events, Retention};

use super::{SHORT_TTL, StoreHandles, run_concurrently, until, value_of};

type EventHandles = StoreHandles<dyn EventStore>;

const RETENTION: Retention = Retention::new(1_000, 1_000_000, Duration::from_secs(600));

pub(super) async fn events_come_back_in_order(store: EventHandles) {
    let store = store.first();
    assert_eq!(value_of(store.read("s", 0, 9).await), Events::default(), "the stream is empty");
    for number in 1..=5 {
        let event = vec![0, 255, u8::try_from(number).expect("few events")];
        assert_eq!(
            value_of(store.append("s", event, RETENTION).await),
            number,
            "numbers rise by one"
        );
        assert_eq!(
            value_of(store.append("t", Vec::new(), RETENTION).await),
            number,
            "in each stream"
        );
    }
    for (after, limit, numbers) in
        [(0, 9, 1..6), (2, 9, 3..6), (0, 2, 1..3), (4, 1, 5..6), (5, 9, 6..6), (99, 9, 6..6)]
    {
        let read = value_of(store.read("s", after, limit).await);
        let want = numbers.map(|number: u64| (number, vec![0, 255, number.to_le_bytes()[0]]));
        assert_eq!(read.newest, 5, "the newest number is returned with every read");
        assert_eq!(read.events, want.collect::<Vec<_>>(), "{limit} after {after}");
    }
}

pub(super) async fn numbers_have_no_gaps(store: EventHandles) {
    const EACH: usize = 20;
    let racers = store.round_robin().take(8).enumerate().map(|(racer, store)| async move {
        let mut mine = Vec::new();
        for _ in 0..EACH {
            let event = vec![u8::try_from(racer).expect("few tasks")];
            mine.push(value_of(store.append("s", event, RETENTION).await));
        }
        mine
    });
    let all = run_concurrently(racers).await;
    let read = value_of(store.first().read("s", 0, 1_000).await);
    for (racer, mine) in all.iter().enumerate() {
        assert!(mine.is_sorted(), "numbers of one writer rise");
        for number in mine {
            let index = usize::try_from(*number).expect("few events") - 1;
            let (numbered, event) = &read.events[index];
            assert_eq!((numbered, usize::from(event[0])), (number, racer), "the appended event");
        }
    }
    let mut numbers: Vec<_> = all.into_iter().flatten().collect();
    numbers.sort_unstable();
    let whole: Vec<_> = (1..=read.newest).collect();
    assert_eq!(numbers, whole, "every number exactly once");
    assert_eq!(whole.len(), 8 * EACH);
}

pub(super) async fn old_events_are_trimmed(store: EventHandles) {
    let store = store.first();
    let few = RETENTION.events(3);
    let small = RETENTION.bytes(25);
    for number in 1..=10 {
        value_of(store.append("few", vec![number; 10], few).await);
        value_of(store.append("small", vec![number; 10], small).await);
    }
    for (stream, first) in [("few", 8), ("small", 9)] {
        let read = value_of(store.read(stream, 2, 99).await);
        let numbers: Vec<_> = read.events.iter().map(|(number, _)| *number).collect();
        assert_eq!(
            numbers,
            (first..=10).collect::<Vec<_>>(),
            "the oldest events of `{stream}` are trimmed"
        );
        assert!(read.events.iter().all(|(number, event)| event[0] == number.to_le_bytes()[0]));
        assert_eq!(read.newest, 10);
    }
    assert_eq!(value_of(store.append("small", vec![11; 100], small).await), 11);
    let read = value_of(store.read("small", 0, 99).await);
    assert_eq!(
        read.events,
        [(11, vec![11; 100])],
        "the newest event stays even if it is too large"
    );
    value_of(store.append("small", vec![12; 10], small).await);
    let read = value_of(store.read("small", 0, 99).await);
    assert_eq!(read.events, [(12, vec![12; 10])], "it is trimmed once it is not the newest");
}

pub(super) async fn streams_expire_and_are_removed(store: EventHandles) {
    let store = store.first();
    let brief = RETENTION.ttl(SHORT_TTL);
    value_of(store.append("brief", vec![1], brief).await);
    for stream in ["removed", "other"] {
        value_of(store.append(stream, vec![1], RETENTION).await);
    }
    value_of(store.remove("removed").await);
    value_of(store.remove("missing").await);
    until("a stream expires", async || value_of(store.read("brief", 0, 9).await).newest == 0).await;
    for stream in ["brief", "removed"] {
        assert_eq!(
            value_of(store.read(stream, 0, 9).await),
            Events::default(),
            "`{stream}` is gone"
        );
        assert_eq!(
            value_of(store.append(stream, vec![2], RETENTION).await),
            1,
            "`{stream}` starts again at 1"
        );
    }
    assert_eq!(value_of(store.read("other", 0, 9).await).newest, 1, "other streams remain");
}
