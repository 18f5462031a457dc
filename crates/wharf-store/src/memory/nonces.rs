//! One-time claims (nonces) in memory.

use std::{
    collections::BTreeMap,
    fmt,
    time::{Duration, Instant},
};

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use wharf_model::{Error, Lock, NonceStore, Stored};

/// One-time claims in memory until they expire. At its limit it rejects new claims instead of
/// dropping old ones.
pub struct MemoryNonces {
    most: usize,
    claims: Lock<ClaimTable>,
}

#[derive(Default)]
struct ClaimTable {
    expiry: HashMap<String, Instant, RandomState>,
    by_expiry: BTreeMap<Instant, Vec<String>>,
}

impl Default for MemoryNonces {
    fn default() -> Self {
        MemoryNonces::new(100_000)
    }
}

impl MemoryNonces {
    /// Creates a store of at most `most` claims at a time.
    #[must_use]
    pub fn new(most: usize) -> Self {
        MemoryNonces { most, claims: Lock::default() }
    }

    fn take(&self, nonce: &str, ttl: Duration, now: Instant) -> Result<bool, Error> {
        let mut claims = self.claims.lock();
        let still = claims.by_expiry.split_off(&now);
        let expired = std::mem::replace(&mut claims.by_expiry, still);
        for nonce in expired.into_values().flatten() {
            claims.expiry.remove(&nonce);
        }
        if claims.expiry.contains_key(nonce) {
            return Ok(false);
        }
        if claims.expiry.len() >= self.most {
            return Err(Error::overloaded(Duration::from_secs(1)));
        }
        // A claim whose expiry cannot be represented is kept for a day.
        let expiry = now.checked_add(ttl).unwrap_or(now + Duration::from_secs(86_400));
        claims.expiry.insert(nonce.to_owned(), expiry);
        claims.by_expiry.entry(expiry).or_default().push(nonce.to_owned());
        Ok(true)
    }
}

impl NonceStore for MemoryNonces {
    fn claim(&self, nonce: &str, ttl: Duration) -> Stored<bool> {
        Box::pin(std::future::ready(self.take(nonce, ttl, Instant::now())))
    }
}

impl fmt::Debug for MemoryNonces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryNonces").field("most", &self.most).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nonce_is_claimed_once_until_it_expires() {
        let store = MemoryNonces::new(2);
        let (start, ttl) = (Instant::now(), Duration::from_secs(10));
        assert_eq!(store.take("a", ttl, start), Ok(true));
        assert_eq!(store.take("a", ttl, start), Ok(false));
        assert_eq!(store.take("b", ttl, start), Ok(true));
        assert!(store.take("c", ttl, start).is_err(), "full");
        assert_eq!(store.take("c", ttl, start + ttl * 2), Ok(true));
        assert_eq!(store.take("a", ttl, start + ttl * 2), Ok(true));
    }
}
