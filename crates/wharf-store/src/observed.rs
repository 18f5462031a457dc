//! Stores whose operations and failures are reported to observers.

use std::{
    any::Any,
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;
use wharf_model::{
    AttachResult, Bus, BusSubscriber, Error, EventStore, Events, Lock, NonceStore, ObservedEvent,
    Observers, Record, RecordStore, Retention, Stored, Stores,
};

/// Wraps stores so that each operation is reported to `observers`, and the start and the end of an outage, which is
/// that of the whole storage engine.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), wharf_model::Error> {
/// use wharf_model::{ObservedEvent, Observer, Observers};
///
/// struct PrintOperations;
/// impl Observer for PrintOperations {
///     fn event(&self, event: &ObservedEvent<'_>) {
///         if let ObservedEvent::StoreOperation { operation, elapsed, .. } = event {
///             println!("{operation} took {elapsed:?}");
///         }
///     }
/// }
///
/// let observers = Observers::default().with(PrintOperations);
/// let stores = wharf_store::observed(wharf_store::memory_stores(), observers);
/// stores.tasks.now().await?;
/// # Ok(()) }
/// ```
#[must_use]
pub fn observed(stores: Stores, observers: Observers) -> Stores {
    let outage = StoreOutage::default();
    let report = StoreReport(Arc::new(ReportTarget { name: stores.name, observers, outage }));
    let records = |store, operations| ObservedRecords { store, report: report.clone(), operations };
    stores
        .clone()
        .tasks(records(stores.tasks, &TASK_OPERATIONS))
        .sessions(records(stores.sessions, &SESSION_OPERATIONS))
        .grants(records(stores.grants, &GRANT_OPERATIONS))
        .events(ObservedEvents { store: stores.events, report: report.clone() })
        .bus(ObservedBus { bus: stores.bus, report: report.clone() })
        .nonces(ObservedNonces { store: stores.nonces, report })
}

/// Where the operations of all stores of one engine are reported.
#[derive(Clone)]
struct StoreReport(Arc<ReportTarget>);

struct ReportTarget {
    name: &'static str,
    observers: Observers,
    outage: StoreOutage,
}

/// Outages that follow one another within this time are one, so that a store that fails now and then does not fill the
/// log, and the last line about it is true.
const HOLD_DOWN: Duration = Duration::from_secs(10);

/// Outage of an engine.
#[derive(Default)]
struct StoreOutage {
    failing: AtomicBool,
    times: Lock<OutageTimes>,
}

/// Times of the failures of an engine.
#[derive(Default)]
struct OutageTimes {
    /// Time of the first failure, and whether the store needed room for that operation.
    began: Option<(Instant, bool)>,
    last_failure: Option<Instant>,
    recovered: Option<Instant>,
}

impl OutageTimes {
    /// Ends the outage; returns its duration. After a recent recovery, the store must work for some time first.
    fn end(&mut self, grows: bool) -> Option<Duration> {
        let is_recent = |time: Option<Instant>| time.is_some_and(|it| it.elapsed() < HOLD_DOWN);
        if is_recent(self.recovered) && is_recent(self.last_failure) {
            return None;
        }
        // A full store still reads.
        let (since, _) = self.began.take_if(|(_, failed_to_grow)| grows || !*failed_to_grow)?;
        self.recovered = Some(Instant::now());
        Some(since.elapsed())
    }
}

impl StoreReport {
    fn read<T: Send + 'static>(&self, operation: &'static str, stored: Stored<T>) -> Stored<T> {
        self.run(operation, false, stored)
    }

    fn write<T: Send + 'static>(&self, operation: &'static str, stored: Stored<T>) -> Stored<T> {
        self.run(operation, true, stored)
    }

    /// Runs an operation. `grows` is true if the store needs room for it.
    fn run<T: Send + 'static>(
        &self,
        operation: &'static str,
        grows: bool,
        stored: Stored<T>,
    ) -> Stored<T> {
        let target = self.0.clone();
        Box::pin(async move {
            let began = Instant::now();
            let result = stored.await;
            target.ended(operation, grows, result.as_ref().err(), began.elapsed());
            result
        })
    }
}

