//! The contract detects faulty stores: each of these stores has one fault.

use std::{
    any::Any,
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::task::yield_now;
use wharf_model::{
    AttachResult, Bus, BusSubscriber, EventStore, Events, NonceStore, Rate, RateDecision,
    RateStore, Record, RecordStore, Retention, Stored,
};
use wharf_store::{MemoryBus, MemoryEvents, MemoryRecords, contract};

macro_rules! faults {
    ($($fault:ident)*) => {
        #[derive(Clone, Copy, Debug, PartialEq)]
        enum StoreFault {
            NoFault,
            $($fault,)*
        }

        use StoreFault::*;

        const FAULTS: &[StoreFault] = &[$($fault),*];
    };
}

faults! {
    KeepsTheVersionSent
    CountsBeforeItInserts
    InsertsAnIdTwice
    SwapsAnyVersion
    RemovesMissingRecords
    ListsInReverse
    ListsWithoutLimit
    ListsFromTheStartAfterAMissingId
    NewestDueFirst
    IgnoresTheFence
    KeepsTheLastValue
    LosesKeptValues
    SweepsWithoutLimit
    GoesBackInTime
    NeverExpires
}

struct FaultyStore {
    inner: Arc<MemoryRecords>,
    fault: StoreFault,
    backwards: AtomicU64,
}

impl FaultyStore {
    fn with(fault: StoreFault) -> Arc<dyn RecordStore> {
        Arc::new(FaultyStore { inner: Arc::default(), fault, backwards: AtomicU64::new(1 << 41) })
    }
}

impl RecordStore for FaultyStore {
    fn now(&self) -> Stored<u64> {
        if self.fault != GoesBackInTime {
            return self.inner.now();
        }
        let earlier = self.backwards.fetch_sub(1, Ordering::Relaxed);
        Box::pin(async move { Ok(earlier) })
    }

    fn insert(&self, mut record: Record, most: usize) -> Stored<bool> {
        let (inner, fault) = (self.inner.clone(), self.fault);
        Box::pin(async move {
            match fault {
                KeepsTheVersionSent => {
                    let inserted = inner.insert(record.clone(), most).await?;
                    for _ in 1..record.version {
                        let seen = inner.load(&record.id).await?.unwrap();
                        inner.swap(seen).await?;
                    }
                    Ok(inserted)
                }
                CountsBeforeItInserts => {
                    let owned = inner.list(&record.owner, None, most).await?.len();
                    yield_now().await;
                    Ok(owned < most && inner.insert(record, usize::MAX).await?)
                }
                InsertsAnIdTwice => {
                    inner.remove(&record.id).await?;
                    inner.insert(record, most).await
                }
                NeverExpires => {
                    record.expires = None;
                    inner.insert(record, most).await
                }
                _ => inner.insert(record, most).await,
            }
        })
    }

    fn load(&self, id: &str) -> Stored<Option<Record>> {
        self.inner.load(id)
    }

    fn swap(&self, record: Record) -> Stored<bool> {
        let (inner, fault) = (self.inner.clone(), self.fault);
        Box::pin(async move {
            match (fault, inner.load(&record.id).await?) {
                (SwapsAnyVersion, Some(seen)) => inner.swap(record.version(seen.version)).await,
                _ => inner.swap(record).await,
            }
        })
    }

    fn remove(&self, id: &str) -> Stored<bool> {
        let (removed, fault) = (self.inner.remove(id), self.fault);
        Box::pin(async move { Ok(removed.await? || fault == RemovesMissingRecords) })
    }

    fn list(&self, owner: &str, after: Option<&str>, limit: usize) -> Stored<Vec<Record>> {
        let (inner, fault) = (self.inner.clone(), self.fault);
        let (owner, after) = (owner.to_owned(), after.map(str::to_owned));
        Box::pin(async move {
            let limit = if fault == ListsWithoutLimit { usize::MAX } else { limit };
            let known = match &after {
                Some(id) => inner.load(id).await?.is_some(),
                None => true,
            };
            let after = after.filter(|_| known || fault != ListsFromTheStartAfterAMissingId);
            let mut listed = inner.list(&owner, after.as_deref(), limit).await?;
            if fault == ListsInReverse {
                listed.reverse();
            }
            Ok(listed)
        })
    }

    fn due(&self, limit: usize) -> Stored<Vec<String>> {
        let (due, fault) = (self.inner.due(limit), self.fault);
        Box::pin(async move {
            let mut due = due.await?;
            if fault == NewestDueFirst {
                due.reverse();
            }
            Ok(due)
        })
    }

    fn attach(&self, id: &str, fence: u64, name: &str, value: Vec<u8>) -> Stored<AttachResult> {
        let (inner, fault) = (self.inner.clone(), self.fault);
        let (id, name) = (id.to_owned(), name.to_owned());
        Box::pin(async move {
            let holder = inner.load(&id).await?.map_or(fence, |seen| seen.fence);
            let fence = if fault == IgnoresTheFence { holder } else { fence };
            match inner.attach(&id, fence, &name, value.clone()).await? {
                AttachResult::Exists(_) if fault == KeepsTheLastValue => {
                    Ok(AttachResult::Exists(value))
                }
                kept => Ok(kept),
            }
        })
    }

    fn attachments(&self, id: &str) -> Stored<BTreeMap<String, Vec<u8>>> {
        match self.fault {
            LosesKeptValues => Box::pin(async { Ok(BTreeMap::new()) }),
            _ => self.inner.attachments(id),
        }
    }

    fn sweep(&self, limit: usize) -> Stored<usize> {
        self.inner.sweep(if self.fault == SweepsWithoutLimit { usize::MAX } else { limit })
    }
}

/// Returns whether it panics.
async fn is_caught(run: impl Future<Output = ()> + Send + 'static) -> bool {
    tokio::spawn(run).await.is_err()
}

#[tokio::test(start_paused = true)]
async fn records_with_a_fault_are_caught() {
    contract::records(|| async { FaultyStore::with(NoFault) }).await;
    for fault in FAULTS {
        let run = contract::records(|| async { FaultyStore::with(*fault) });
        assert!(is_caught(run).await, "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn events_with_a_fault_are_caught() {
    struct FaultyStore(MemoryEvents, fn(Retention) -> Retention, fn(u64) -> u64);
    impl EventStore for FaultyStore {
        fn append(&self, stream: &str, event: Vec<u8>, keep: Retention) -> Stored<u64> {
            let (number, change) = (self.0.append(stream, event, (self.1)(keep)), self.2);
            Box::pin(async move { number.await.map(change) })
        }
        fn read(&self, stream: &str, after: u64, limit: usize) -> Stored<Events> {
            self.0.read(stream, after, limit)
        }
        fn remove(&self, stream: &str) -> Stored<()> {
            self.0.remove(stream)
        }
    }
    type Row = (&'static str, fn(Retention) -> Retention, fn(u64) -> u64);
    let faults: [Row; 5] = [
        ("no fault", |keep| keep, |number| number),
        ("keeps too many", |keep| keep.events(usize::MAX), |number| number),
        ("keeps too much", |keep| keep.bytes(usize::MAX), |number| number),
        ("keeps too long", |keep| keep.ttl(Duration::from_secs(1 << 30)), |it| it),
        ("numbers from two", |keep| keep, |number| number + 1),
    ];
    for (name, keep, number) in faults {
        let make = move || async move {
            let faulty: Arc<dyn EventStore> =
                Arc::new(FaultyStore(MemoryEvents::default(), keep, number));
            faulty
        };
        assert_eq!(is_caught(contract::events(make)).await, name != "no fault", "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn buses_with_a_fault_are_caught() {
    struct FaultyStore(MemoryBus, fn(&MemoryBus, &str, Vec<u8>) -> Stored<()>);
    impl Bus for FaultyStore {
        fn publish(&self, topic: &str, message: Vec<u8>) -> Stored<()> {
            (self.1)(&self.0, topic, message)
        }
        fn subscribe(
            &self,
            topic: &str,
            subscriber: Arc<dyn BusSubscriber>,
        ) -> Box<dyn Any + Send + Sync> {
            self.0.subscribe(topic, subscriber)
        }
    }
    let twice: fn(&MemoryBus, &str, Vec<u8>) -> Stored<()> = |bus, topic, message| {
        drop(bus.publish(topic, message.clone()));
        bus.publish(topic, message)
    };
    let one_topic: fn(&MemoryBus, &str, Vec<u8>) -> Stored<()> =
        |bus, topic, message| bus.publish(if topic == "lef" { "left" } else { topic }, message);
    for publish in [twice, one_topic] {
        let make = move || async move {
            let faulty: Arc<dyn Bus> = Arc::new(FaultyStore(MemoryBus::default(), publish));
            faulty
        };
        assert!(is_caught(contract::bus(make)).await);
    }
}

#[tokio::test(start_paused = true)]
async fn claims_and_rates_with_a_fault_are_caught() {
    struct Always;
    impl NonceStore for Always {
        fn claim(&self, _nonce: &str, _ttl: Duration) -> Stored<bool> {
            Box::pin(async { Ok(true) })
        }
    }
    impl RateStore for Always {
        fn take(&self, _key: &str, _rate: Rate) -> RateDecision {
            RateDecision::Now(Ok(()))
        }
    }
    let always = || async { Arc::new(Always) as Arc<dyn NonceStore> };
    assert!(is_caught(contract::nonces(always)).await);
    let always = || async { Arc::new(Always) as Arc<dyn RateStore> };
    assert!(is_caught(contract::rates(always)).await);
}
