//! Checks of one-time claims and of rates.

use std::time::Duration;

use wharf_model::{NonceStore, Rate, RateStore};

use super::{SHORT_TTL, StoreHandles, count, run_concurrently, until, value_of};

pub(super) async fn a_nonce_is_claimed_once(store: StoreHandles<dyn NonceStore>) {
    for nonce in ["one", "two \u{e9}/\0"] {
        let claims = store.round_robin().take(24).map(|store| async move {
            value_of(store.claim(nonce, Duration::from_secs(600)).await)
        });
        let claimed = run_concurrently(claims).await;
        assert_eq!(count(&claimed, &true), 1, "exactly one claim of a nonce succeeds");
    }
}

pub(super) async fn a_claim_expires(store: StoreHandles<dyn NonceStore>) {
    let store = store.first();
    let long = Duration::from_secs(600);
    assert!(value_of(store.claim("long", Duration::MAX).await), "the longest duration is accepted");
    assert!(value_of(store.claim("short", SHORT_TTL).await));
    until("a claim expires", async || value_of(store.claim("short", long).await)).await;
    assert!(
        !value_of(store.claim("short", SHORT_TTL).await),
        "the new claim lasts for its own duration"
    );
    assert!(!value_of(store.claim("long", SHORT_TTL).await), "other claims remain");
}

/// Takes from one bucket with many concurrent tasks.
async fn race(
    store: &StoreHandles<dyn RateStore>,
    racers: usize,
    rate: Rate,
) -> Vec<Result<(), Duration>> {
    let racers = store.round_robin().take(racers).map(|store| async move {
        let taking = store.take("a", rate);
        taking.taken().await
    });
    run_concurrently(racers).await
}

pub(super) async fn a_bucket_holds_its_burst(store: StoreHandles<dyn RateStore>) {
    // So slow that no token is added while this runs.
    let rate = Rate { per_second: 0.0001, burst: 5.0 };
    let taken = race(&store, 24, rate).await;
    assert_eq!(count(&taken, &Ok(())), 5, "the burst, and no more");
    let wait = Duration::from_secs(10_000);
    for delay in taken.iter().filter_map(|taken| taken.err()) {
        assert!(delay > wait / 2 && delay <= wait, "{delay:?} until the next token");
    }
    let other = store.first().take("b", rate);
    assert_eq!(other.taken().await, Ok(()), "every key has its own bucket");
}

pub(super) async fn tokens_are_refilled(store: StoreHandles<dyn RateStore>) {
    let store = store.first();
    let rate = Rate { per_second: 10.0, burst: 1.0 };
    let take = async || {
        let taking = store.take("a", rate);
        taking.taken().await
    };
    until("the bucket is empty", async || take().await.is_err()).await;
    until("a token is added", async || take().await.is_ok()).await;
}

pub(super) async fn a_rate_of_zero_is_a_quota(store: StoreHandles<dyn RateStore>) {
    let rate = Rate { per_second: 0.0, burst: 2.0 };
    let taken = race(&store, 6, rate).await;
    assert_eq!(count(&taken, &Ok(())), 2, "the burst, and never more");
    for delay in taken.iter().filter_map(|taken| taken.err()) {
        assert!(delay >= Duration::from_secs(3600), "{delay:?} is too short for a quota");
    }
    let nothing = store.first().take("b", Rate { per_second: 0.0, burst: 0.0 });
    assert!(nothing.taken().await.is_err(), "a burst of zero allows nothing");
}