impl ReportTarget {
    fn ended(
        &self,
        operation: &'static str,
        grows: bool,
        error: Option<&Error>,
        elapsed: Duration,
    ) {
        self.observers.emit(|| ObservedEvent::StoreOperation { operation, error, elapsed });
        match error {
            None if self.outage.failing.load(Ordering::Relaxed) => self.recovered(grows),
            Some(error) if error.kind.is_retryable() => self.failed(grows, error),
            _ => {}
        }
    }

    #[cold]
    fn failed(&self, grows: bool, error: &Error) {
        let now = Instant::now();
        let mut times = self.outage.times.lock();
        times.last_failure = Some(now);
        if times.began.is_none() {
            times.began = Some((now, grows));
            self.outage.failing.store(true, Ordering::Relaxed);
            // Within the lock, so that the order of the events is that of the changes.
            self.observers.emit(|| ObservedEvent::StoreFailed { store: self.name, error });
        }
    }

    #[cold]
    fn recovered(&self, grows: bool) {
        let mut times = self.outage.times.lock();
        if let Some(outage) = times.end(grows) {
            self.outage.failing.store(false, Ordering::Relaxed);
            self.observers.emit(|| ObservedEvent::StoreRecovered { store: self.name, outage });
        }
    }
}

/// Names of the operations of a [`RecordStore`].
struct RecordOperations {
    now: &'static str,
    insert: &'static str,
    load: &'static str,
    swap: &'static str,
    remove: &'static str,
    list: &'static str,
    due: &'static str,
    attach: &'static str,
    attachments: &'static str,
    sweep: &'static str,
}

macro_rules! operations {
    ($($TABLE:ident $kind:literal;)*) => {$(
        static $TABLE: RecordOperations = RecordOperations {
            now: concat!($kind, ".now"),
            insert: concat!($kind, ".insert"),
            load: concat!($kind, ".load"),
            swap: concat!($kind, ".swap"),
            remove: concat!($kind, ".remove"),
            list: concat!($kind, ".list"),
            due: concat!($kind, ".due"),
            attach: concat!($kind, ".attach"),
            attachments: concat!($kind, ".attachments"),
            sweep: concat!($kind, ".sweep"),
        };
    )*};
}

operations! {
    TASK_OPERATIONS "tasks";
    SESSION_OPERATIONS "sessions";
    GRANT_OPERATIONS "grants";
}

struct ObservedRecords {
    store: Arc<dyn RecordStore>,
    report: StoreReport,
    operations: &'static RecordOperations,
}

impl RecordStore for ObservedRecords {
    fn now(&self) -> Stored<u64> {
        self.report.read(self.operations.now, self.store.now())
    }

    fn insert(&self, record: Record, most: usize) -> Stored<bool> {
        self.report.write(self.operations.insert, self.store.insert(record, most))
    }

    fn load(&self, id: &str) -> Stored<Option<Record>> {
        self.report.read(self.operations.load, self.store.load(id))
    }

    fn swap(&self, record: Record) -> Stored<bool> {
        self.report.write(self.operations.swap, self.store.swap(record))
    }

    fn remove(&self, id: &str) -> Stored<bool> {
        self.report.read(self.operations.remove, self.store.remove(id))
    }

    fn list(&self, owner: &str, after: Option<&str>, limit: usize) -> Stored<Vec<Record>> {
        self.report.read(self.operations.list, self.store.list(owner, after, limit))
    }

    fn due(&self, limit: usize) -> Stored<Vec<String>> {
        self.report.read(self.operations.due, self.store.due(limit))
    }

    fn attach(&self, id: &str, fence: u64, name: &str, value: Vec<u8>) -> Stored<AttachResult> {
        self.report.write(self.operations.attach, self.store.attach(id, fence, name, value))
    }

    fn attachments(&self, id: &str) -> Stored<BTreeMap<String, Vec<u8>>> {
        self.report.read(self.operations.attachments, self.store.attachments(id))
    }

