//! Cache of results, within the time to live that the server sent.

use std::{
    collections::HashMap,
    io::{self, Write},
    time::{Duration, Instant},
};

use wharf_model::{Method, Reply};

/// Maximum size of one result, and of all together, in bytes of JSON.
const MAX_ENTRY_BYTES: usize = 4 * 1024 * 1024;
const MAX_CACHE_BYTES: usize = 32 * 1024 * 1024;

/// Upper limit for the time to live that a server sends.
const MAX_TTL: Duration = Duration::from_secs(24 * 60 * 60);

type CacheKey = (Method, String);

/// Cached results, by method and parameters.
#[derive(Default)]
pub(crate) struct ResultCache {
    entries: HashMap<CacheKey, CacheEntry>,
    max_entries: usize,
    bytes: usize,
    next: u64,
}

struct CacheEntry {
    reply: Reply,
    until: Instant,
    bytes: usize,
    /// Increases with each entry: the lowest number is the oldest entry.
    number: u64,
}

impl ResultCache {
    pub(crate) fn new(max_entries: usize) -> Self {
        ResultCache { max_entries, ..ResultCache::default() }
    }

    pub(crate) fn get(&mut self, method: Method, key: &str, now: Instant) -> Option<Reply> {
        let key = (method, key.to_owned());
        let entry = self.entries.get(&key)?;
        if now < entry.until {
            return Some(entry.reply.clone());
        }
        self.remove(&key);
        None
    }

    pub(crate) fn insert(&mut self, method: Method, key: String, reply: &Reply, now: Instant) {
        let hint = reply.cache_hint().unwrap_or_default();
        let time = Duration::from_millis(hint.ttl_ms).min(MAX_TTL);
        let (false, Some(until)) = (time.is_zero(), now.checked_add(time)) else { return };
        let Some(bytes) =
            json_len(reply).map(|it| it + key.len()).filter(|it| *it <= MAX_ENTRY_BYTES)
        else {
            return;
        };
        let key = (method, key);
        self.remove(&key);
        if self.entries.len() >= self.max_entries {
            self.retain(|_, entry| now < entry.until);
        }
        while self.entries.len() >= self.max_entries || self.bytes + bytes > MAX_CACHE_BYTES {
            let oldest = self.entries.iter().min_by_key(|(_, entry)| entry.number);
            let Some(oldest) = oldest.map(|(key, _)| key.clone()) else { return };
            self.remove(&oldest);
        }
        self.bytes += bytes;
        let number = self.next;
        self.next += 1;
        self.entries.insert(key, CacheEntry { reply: reply.clone(), until, bytes, number });
    }

    /// Invalidates every result of `method`.
    pub(crate) fn invalidate(&mut self, method: Method) {
        self.retain(|(of, _), _| *of != method);
    }

    fn retain(&mut self, should_stay: impl Fn(&CacheKey, &CacheEntry) -> bool) {
        self.entries.retain(|key, entry| should_stay(key, entry));
        self.bytes = self.entries.values().map(|entry| entry.bytes).sum();
    }

    fn remove(&mut self, key: &CacheKey) {
        if let Some(entry) = self.entries.remove(key) {
            self.bytes -= entry.bytes;
        }
    }
}

/// The size of a result as JSON, in bytes.
fn json_len(reply: &Reply) -> Option<usize> {
    let mut counter = ByteCounter(0);
    reply.write_content(&mut counter).ok().map(|()| counter.0)
}

/// Counts the bytes written, and fails once they exceed the maximum size of an entry.
struct ByteCounter(usize);

impl Write for ByteCounter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        if self.0 > MAX_ENTRY_BYTES {
            Err(io::ErrorKind::FileTooLarge.into())
        } else {
            Ok(bytes.len())
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
