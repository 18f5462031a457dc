//! The ports of tasks in memory: good for one process.

use std::{
    any::Any,
    collections::BTreeMap,
    fmt, mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::SystemTime,
};

use wharf_model::{Bus, Ear, Keeping, Record, RecordStore, Stored, Timestamp};

type Clock = Box<dyn Fn() -> u64 + Send + Sync>;

/// Records in memory.
pub struct MemoryRecords {
    clock: Clock,
    rows: Mutex<BTreeMap<String, Row>>,
}

struct Row {
    record: Record,
    kept: BTreeMap<String, Vec<u8>>,
}

impl Default for MemoryRecords {
    fn default() -> Self {
        MemoryRecords::with_clock(|| Timestamp::from(SystemTime::now()).as_millis())
    }
}

impl MemoryRecords {
    /// Records that are due and expire by this clock, in milliseconds since 1970.
    #[must_use]
    pub fn with_clock(clock: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        MemoryRecords { clock: Box::new(clock), rows: Mutex::default() }
    }

    /// The rows as they are now, without those that have expired.
    fn rows(&self) -> (u64, MutexGuard<'_, BTreeMap<String, Row>>) {
        let now = (self.clock)();
        let mut rows = lock(&self.rows);
        rows.retain(|_, row| row.record.expires.is_none_or(|expires| expires > now));
        (now, rows)
    }
}

impl RecordStore for MemoryRecords {
    fn now(&self) -> Stored<u64> {
        at_once((self.clock)())
    }

    fn insert(&self, mut record: Record, most: usize) -> Stored<bool> {
        let (_, mut rows) = self.rows();
        let owned = rows.values().filter(|row| row.record.owner == record.owner).count();
        if owned >= most || rows.contains_key(&record.id) {
            return at_once(false);
        }
        record.version = 1;
        rows.insert(record.id.clone(), Row { record, kept: BTreeMap::new() });
        at_once(true)
    }

    fn load(&self, id: &str) -> Stored<Option<Record>> {
        at_once(self.rows().1.get(id).map(|row| row.record.clone()))
    }

    fn swap(&self, mut record: Record) -> Stored<bool> {
        let (_, mut rows) = self.rows();
        let row = rows.get_mut(&record.id).filter(|row| row.record.version == record.version);
        let swapped = row.map(|row| {
            record.version += 1;
            row.record = record;
        });
        at_once(swapped.is_some())
    }

    fn remove(&self, id: &str) -> Stored<bool> {
        at_once(self.rows().1.remove(id).is_some())
    }

    fn list(&self, owner: &str, after: Option<&str>, limit: usize) -> Stored<Vec<Record>> {
        let (_, rows) = self.rows();
        let mut owned: Vec<&Record> =
            rows.values().map(|row| &row.record).filter(|it| it.owner == owner).collect();
        owned.sort_by(|a, b| (a.created, &a.id).cmp(&(b.created, &b.id)));
        let start = after.and_then(|id| owned.iter().position(|it| it.id == id));
        let rest = owned.into_iter().skip(start.map_or(0, |index| index + 1));
        at_once(rest.take(limit).cloned().collect())
    }

    fn due(&self, limit: usize) -> Stored<Vec<String>> {
        let (now, rows) = self.rows();
        let mut due: Vec<(u64, String)> = rows
            .values()
            .filter_map(|row| Some((row.record.due.filter(|due| *due <= now)?, &row.record.id)))
            .map(|(due, id)| (due, id.clone()))
            .collect();
        due.sort();
        at_once(due.into_iter().take(limit).map(|(_, id)| id).collect())
    }

    fn keep(&self, id: &str, fence: u64, name: &str, value: Vec<u8>) -> Stored<Keeping> {
        let (_, mut rows) = self.rows();
        let Some(row) = rows.get_mut(id).filter(|row| row.record.fence == fence) else {
            return at_once(Keeping::Lost);
        };
        at_once(match row.kept.get(name) {
            Some(known) => Keeping::Known(known.clone()),
            None => {
                row.kept.insert(name.into(), value);
                Keeping::Kept
            }
        })
    }

    fn kept(&self, id: &str) -> Stored<BTreeMap<String, Vec<u8>>> {
        at_once(self.rows().1.get(id).map(|row| row.kept.clone()).unwrap_or_default())
    }

    fn sweep(&self, _limit: usize) -> Stored<usize> {
        at_once(0)
    }
}

impl fmt::Debug for MemoryRecords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryRecords").finish_non_exhaustive()
    }
}

/// A bus within one process.
#[derive(Default)]
pub struct MemoryBus {
    ears: Arc<Mutex<Ears>>,
}

#[derive(Default)]
struct Ears {
    next: u64,
    all: BTreeMap<u64, (String, Arc<dyn Ear>)>,
}

struct Subscription(u64, Weak<Mutex<Ears>>);

impl Drop for Subscription {
    fn drop(&mut self) {
        let ear = self.1.upgrade().and_then(|ears| lock(&ears).all.remove(&self.0));
        // Whatever the ear holds may come back here.
        mem::drop(ear);
    }
}

impl Bus for MemoryBus {
    fn publish(&self, topic: &str, message: Vec<u8>) -> Stored<()> {
        let heard = lock(&self.ears).all.values().cloned().collect::<Vec<_>>();
        for (_, ear) in heard.into_iter().filter(|(wanted, _)| wanted == topic) {
            ear.hear(topic, &message);
        }
        at_once(())
    }

    fn subscribe(&self, topic: &str, ear: Arc<dyn Ear>) -> Box<dyn Any + Send + Sync> {
        let mut ears = lock(&self.ears);
        let number = ears.next;
        ears.next += 1;
        ears.all.insert(number, (topic.into(), ear));
        Box::new(Subscription(number, Arc::downgrade(&self.ears)))
    }
}

impl fmt::Debug for MemoryBus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryBus").finish_non_exhaustive()
    }
}

fn at_once<T: Send + 'static>(value: T) -> Stored<T> {
    Box::pin(std::future::ready(Ok(value)))
}

fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
