//! Checks of insertion limits, and of the order in which records are listed and due.

use wharf_model::Record;

use super::{RecordHandles, SHORT_TTL, count, record, run_concurrently, until, value_of};

pub(super) async fn an_id_is_inserted_once(store: RecordHandles) {
    let racers = store.round_robin().take(24).enumerate().map(|(racer, store)| async move {
        value_of(store.insert(record("a", &format!("owner {racer}")), 10).await)
    });
    let won = run_concurrently(racers).await;
    assert_eq!(count(&won, &true), 1, "exactly one insert of an id succeeds");
    let winner = won.iter().position(|won| *won).expect("one won");
    let there = value_of(store.first().load("a").await).expect("the record exists");
    assert_eq!(there.owner, format!("owner {winner}"), "the failed inserts change nothing");
}

pub(super) async fn an_owner_has_at_most_the_limit(store: RecordHandles) {
    let racers = store.round_robin().take(24).enumerate().map(|(racer, store)| async move {
        value_of(store.insert(record(&format!("r{racer}"), "o"), 7).await)
    });
    let won = run_concurrently(racers).await;
    assert_eq!(count(&won, &true), 7, "exactly the owner's limit");
    let store = store.first();
    let owned = value_of(store.list("o", None, 100).await);
    assert_eq!(owned.len(), 7, "the owner's records are listed");
    assert!(
        value_of(store.insert(record("other", "p"), 7).await),
        "another owner has its own limit"
    );
    assert!(value_of(store.remove(&owned[0].id).await), "the record existed");
    assert!(!value_of(store.remove(&owned[0].id).await), "the record is already removed");
    assert!(
        value_of(store.insert(record("new", "o"), 7).await),
        "a removed record frees its place"
    );
    assert!(!value_of(store.insert(record("newer", "o"), 7).await), "only one place is free");
    assert!(!value_of(store.insert(record("none", "q"), 0).await), "a limit of zero allows none");
}

pub(super) async fn lists_are_in_order_and_paged(store: RecordHandles) {
    let store = store.first();
    let sent = [("b", 20), ("z", 10), ("c", 20), ("a", 20), ("y", 1_000), ("B", 20), ("m", 9)];
    for (id, created) in sent {
        assert!(value_of(store.insert(record(id, "o").created(created), 10).await));
        let foreign = record(&format!("not {id}"), "p").created(created);
        assert!(value_of(store.insert(foreign, 10).await));
    }
    let ids = |records: Vec<Record>| records.into_iter().map(|it| it.id).collect::<Vec<_>>();
    let ordered = ["m", "z", "B", "a", "b", "c", "y"];
    let whole = value_of(store.list("o", None, 100).await);
    assert!(
        whole.iter().all(|it| it.owner == "o" && it.version == 1),
        "complete records are listed"
    );
    assert_eq!(ids(whole), ordered, "ordered by creation time, then by id");

    let moved = value_of(store.load("a").await).expect("the record exists");
    assert!(value_of(store.swap(moved.body(b"new".to_vec())).await));
    for size in 1..=3 {
        let (mut seen, mut after) = (Vec::new(), None);
        loop {
            let page = ids(value_of(store.list("o", after.as_deref(), size).await));
            assert!(page.len() <= size, "a page has at most its limit");
            let Some(last) = page.last() else { break };
            after = Some(last.clone());
            seen.extend(page);
        }
        assert_eq!(seen, ordered, "pages of {size} make up the list");
    }
    assert_eq!(
        ids(value_of(store.list("o", Some("gone"), 9).await)),
        [""; 0],
        "after a missing id"
    );
    assert_eq!(
        ids(value_of(store.list("o", Some("not a"), 9).await)),
        [""; 0],
        "after another owner's id"
    );
    assert_eq!(ids(value_of(store.list("unknown", None, 9).await)), [""; 0], "of an unknown owner");
}

pub(super) async fn due_records_are_in_order(store: RecordHandles) {
    let store = store.first();
    let now = value_of(store.now().await);
    let sent = [
        ("late", Some(now - 500)),
        ("later", Some(now - 1_000)),
        ("latest", Some(1)),
        ("same", Some(now - 500)),
        ("ahead", Some(now + 3_600_000)),
        ("never", None),
    ];
    for (id, due) in sent {
        assert!(value_of(store.insert(record(id, "o").due(due), 10).await));
    }
    let all = value_of(store.due(100).await);
    assert_eq!(all, ["latest", "later", "late", "same"], "the earliest due first");
    assert_eq!(value_of(store.due(2).await), ["latest", "later"], "at most the limit");

    let change = async |id: &str, due| {
        let seen = value_of(store.load(id).await).expect("the record exists");
        assert!(value_of(store.swap(seen.due(due)).await));
    };
    change("latest", None).await;
    change("later", Some(now + 3_600_000)).await;
    change("never", Some(2)).await;
    assert!(value_of(store.remove("same").await));
    assert_eq!(value_of(store.due(100).await), ["never", "late"], "a swap sets the due time");
}

pub(super) async fn a_record_becomes_due(store: RecordHandles) {
    let store = store.first();
    let soon = value_of(store.now().await)
        + u64::try_from(SHORT_TTL.as_millis()).expect("the duration is short");
    assert!(value_of(store.insert(record("a", "o").due(Some(soon)), 10).await));
    until("a record becomes due", async || !value_of(store.due(9).await).is_empty()).await;
    assert!(value_of(store.now().await) >= soon, "it is not due early");
}
