//! In-memory stores that several servers in one process share, with simulated outages.

use std::{
    any::Any,
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Mutex, MutexGuard, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;
use wharf_model::{
    AttachResult, Bus, BusSubscriber, Error, ErrorKind, EventStore, Events, Health, NonceStore,
    Rate, RateDecision, RateStore, Record, RecordStore, Retention, Sharing, Stored, Stores,
};

/// All stores of a cluster.
#[derive(Clone)]
pub struct ClusterStores(Arc<StoreState>);

struct StoreState {
    begun: Instant,
    away: AtomicBool,
    /// True if operations do not end.
    hangs: AtomicBool,
    /// True if bus messages are lost.
    pub deaf: AtomicBool,
    records: Mutex<HashMap<String, Record>>,
    streams: Mutex<HashMap<String, StoredStream>>,
    ears: Mutex<Vec<(String, Weak<dyn BusSubscriber>)>>,
    operations: AtomicUsize,
    /// True if some successful operations are reported as failed.
    fickle: AtomicBool,
    /// True if heartbeats are not stored.
    no_nodes: AtomicBool,
}

#[derive(Default)]
struct StoredStream {
    newest: u64,
    /// Expiry, some time after the last event.
    expires: Option<Instant>,
    events: BTreeMap<u64, Vec<u8>>,
}

impl ClusterStores {
    pub fn new() -> Self {
        ClusterStores(Arc::new(StoreState {
            begun: Instant::now(),
            away: AtomicBool::new(false),
            hangs: AtomicBool::new(false),
            deaf: AtomicBool::new(false),
            records: Mutex::default(),
            streams: Mutex::default(),
            ears: Mutex::default(),
            operations: AtomicUsize::new(0),
            fickle: AtomicBool::new(false),
            no_nodes: AtomicBool::new(false),
        }))
    }

    pub fn stores(&self) -> Stores {
        let all = Arc::new(self.clone());
        Stores::new(Sharing::Cluster)
            .tasks(all.clone())
            .sessions(all.clone())
            .grants(all.clone())
            .events(all.clone())
            .bus(all.clone())
            .rates(all.clone())
            .nonces(all.clone())
            .health(all)
    }

    /// Starts or ends an outage of the stores.
    pub fn away(&self, away: bool) {
        self.0.away.store(away, Ordering::SeqCst);
        if !away {
            self.missed();
        }
    }

    /// Starts or stops accepting operations without ending them.
    pub fn hang(&self, hangs: bool) {
        self.0.hangs.store(hangs, Ordering::SeqCst);
    }

    /// Starts or stops losing bus messages.
    pub fn deaf(&self, deaf: bool) {
        self.0.deaf.store(deaf, Ordering::SeqCst);
    }

    /// Notifies all subscribers that they may have missed messages.
    pub fn missed(&self) {
        let ears = self.0.ears.lock().unwrap().clone();
        ears.iter().filter_map(|(_, ear)| ear.upgrade()).for_each(|ear| ear.missed());
    }

    /// Reports some successful operations as failed from now on.
    pub fn fickle(&self) {
        self.0.fickle.store(true, Ordering::SeqCst);
    }

    /// Stops or resumes storing heartbeats.
    pub fn forget_nodes(&self, forget: bool) {
        self.0.no_nodes.store(forget, Ordering::SeqCst);
    }

    /// Number of store operations.
    pub fn operations(&self) -> usize {
        self.0.operations.load(Ordering::SeqCst)
    }

    /// Number of stored sessions, without process records.
    pub fn sessions(&self) -> usize {
        let records = self.0.records.lock().unwrap();
        records.values().filter(|it| !it.id.starts_with("node.")).count()
    }

    /// Number of stored streams, without mailboxes.
    pub fn streams(&self) -> usize {
        let streams = self.live();
        streams.keys().filter(|it| !it.starts_with("node.")).count()
    }

    /// Number of stored mailboxes.
    pub fn mailboxes(&self) -> usize {
        self.live().keys().filter(|it| it.starts_with("node.")).count()
    }

    /// All stored sessions and streams, as text.
    pub fn text(&self) -> String {
        let records = self.0.records.lock().unwrap();
        let streams = self.0.streams.lock().unwrap();
        format!("{:?} {:?}", records.values(), streams.keys())
    }

    /// Streams that have not expired.
    fn live(&self) -> MutexGuard<'_, HashMap<String, StoredStream>> {
        let mut streams = self.0.streams.lock().unwrap();
        streams.retain(|_, stream| stream.expires.is_none_or(|expires| expires > Instant::now()));
        streams
    }

    fn time(&self) -> u64 {
        1_000_000 + self.0.begun.elapsed().as_millis() as u64
    }

    fn reply<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> Stored<T> {
        let ports = self.clone();
        Box::pin(async move {
            ports.0.operations.fetch_add(1, Ordering::SeqCst);
            // Yields to other tasks, as a store on a network does.
            tokio::task::yield_now().await;
            if ports.0.hangs.load(Ordering::SeqCst) {
                std::future::pending::<()>().await;
            }
            if ports.0.away.load(Ordering::SeqCst) {
                return Err(Error::new(ErrorKind::TemporarilyUnavailable));
            }
            let done = work(&ports);
            tokio::task::yield_now().await;
            let number = ports.0.operations.load(Ordering::SeqCst);
            if ports.0.fickle.load(Ordering::SeqCst) && number.is_multiple_of(11) {
                return Err(Error::new(ErrorKind::TemporarilyUnavailable));
            }
            Ok(done)
        })
    }

    fn records<T>(&self, work: impl FnOnce(&mut HashMap<String, Record>) -> T) -> T {
        let now = self.time();
        let mut records = self.0.records.lock().unwrap();
        // Expired records exist until they are swept, but are not visible.
        let lapsed: Vec<_> = records.extract_if(|_, record| is_over(record, now)).collect();
        if self.0.no_nodes.load(Ordering::SeqCst) {
            records.retain(|id, _| !id.starts_with("node."));
        }
        let done = work(&mut records);
        for (id, record) in lapsed {
            records.entry(id).or_insert(record);
        }
        done
    }
}

