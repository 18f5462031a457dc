//! Records in memory.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    future::ready,
};

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use wharf_model::{AttachResult, Error, Lock, Record, RecordStore, Stored};

use super::full;
use crate::clock::{self, ClockFn};

/// Records in memory, for the lifetime of the process. At its limits it rejects new records instead
/// of dropping old ones.
///
/// ```
/// use wharf_model::{Record, RecordStore};
/// use wharf_store::MemoryRecords;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), wharf_model::Error> {
/// let store = MemoryRecords::new(100, 1024 * 1024);
/// store.insert(Record::new("r1"), 10).await?;
/// let seen = store.load("r1").await?.unwrap();
/// assert!(store.swap(seen.clone()).await?);
/// assert!(!store.swap(seen).await?, "its version has changed");
/// # Ok(()) }
/// ```
pub struct MemoryRecords {
    most: usize,
    most_bytes: usize,
    clock: ClockFn,
    table: Lock<RecordTable>,
}

#[derive(Default)]
struct RecordTable {
    rows: HashMap<String, RecordRow, RandomState>,
    owners: HashMap<String, BTreeSet<(u64, String)>, RandomState>,
    due: BTreeSet<(u64, String)>,
    expiring: BTreeSet<(u64, String)>,
    bytes: usize,
}

struct RecordRow {
    record: Record,
    kept: BTreeMap<String, Vec<u8>>,
}

impl Default for MemoryRecords {
    fn default() -> Self {
        MemoryRecords::new(100_000, 256 * 1024 * 1024)
    }
}

impl MemoryRecords {
    /// Creates a store of at most `most` records and `most_bytes` bytes in total.
    #[must_use]
    pub fn new(most: usize, most_bytes: usize) -> Self {
        MemoryRecords { most, most_bytes, clock: clock::process_clock(), table: Lock::default() }
    }

    /// Creates a store that uses this clock, in milliseconds since 1970, for simulations.
    #[must_use]
    pub fn with_clock(clock: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        MemoryRecords { clock: Box::new(clock), ..MemoryRecords::default() }
    }

    /// Runs `work` on the locked table with the current time.
    fn with_table<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut RecordTable, u64) -> Result<T, Error>,
    ) -> Stored<T> {
        let now = (self.clock)();
        Box::pin(ready(work(&mut self.table.lock(), now)))
    }

    fn has_room(&self, table: &mut RecordTable, now: u64, rows: usize, bytes: usize) -> bool {
        let fits = |table: &RecordTable| {
            table.rows.len() + rows <= self.most && table.bytes + bytes <= self.most_bytes
        };
        fits(table) || (table.sweep(now, usize::MAX) > 0 && fits(table))
    }
}

impl RecordTable {
    fn live(&self, id: &str, now: u64) -> Option<&RecordRow> {
        self.rows.get(id).filter(|row| row.record.expires.is_none_or(|expires| expires > now))
    }

    fn put(&mut self, row: RecordRow) {
        let record = &row.record;
        let id = || record.id.clone();
        self.due.extend(record.due.map(|due| (due, id())));
        self.expiring.extend(record.expires.map(|expires| (expires, id())));
        self.owners.entry_ref(&record.owner).or_default().insert((record.created, id()));
        self.bytes += row.size();
        self.rows.insert(id(), row);
    }

    fn take(&mut self, id: &str) -> Option<RecordRow> {
        let row = self.rows.remove(id)?;
        let record = &row.record;
        let at = |time| (time, id.to_owned());
        record.due.map(|due| self.due.remove(&at(due)));
        record.expires.map(|expires| self.expiring.remove(&at(expires)));
        if let Some(owned) = self.owners.get_mut(&record.owner) {
            owned.remove(&at(record.created));
            if owned.is_empty() {
                self.owners.remove(&record.owner);
            }
        }
        self.bytes -= row.size();
        Some(row)
    }

    fn sweep(&mut self, now: u64, limit: usize) -> usize {
        let mut gone = 0;
        while gone < limit
            && let Some((expires, id)) = self.expiring.first().cloned()
            && expires <= now
        {
            self.take(&id);
            gone += 1;
        }
        gone
    }

    fn owned(&self, owner: &str) -> usize {
        self.owners.get(owner).map_or(0, BTreeSet::len)
    }

