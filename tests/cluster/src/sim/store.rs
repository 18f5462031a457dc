//! Stores on their own host, accessed over the simulated network.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use wharf_model::{
    AttachResult, BoxFuture, Error, ErrorKind, Record, RecordStore, Sharing, Stored, Stores,
};
use wharf_store::{MemoryEvents, MemoryNonces, MemoryRates, MemoryRecords};

use super::{
    bus::{BusHub, RemoteBus},
    rpc::RpcNetwork,
};

/// The host of the stores.
pub const HOST: &str = "store";
const PORT: u16 = 1;
/// Timeout of a node for the store.
pub const REPLY_TIMEOUT: Duration = Duration::from_millis(400);

/// An operation to run at the host of the store.
type StoreJob = Box<dyn FnOnce() -> BoxFuture<()> + Send>;

/// Data of the store's host, on a disk that survives its crashes.
#[derive(Clone)]
pub struct StoreHost {
    records: Arc<MemoryRecords>,
    bus: BusHub,
    jobs: RpcNetwork<StoreJob, ()>,
}

impl Default for StoreHost {
    fn default() -> Self {
        // The store's clock is the simulation's, on every host.
        let clock = || super::BEGIN + super::now();
        let records = Arc::new(MemoryRecords::with_clock(clock));
        StoreHost { records, bus: BusHub::default(), jobs: RpcNetwork::default() }
    }
}

impl StoreHost {
    /// Main function of the store's host.
    pub async fn serve(self) -> turmoil::Result {
        let bus = self.bus.clone();
        tokio::spawn(async move { bus.serve().await.map_err(|it| it.to_string()) });
        self.jobs.serve(PORT, |job: StoreJob| job()).await
    }

    /// The stores as a node accesses them, and the future it must run to receive bus messages.
    #[must_use]
    pub fn reach(&self) -> (Stores, RemoteBus) {
        let store_client = StoreClient(self.jobs.clone());
        let records =
            RemoteRecords { records: self.records.clone(), store_client: store_client.clone() };
        let bus = RemoteBus::new(self.bus.clone(), store_client);
        let stores = Stores::new(Sharing::Cluster)
            .tasks(records)
            .sessions(MemoryRecords::default())
            .grants(MemoryRecords::default())
            .events(MemoryEvents::default())
            .bus(bus.clone())
            .rates(MemoryRates::default())
            .nonces(MemoryNonces::default());
        (stores, bus)
    }
}

/// Connection to the store.
#[derive(Clone)]
pub struct StoreClient(RpcNetwork<StoreJob, ()>);

impl StoreClient {
    /// Runs an operation at the host of the store.
    pub fn there<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Stored<T> + Send + 'static,
    ) -> Stored<T> {
        let network = self.0.clone();
        Box::pin(async move {
            let place = Arc::new(Mutex::new(None));
            let result = place.clone();
            let job: StoreJob = Box::new(move || {
                Box::pin(async move {
                    let done = work().await;
                    *result.lock().unwrap_or_else(PoisonError::into_inner) = Some(done);
                })
            });
            let answered = network.ask((HOST, PORT), job, REPLY_TIMEOUT).await;
            let done = place.lock().unwrap_or_else(PoisonError::into_inner).take();
            match (answered, done) {
                (Ok(()), Some(done)) => done,
                _ => Err(Error::new(ErrorKind::TemporarilyUnavailable)
                    .with_message("The store cannot be reached")),
            }
        })
    }
}

struct RemoteRecords {
    records: Arc<MemoryRecords>,
    store_client: StoreClient,
}

impl RemoteRecords {
    fn there<T: Send + 'static>(
        &self,
        work: impl FnOnce(&MemoryRecords) -> Stored<T> + Send + 'static,
    ) -> Stored<T> {
        let records = self.records.clone();
        self.store_client.there(move || work(&records))
    }
}

impl RecordStore for RemoteRecords {
    fn now(&self) -> Stored<u64> {
        self.there(RecordStore::now)
    }

    fn insert(&self, record: Record, most: usize) -> Stored<bool> {
        self.there(move |store| store.insert(record, most))
    }

    fn load(&self, id: &str) -> Stored<Option<Record>> {
        let id = id.to_owned();
        self.there(move |store| store.load(&id))
    }

    fn swap(&self, record: Record) -> Stored<bool> {
        self.there(move |store| store.swap(record))
    }

    fn remove(&self, id: &str) -> Stored<bool> {
        let id = id.to_owned();
        self.there(move |store| store.remove(&id))
    }

    fn list(&self, owner: &str, after: Option<&str>, limit: usize) -> Stored<Vec<Record>> {
        let (owner, after) = (owner.to_owned(), after.map(str::to_owned));
        self.there(move |store| store.list(&owner, after.as_deref(), limit))
    }

    fn due(&self, limit: usize) -> Stored<Vec<String>> {
        self.there(move |store| store.due(limit))
    }

    fn attach(&self, id: &str, fence: u64, name: &str, value: Vec<u8>) -> Stored<AttachResult> {
        let (id, name) = (id.to_owned(), name.to_owned());
        self.there(move |store| store.attach(&id, fence, &name, value))
    }

    fn attachments(&self, id: &str) -> Stored<BTreeMap<String, Vec<u8>>> {
        let id = id.to_owned();
        self.there(move |store| store.attachments(&id))
    }

    fn sweep(&self, limit: usize) -> Stored<usize> {
        self.there(move |store| store.sweep(limit))
    }
}
