//! Results that are still good.

pub(crate) mod server_state;
pub(crate) mod tool_schemas;

use std::{
    collections::HashMap,
    io::{self, Write},
    time::{Duration, Instant},
};

use serde::Serialize;
use wharf_model::{CacheHint, Method, Page, Reply};

/// How large one result may be, and all of them together, in bytes of JSON.
const MOST_EACH: usize = 4 * 1024 * 1024;
const MOST_IN_ALL: usize = 32 * 1024 * 1024;

/// No server knows for longer than this what will not change.
const MOST_TIME: Duration = Duration::from_secs(24 * 60 * 60);

type CacheKey = (Method, String);

/// Results that are still good, by method and parameters.
#[derive(Default)]
pub(crate) struct ResultCache {
    entries: HashMap<CacheKey, CacheEntry>,
    most: usize,
    weight: usize,
    next: u64,
}

struct CacheEntry {
    reply: Reply,
    until: Instant,
    weight: usize,
    /// Rises with each entry: the lowest is the oldest.
    number: u64,
}

impl ResultCache {
    pub(crate) fn new(most: usize) -> Self {
        ResultCache { most, ..ResultCache::default() }
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

    pub(crate) fn keep(&mut self, method: Method, key: String, reply: &Reply, now: Instant) {
        let time = Duration::from_millis(hint(reply).ttl_ms).min(MOST_TIME);
        let (false, Some(until)) = (time.is_zero(), now.checked_add(time)) else { return };
        let Some(weight) = weigh(reply).map(|it| it + key.len()).filter(|it| *it <= MOST_EACH)
        else {
            return;
        };
        let key = (method, key);
        self.remove(&key);
        if self.entries.len() >= self.most {
            self.retain(|_, entry| now < entry.until);
        }
        while self.entries.len() >= self.most || self.weight + weight > MOST_IN_ALL {
            let oldest = self.entries.iter().min_by_key(|(_, entry)| entry.number);
            let Some(oldest) = oldest.map(|(key, _)| key.clone()) else { return };
            self.remove(&oldest);
        }
        self.weight += weight;
        let number = self.next;
        self.next += 1;
        self.entries.insert(key, CacheEntry { reply: reply.clone(), until, weight, number });
    }

    /// Forgets every result of `method`.
    pub(crate) fn forget(&mut self, method: Method) {
        self.retain(|(of, _), _| *of != method);
    }

    fn retain(&mut self, keep: impl Fn(&CacheKey, &CacheEntry) -> bool) {
        self.entries.retain(|key, entry| keep(key, entry));
        self.weight = self.entries.values().map(|entry| entry.weight).sum();
    }

    fn remove(&mut self, key: &CacheKey) {
        if let Some(entry) = self.entries.remove(key) {
            self.weight -= entry.weight;
        }
    }
}

/// How long the server says a result stays good.
fn hint(reply: &Reply) -> CacheHint {
    match reply {
        Reply::Tools(page) => page.cache,
        Reply::Resources(page) => page.cache,
        Reply::Templates(page) => page.cache,
        Reply::Prompts(page) => page.cache,
        Reply::Read(result) => result.cache.unwrap_or_default(),
        _ => CacheHint::default(),
    }
}

/// How many bytes a result is as JSON.
fn weigh(reply: &Reply) -> Option<usize> {
    fn items<T: Serialize>(page: &Page<T>, scale: &mut ByteCounter) -> serde_json::Result<()> {
        page.items().iter().try_for_each(|item| serde_json::to_writer(&mut *scale, &**item))
    }
    let mut scale = ByteCounter(0);
    let weighed = match reply {
        Reply::Tools(page) => items(page, &mut scale),
        Reply::Resources(page) => items(page, &mut scale),
        Reply::Templates(page) => items(page, &mut scale),
        Reply::Prompts(page) => items(page, &mut scale),
        Reply::Read(result) => serde_json::to_writer(&mut scale, result),
        _ => return None,
    };
    weighed.ok().map(|()| scale.0)
}

/// Counts what is written, up to what is too much anyway.
struct ByteCounter(usize);

impl Write for ByteCounter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        if self.0 > MOST_EACH { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(bytes.len()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