    fn sweep(&self, limit: usize) -> Stored<usize> {
        self.report.read(self.operations.sweep, self.store.sweep(limit))
    }
}

struct ObservedEvents {
    store: Arc<dyn EventStore>,
    report: StoreReport,
}

impl EventStore for ObservedEvents {
    fn append(&self, stream: &str, event: Vec<u8>, keep: Retention) -> Stored<u64> {
        self.report.write("events.append", self.store.append(stream, event, keep))
    }

    fn read(&self, stream: &str, after: u64, limit: usize) -> Stored<Events> {
        self.report.read("events.read", self.store.read(stream, after, limit))
    }

    fn remove(&self, stream: &str) -> Stored<()> {
        self.report.read("events.remove", self.store.remove(stream))
    }
}

struct ObservedBus {
    bus: Arc<dyn Bus>,
    report: StoreReport,
}

impl Bus for ObservedBus {
    fn publish(&self, topic: &str, message: Vec<u8>) -> Stored<()> {
        self.report.read("bus.publish", self.bus.publish(topic, message))
    }

    fn subscribe(&self, topic: &str, ear: Arc<dyn BusSubscriber>) -> Box<dyn Any + Send + Sync> {
        self.bus.subscribe(topic, ear)
    }
}

struct ObservedNonces {
    store: Arc<dyn NonceStore>,
    report: StoreReport,
}

impl NonceStore for ObservedNonces {
    fn claim(&self, nonce: &str, ttl: Duration) -> Stored<bool> {
        self.report.write("nonces.claim", self.store.claim(nonce, ttl))
    }
}

#[cfg(test)]
mod tests {
    use wharf_model::Observer;

    use super::*;
    use crate::{MemoryRecords, memory_stores};

    #[derive(Clone, Default)]
    struct Outages(Arc<Lock<Vec<&'static str>>>);

    impl Observer for Outages {
        fn event(&self, event: &ObservedEvent<'_>) {
            match event {
                ObservedEvent::StoreFailed { .. } => self.0.lock().push("failed"),
                ObservedEvent::StoreRecovered { .. } => self.0.lock().push("recovered"),
                _ => {}
            }
        }
    }

    #[tokio::test]
    async fn a_full_store_recovers_when_it_has_room_and_not_when_it_reads() {
        let outages = Outages::default();
        let full = memory_stores().tasks(MemoryRecords::new(1, 1 << 20));
        let stores = observed(full, Observers::default().with(outages.clone()));
        let insert = |id: &str| stores.tasks.insert(Record::new(id), 10);
        assert!(insert("one").await.unwrap());
        for _ in 0..2 {
            assert!(insert("two").await.is_err());
            assert!(stores.tasks.load("one").await.unwrap().is_some());
        }
        assert_eq!(*outages.0.lock(), ["failed"]);
        assert!(stores.tasks.remove("one").await.unwrap());
        assert!(insert("two").await.unwrap());
        assert_eq!(*outages.0.lock(), ["failed", "recovered"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_that_fails_now_and_then_recovers_when_it_has_worked_for_some_time() {
        let outages = Outages::default();
        let full = memory_stores().tasks(MemoryRecords::new(1, 1 << 20));
        let stores = observed(full, Observers::default().with(outages.clone()));
        let insert = |id: &str| stores.tasks.insert(Record::new(id), 10);
        assert!(insert("one").await.unwrap());
        for _ in 0..5 {
            assert!(insert("two").await.is_err());
            assert!(stores.tasks.remove("one").await.unwrap());
            assert!(insert("one").await.unwrap());
        }
        assert_eq!(*outages.0.lock(), ["failed", "recovered", "failed"]);
        tokio::time::advance(HOLD_DOWN).await;
        assert!(stores.tasks.remove("one").await.unwrap());
        assert!(insert("one").await.unwrap());
        assert_eq!(*outages.0.lock(), ["failed", "recovered", "failed", "recovered"]);
    }
}