fn is_over(record: &Record, now: u64) -> bool {
    record.expires.is_some_and(|expires| expires <= now)
}

impl RecordStore for ClusterStores {
    fn now(&self) -> Stored<u64> {
        self.reply(ClusterStores::time)
    }

    fn insert(&self, mut record: Record, most: usize) -> Stored<bool> {
        self.reply(move |ports| {
            ports.records(|records| {
                let owned = records.values().filter(|it| it.owner == record.owner).count();
                if owned >= most || records.contains_key(&record.id) {
                    return false;
                }
                record.version = 1;
                records.insert(record.id.clone(), record);
                true
            })
        })
    }

    fn load(&self, id: &str) -> Stored<Option<Record>> {
        let id = id.to_owned();
        self.reply(move |ports| ports.records(|records| records.get(&id).cloned()))
    }

    fn swap(&self, mut record: Record) -> Stored<bool> {
        self.reply(move |ports| {
            ports.records(|records| match records.get_mut(&record.id) {
                Some(old) if old.version == record.version => {
                    record.version += 1;
                    *old = record;
                    true
                }
                _ => false,
            })
        })
    }

    fn remove(&self, id: &str) -> Stored<bool> {
        let id = id.to_owned();
        self.reply(move |ports| ports.records(|records| records.remove(&id).is_some()))
    }

    /// Returns one page; the tests do not need another.
    fn list(&self, owner: &str, _: Option<&str>, limit: usize) -> Stored<Vec<Record>> {
        let owner = owner.to_owned();
        self.reply(move |ports| {
            ports.records(|records| {
                let own = records.values().filter(|it| it.owner == owner);
                own.take(limit).cloned().collect()
            })
        })
    }

    fn due(&self, limit: usize) -> Stored<Vec<String>> {
        self.reply(move |ports| {
            let now = ports.time();
            ports.records(|records| {
                let due = records.values().filter(|it| it.due.is_some_and(|due| due <= now));
                due.map(|it| it.id.clone()).take(limit).collect()
            })
        })
    }

    fn attach(&self, _: &str, _: u64, _: &str, _: Vec<u8>) -> Stored<AttachResult> {
        self.reply(|_| AttachResult::Lost)
    }

    fn attachments(&self, _: &str) -> Stored<BTreeMap<String, Vec<u8>>> {
        self.reply(|_| BTreeMap::new())
    }

    fn sweep(&self, limit: usize) -> Stored<usize> {
        self.reply(move |ports| {
            let now = ports.time();
            let mut records = ports.0.records.lock().unwrap();
            records.extract_if(|_, record| is_over(record, now)).take(limit).count()
        })
    }
}

impl EventStore for ClusterStores {
    fn append(&self, stream: &str, event: Vec<u8>, keep: Retention) -> Stored<u64> {
        let stream = stream.to_owned();
        self.reply(move |ports| {
            let mut streams = ports.live();
            let stream = streams.entry(stream).or_default();
            stream.expires = Instant::now().checked_add(keep.ttl);
            stream.newest += 1;
            stream.events.insert(stream.newest, event);
            let bytes = |it: &StoredStream| it.events.values().map(Vec::len).sum::<usize>();
            while stream.events.len() > keep.events || bytes(stream) > keep.bytes {
                stream.events.pop_first();
            }
            stream.newest
        })
    }

    fn read(&self, stream: &str, after: u64, limit: usize) -> Stored<Events> {
        let stream = stream.to_owned();
        self.reply(move |ports| {
            let streams = ports.live();
            let Some(stream) = streams.get(&stream) else { return Events::default() };
            let events = stream.events.range(after + 1..).take(limit);
            let events = events.map(|(number, event)| (*number, event.clone())).collect();
            Events::new(stream.newest, events)
        })
    }

    fn remove(&self, stream: &str) -> Stored<()> {
        let stream = stream.to_owned();
        self.reply(move |ports| {
            ports.0.streams.lock().unwrap().remove(&stream);
        })
    }
}

impl Bus for ClusterStores {
    fn publish(&self, topic: &str, message: Vec<u8>) -> Stored<()> {
        let topic = topic.to_owned();
        self.reply(move |ports| {
            if ports.0.deaf.load(Ordering::SeqCst) {
                return;
            }
            let ears = ports.0.ears.lock().unwrap().clone();
            for (_, ear) in ears.iter().filter(|(heard, _)| *heard == topic) {
                if let Some(ear) = ear.upgrade() {
                    ear.receive(&topic, &message);
                }
            }
        })
    }

    fn subscribe(&self, topic: &str, ear: Arc<dyn BusSubscriber>) -> Box<dyn Any + Send + Sync> {
        self.0.ears.lock().unwrap().push((topic.to_owned(), Arc::downgrade(&ear)));
        Box::new(ear)
    }
}

impl RateStore for ClusterStores {
    fn take(&self, _: &str, _: Rate) -> RateDecision {
        RateDecision::Now(Ok(()))
    }
}

impl Health for ClusterStores {
    fn is_ready(&self) -> bool {
        !self.0.away.load(Ordering::SeqCst)
    }
}

impl NonceStore for ClusterStores {
    fn claim(&self, _: &str, _: Duration) -> Stored<bool> {
        self.reply(|_| true)
    }
}
