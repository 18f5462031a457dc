//! Cache of verified tokens.

use std::{collections::HashMap, mem, sync::MutexGuard, time::Duration};
use wharf_model::Lock;

use tokio::time::Instant;

use crate::server::verified_token::{VerifiedToken, now};

/// Limit of tokens in each of the two generations.
const MAX_GENERATION_SIZE: usize = 8 << 10;

/// Values by token digest, for the most recent tokens.
pub(crate) struct RecentTokens<V>(Lock<TokenGenerations<V>>);

struct TokenGenerations<V> {
    young: HashMap<[u8; 32], V>,
    /// Dropped as a whole when the young generation is full.
    old: HashMap<[u8; 32], V>,
}

impl<V> Default for RecentTokens<V> {
    fn default() -> Self {
        RecentTokens(Lock::new(TokenGenerations { young: HashMap::new(), old: HashMap::new() }))
    }
}

impl<V: Clone> RecentTokens<V> {
    pub(crate) fn get(&self, digest: &[u8; 32]) -> Option<V> {
        let generations = self.lock();
        generations.young.get(digest).or_else(|| generations.old.get(digest)).cloned()
    }

    pub(crate) fn put(&self, digest: [u8; 32], value: V) {
        let mut generations = self.lock();
        if generations.young.len() >= MAX_GENERATION_SIZE {
            generations.old = mem::take(&mut generations.young);
        }
        generations.young.insert(digest, value);
    }

    pub(crate) fn remove(&self, digest: &[u8; 32]) {
        let mut generations = self.lock();
        generations.young.remove(digest);
        generations.old.remove(digest);
    }

    fn lock(&self) -> MutexGuard<'_, TokenGenerations<V>> {
        self.0.lock()
    }
}

/// Caches verified tokens for a short time, never beyond their expiry.
#[derive(Default)]
pub(crate) struct TokenCache(RecentTokens<CachedToken>);

#[derive(Clone)]
struct CachedToken {
    verified: VerifiedToken,
    until: Instant,
}

impl TokenCache {
    pub(crate) fn get(&self, digest: &[u8; 32]) -> Option<VerifiedToken> {
        let cached = self.0.get(digest)?;
        let lasts = cached.verified.expires.is_none_or(|expires| expires > now());
        (lasts && cached.until > Instant::now()).then_some(cached.verified)
    }

    pub(crate) fn put(&self, digest: [u8; 32], verified: &VerifiedToken, cache_ttl: Duration) {
        if !cache_ttl.is_zero() {
            self.0.put(
                digest,
                CachedToken { verified: verified.clone(), until: Instant::now() + cache_ttl },
            );
        }
    }
}
