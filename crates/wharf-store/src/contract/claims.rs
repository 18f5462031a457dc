//! One-time claims and rates.

use std::time::Duration;

use wharf_model::{NonceStore, Rate, RateStore};

use super::{SHORT, StoreHandles, count, together, told, until};

pub(super) async fn a_nonce_is_claimed_once(store: StoreHandles<dyn NonceStore>) {
    for nonce in ["one", "two \u{e9}/\0"] {
        let claims = store
            .in_turn()
            .take(24)
            .map(|store| async move { told(store.claim(nonce, Duration::from_secs(600)).await) });
        let claimed = together(claims).await;
        assert_eq!(count(&claimed, &true), 1, "one of those who claim a nonce has it");
    }
}

pub(super) async fn a_claim_ends(store: StoreHandles<dyn NonceStore>) {
    let store = store.one();
    let long = Duration::from_secs(600);
    assert!(told(store.claim("long", Duration::MAX).await), "for ever is not too long");
    assert!(told(store.claim("short", SHORT).await));
    until("a claim ends", async || told(store.claim("short", long).await)).await;
    assert!(!told(store.claim("short", SHORT).await), "and is made anew, for as long as it says");
    assert!(!told(store.claim("long", SHORT).await), "the others stay");
}

/// So many who take from one bucket at the same time.
async fn race(
    store: &StoreHandles<dyn RateStore>,
    racers: usize,
    rate: Rate,
) -> Vec<Result<(), Duration>> {
    let racers = store.in_turn().take(racers).map(|store| async move {
        let taking = store.take("a", rate);
        taking.taken().await
    });
    together(racers).await
}

pub(super) async fn a_burst_is_all_there_is(store: StoreHandles<dyn RateStore>) {
    // So slow that no token comes back while this runs.
    let rate = Rate { per_second: 0.0001, burst: 5.0 };
    let taken = race(&store, 24, rate).await;
    assert_eq!(count(&taken, &Ok(())), 5, "a burst, and no more");
    let wait = Duration::from_secs(10_000);
    for told in taken.iter().filter_map(|taken| taken.err()) {
        assert!(told > wait / 2 && told <= wait, "{told:?} until there is a token");
    }
    let other = store.one().take("b", rate);
    assert_eq!(other.taken().await, Ok(()), "every key has a bucket of its own");
}

pub(super) async fn tokens_come_back(store: StoreHandles<dyn RateStore>) {
    let store = store.one();
    let rate = Rate { per_second: 10.0, burst: 1.0 };
    let take = async || {
        let taking = store.take("a", rate);
        taking.taken().await
    };
    until("the bucket is empty", async || take().await.is_err()).await;
    until("a token comes back", async || take().await.is_ok()).await;
}

pub(super) async fn what_never_comes_back_is_a_quota(store: StoreHandles<dyn RateStore>) {
    let rate = Rate { per_second: 0.0, burst: 2.0 };
    let taken = race(&store, 6, rate).await;
    assert_eq!(count(&taken, &Ok(())), 2, "a burst, and never more");
    for told in taken.iter().filter_map(|taken| taken.err()) {
        assert!(told >= Duration::from_secs(3600), "{told:?} is not for ever");
    }
    let nothing = store.one().take("b", Rate { per_second: 0.0, burst: 0.0 });
    assert!(nothing.taken().await.is_err(), "nothing at all");
}