    fn list(&self, owner: &str, after: Option<&str>, limit: usize, now: u64) -> Vec<Record> {
        let Some(owned) = self.owners.get(owner) else { return Vec::new() };
        let records = |ids: &mut dyn Iterator<Item = &(u64, String)>| {
            let live = ids.filter_map(|(_, id)| self.live(id, now));
            live.map(|row| row.record.clone()).take(limit).collect()
        };
        let Some(after) = after else { return records(&mut owned.iter()) };
        let Some(row) = self.rows.get(after).filter(|row| row.record.owner == owner) else {
            return Vec::new();
        };
        let place = (row.record.created, after.to_owned());
        records(&mut owned.range(place..).skip(1))
    }
}

impl RecordRow {
    fn size(&self) -> usize {
        let kept: usize = self.kept.iter().map(|(name, value)| name.len() + value.len()).sum();
        self.record.body.len() + kept
    }
}

impl RecordStore for MemoryRecords {
    fn now(&self) -> Stored<u64> {
        Box::pin(ready(Ok((self.clock)())))
    }

    fn insert(&self, mut record: Record, most: usize) -> Stored<bool> {
        self.with_table(|table, now| {
            if table.live(&record.id, now).is_some() {
                return Ok(false);
            }
            table.take(&record.id);
            if table.owned(&record.owner) >= most {
                table.sweep(now, usize::MAX);
            }
            if table.owned(&record.owner) >= most {
                return Ok(false);
            }
            if !self.has_room(table, now, 1, record.body.len()) {
                return Err(full());
            }
            record.version = 1;
            table.put(RecordRow { record, kept: BTreeMap::new() });
            Ok(true)
        })
    }

    fn load(&self, id: &str) -> Stored<Option<Record>> {
        self.with_table(|table, now| Ok(table.live(id, now).map(|row| row.record.clone())))
    }

    fn swap(&self, mut record: Record) -> Stored<bool> {
        self.with_table(|table, now| {
            let Some(old) = table.live(&record.id, now) else { return Ok(false) };
            if old.record.version != record.version {
                return Ok(false);
            }
            let growth = record.body.len().saturating_sub(old.record.body.len());
            if growth > 0 && !self.has_room(table, now, 0, growth) {
                return Err(full());
            }
            let Some(old) = table.take(&record.id) else { return Ok(false) };
            record.version += 1;
            table.put(RecordRow { record, kept: old.kept });
            Ok(true)
        })
    }

    fn remove(&self, id: &str) -> Stored<bool> {
        self.with_table(|table, now| {
            let lived = table.live(id, now).is_some();
            table.take(id);
            Ok(lived)
        })
    }

    fn list(&self, owner: &str, after: Option<&str>, limit: usize) -> Stored<Vec<Record>> {
        self.with_table(|table, now| Ok(table.list(owner, after, limit, now)))
    }

    fn due(&self, limit: usize) -> Stored<Vec<String>> {
        self.with_table(|table, now| {
            let due = table.due.iter().take_while(|(due, _)| *due <= now);
            let live = due.filter(|(_, id)| table.live(id, now).is_some());
            Ok(live.map(|(_, id)| id.clone()).take(limit).collect())
        })
    }

    fn attach(&self, id: &str, fence: u64, name: &str, value: Vec<u8>) -> Stored<AttachResult> {
        self.with_table(|table, now| {
            let Some(row) = table.live(id, now).filter(|row| row.record.fence == fence) else {
                return Ok(AttachResult::Lost);
            };
            if let Some(known) = row.kept.get(name) {
                return Ok(AttachResult::Exists(known.clone()));
            }
            let size = name.len() + value.len();
            if !self.has_room(table, now, 0, size) {
                return Err(full());
            }
            let Some(row) = table.rows.get_mut(id) else { return Ok(AttachResult::Lost) };
            row.kept.insert(name.to_owned(), value);
            table.bytes += size;
            Ok(AttachResult::Attached)
        })
    }

    fn attachments(&self, id: &str) -> Stored<BTreeMap<String, Vec<u8>>> {
        self.with_table(|table, now| {
            Ok(table.live(id, now).map(|row| row.kept.clone()).unwrap_or_default())
        })
    }

    fn sweep(&self, limit: usize) -> Stored<usize> {
        self.with_table(|table, now| Ok(table.sweep(now, limit)))
    }
}

impl fmt::Debug for MemoryRecords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut it = f.debug_struct("MemoryRecords");
        it.field("most", &self.most).field("most_bytes", &self.most_bytes).finish_non_exhaustive()
    }
}
