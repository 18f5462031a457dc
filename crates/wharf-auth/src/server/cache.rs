//! What was found out about tokens a moment ago.

use std::{
    collections::HashMap,
    mem,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use crate::server::verified_token::{Grant, now};

/// How many tokens are remembered at most, in either generation.
const MOST: usize = 8 << 10;

/// Something about each of the tokens that came last, by their digests.
pub(crate) struct Recent<V>(Mutex<Generations<V>>);

struct Generations<V> {
    young: HashMap<[u8; 32], V>,
    /// Forgotten as a whole when the young ones have become too many.
    old: HashMap<[u8; 32], V>,
}

impl<V> Default for Recent<V> {
    fn default() -> Self {
        Recent(Mutex::new(Generations { young: HashMap::new(), old: HashMap::new() }))
    }
}

impl<V: Clone> Recent<V> {
    pub(crate) fn get(&self, digest: &[u8; 32]) -> Option<V> {
        let generations = self.lock();
        generations.young.get(digest).or_else(|| generations.old.get(digest)).cloned()
    }

    pub(crate) fn put(&self, digest: [u8; 32], value: V) {
        let mut generations = self.lock();
        if generations.young.len() >= MOST {
            generations.old = mem::take(&mut generations.young);
        }
        generations.young.insert(digest, value);
    }

    pub(crate) fn remove(&self, digest: &[u8; 32]) {
        let mut generations = self.lock();
        generations.young.remove(digest);
        generations.old.remove(digest);
    }

    fn lock(&self) -> MutexGuard<'_, Generations<V>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Remembers what tokens are worth for a short time, and never longer than they last.
#[derive(Default)]
pub(crate) struct Cache(Recent<Kept>);

#[derive(Clone)]
struct Kept {
    grant: Grant,
    until: Instant,
}

impl Cache {
    pub(crate) fn get(&self, digest: &[u8; 32]) -> Option<Grant> {
        let kept = self.0.get(digest)?;
        let lasts = kept.grant.expires.is_none_or(|expires| expires > now());
        (lasts && kept.until > Instant::now()).then_some(kept.grant)
    }

    pub(crate) fn put(&self, digest: [u8; 32], grant: &Grant, keep: Duration) {
        if !keep.is_zero() {
            self.0.put(digest, Kept { grant: grant.clone(), until: Instant::now() + keep });
        }
    }
}
