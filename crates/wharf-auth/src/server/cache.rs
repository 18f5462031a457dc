//! Tokens that were checked a moment ago.

use std::{
    collections::HashMap,
    mem,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use super::grant::{Grant, now};

/// How many tokens are remembered at most, in either generation.
const MOST: usize = 8 << 10;

/// Remembers what tokens are worth, by their digests, for a short time and never longer than they last.
#[derive(Default)]
pub(crate) struct Cache(Mutex<Generations>);

#[derive(Default)]
struct Generations {
    young: HashMap<[u8; 32], Kept>,
    /// Forgotten as a whole when the young ones have become too many.
    old: HashMap<[u8; 32], Kept>,
}

#[derive(Clone)]
struct Kept {
    grant: Grant,
    until: Instant,
}

impl Cache {
    pub(crate) fn get(&self, digest: &[u8; 32]) -> Option<Grant> {
        let generations = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = generations.young.get(digest).or_else(|| generations.old.get(digest))?;
        let lasts = kept.grant.expires.is_none_or(|expires| expires > now());
        (lasts && kept.until > Instant::now()).then(|| kept.grant.clone())
    }

    pub(crate) fn put(&self, digest: [u8; 32], grant: &Grant, keep: Duration) {
        if keep.is_zero() {
            return;
        }
        let kept = Kept { grant: grant.clone(), until: Instant::now() + keep };
        let mut generations = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if generations.young.len() >= MOST {
            generations.old = mem::take(&mut generations.young);
        }
        generations.young.insert(digest, kept);
    }
}
