//! Event streams in memory.

use std::{
    collections::{BTreeSet, VecDeque},
    fmt,
    future::ready,
};

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use wharf_model::{Error, EventStore, Events, Lock, Retention, Stored};

use super::full;
use crate::clock::{self, ClockFn, millis};

/// Event streams in memory, for the lifetime of the process. At its limits it rejects new events
/// instead of dropping old ones.
pub struct MemoryEvents {
    most: usize,
    most_bytes: usize,
    clock: ClockFn,
    table: Lock<StreamTable>,
}

#[derive(Default)]
struct StreamTable {
    streams: HashMap<String, MemoryStream, RandomState>,
    expiring: BTreeSet<(u64, String)>,
    bytes: usize,
}

#[derive(Default)]
struct MemoryStream {
    newest: u64,
    events: VecDeque<Vec<u8>>,
    bytes: usize,
    expires: u64,
}

impl Default for MemoryEvents {
    fn default() -> Self {
        MemoryEvents::new(100_000, 256 * 1024 * 1024)
    }
}

impl MemoryEvents {
    /// Creates a store of at most `most` streams and `most_bytes` bytes in total.
    #[must_use]
    pub fn new(most: usize, most_bytes: usize) -> Self {
        MemoryEvents { most, most_bytes, clock: clock::process_clock(), table: Lock::default() }
    }

    /// Creates a store that uses this clock, in milliseconds since 1970, for simulations.
    #[must_use]
    pub fn with_clock(clock: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        MemoryEvents { clock: Box::new(clock), ..MemoryEvents::default() }
    }

    fn append_at(
        &self,
        now: u64,
        name: &str,
        event: Vec<u8>,
        keep: Retention,
    ) -> Result<u64, Error> {
        let mut guard = self.table.lock();
        let table = &mut *guard;
        table.sweep(now);
        let is_new = !table.streams.contains_key(name);
        if table.bytes + event.len() > self.most_bytes
            || (is_new && table.streams.len() >= self.most)
        {
            return Err(full());
        }
        let stream = table.streams.entry_ref(name).or_default();
        table.bytes -= stream.bytes;
        table.expiring.remove(&(stream.expires, name.to_owned()));
        stream.append(event, keep);
        stream.expires = now.saturating_add(millis(keep.ttl));
        table.bytes += stream.bytes;
        table.expiring.insert((stream.expires, name.to_owned()));
        Ok(stream.newest)
    }
}

impl StreamTable {
    fn remove(&mut self, name: &str) {
        let Some(stream) = self.streams.remove(name) else { return };
        self.expiring.remove(&(stream.expires, name.to_owned()));
        self.bytes -= stream.bytes;
    }

    fn sweep(&mut self, now: u64) {
        while let Some((expires, name)) = self.expiring.first().cloned()
            && expires <= now
        {
            self.remove(&name);
        }
    }
}

impl MemoryStream {
    fn append(&mut self, event: Vec<u8>, keep: Retention) {
        self.newest += 1;
        self.bytes += event.len();
        self.events.push_back(event);
        while self.events.len() > 1
            && (self.events.len() > keep.events || self.bytes > keep.bytes)
            && let Some(oldest) = self.events.pop_front()
        {
            self.bytes -= oldest.len();
        }
    }

    fn read(&self, after: u64, limit: usize) -> Events {
        let first = self.newest + 1 - self.events.len() as u64;
        let skipped =
            usize::try_from(after.saturating_add(1).saturating_sub(first)).unwrap_or(usize::MAX);
        let numbered = (first..).zip(&self.events).skip(skipped).take(limit);
        let events = numbered.map(|(number, event)| (number, event.clone())).collect();
        Events::new(self.newest, events)
    }
}

impl EventStore for MemoryEvents {
    fn append(&self, stream: &str, event: Vec<u8>, keep: Retention) -> Stored<u64> {
        Box::pin(ready(self.append_at((self.clock)(), stream, event, keep)))
    }

    fn read(&self, stream: &str, after: u64, limit: usize) -> Stored<Events> {
        let mut table = self.table.lock();
        table.sweep((self.clock)());
        let read = table.streams.get(stream).map(|stream| stream.read(after, limit));
        Box::pin(ready(Ok(read.unwrap_or_default())))
    }

    fn remove(&self, stream: &str) -> Stored<()> {
        self.table.lock().remove(stream);
        Box::pin(ready(Ok(())))
    }
}

impl fmt::Debug for MemoryEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut it = f.debug_struct("MemoryEvents");
        it.field("most", &self.most).field("most_bytes", &self.most_bytes).finish_non_exhaustive()
    }
}
