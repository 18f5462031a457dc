//! Token buckets in memory.

use std::{
    collections::BTreeMap,
    fmt,
    time::{Duration, Instant},
};

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use wharf_model::{Lock, Rate, RateDecision, RateStore};

/// Token buckets of a bounded number of callers. Above that number the least recently used bucket
/// is dropped, and its caller starts with a full one.
pub struct MemoryRates {
    most: usize,
    buckets: Lock<BucketTable>,
}

#[derive(Default)]
struct BucketTable {
    by_key: HashMap<String, TokenBucket, RandomState>,
    by_use: BTreeMap<u64, String>,
    uses: u64,
}

struct TokenBucket {
    tokens: f64,
    at: Instant,
    last_use: u64,
}

impl Default for MemoryRates {
    fn default() -> Self {
        MemoryRates::new(100_000)
    }
}

impl MemoryRates {
    /// Creates a store of at most `most` buckets.
    #[must_use]
    pub fn new(most: usize) -> Self {
        MemoryRates { most: most.max(1), buckets: Lock::default() }
    }

    fn take_at(&self, key: &str, rate: Rate, now: Instant) -> Result<(), Duration> {
        let mut guard = self.buckets.lock();
        let buckets = &mut *guard;
        buckets.uses += 1;
        let this_use = buckets.uses;
        if !buckets.by_key.contains_key(key) {
            if buckets.by_key.len() >= self.most
                && let Some((_, oldest)) = buckets.by_use.pop_first()
            {
                buckets.by_key.remove(&oldest);
            }
            let fresh = TokenBucket { tokens: rate.burst, at: now, last_use: 0 };
            buckets.by_key.insert(key.to_owned(), fresh);
        }
        let Some(bucket) = buckets.by_key.get_mut(key) else { return Ok(()) };
        buckets.by_use.remove(&bucket.last_use);
        buckets.by_use.insert(this_use, key.to_owned());
        bucket.last_use = this_use;
        let elapsed = now.saturating_duration_since(bucket.at).as_secs_f64();
        bucket.tokens = (bucket.tokens + elapsed * rate.per_second).min(rate.burst);
        bucket.at = now;
        if bucket.tokens >= 1.0 {
            bucket.tokens -= 1.0;
            return Ok(());
        }
        let wait = (1.0 - bucket.tokens) / rate.per_second;
        Err(Duration::try_from_secs_f64(wait).unwrap_or(Duration::from_secs(3600)))
    }
}

impl RateStore for MemoryRates {
    fn take(&self, key: &str, rate: Rate) -> RateDecision {
        RateDecision::Now(self.take_at(key, rate, Instant::now()))
    }
}

impl fmt::Debug for MemoryRates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryRates").field("most", &self.most).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_gives_its_burst_and_then_its_rate() {
        let (store, start) = (MemoryRates::new(2), Instant::now());
        let rate = Rate { per_second: 2.0, burst: 3.0 };
        for _ in 0..3 {
            assert_eq!(store.take_at("a", rate, start), Ok(()));
        }
        assert_eq!(store.take_at("a", rate, start), Err(Duration::from_millis(500)));
        assert_eq!(store.take_at("a", rate, start + Duration::from_millis(500)), Ok(()));
        assert!(store.take_at("a", rate, start + Duration::from_millis(500)).is_err());
    }

    #[test]
    fn buckets_are_bounded_and_the_longest_unused_goes() {
        let (store, now) = (MemoryRates::new(2), Instant::now());
        let rate = Rate { per_second: 1.0, burst: 1.0 };
        assert_eq!(store.take_at("a", rate, now), Ok(()));
        assert_eq!(store.take_at("b", rate, now), Ok(()));
        assert!(store.take_at("a", rate, now).is_err());
        assert_eq!(store.take_at("c", rate, now), Ok(()), "b was dropped");
        assert!(store.take_at("a", rate, now).is_err(), "a stayed");
        assert_eq!(store.buckets.lock().by_key.len(), 2);
        assert_eq!(store.buckets.lock().by_use.len(), 2);
    }
}
