//! Stores in memory, for one process. Every store is bounded and returns an error when it is full.

mod bus;
mod events;
mod nonces;
mod rates;
mod records;

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use wharf_model::{Error, Health, Sharing, Stores};

pub use self::{
    bus::MemoryBus, events::MemoryEvents, nonces::MemoryNonces, rates::MemoryRates,
    records::MemoryRecords,
};

/// Creates empty stores in memory.
///
/// ```
/// use wharf_model::{Sharing, Record};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), wharf_model::Error> {
/// let stores = wharf_store::memory_stores();
/// assert_eq!(stores.reach, Sharing::Process);
///
/// let record = Record { id: "r1".into(), body: b"hello".to_vec(), ..Record::default() };
/// assert!(stores.tasks.insert(record, 10).await?);
/// assert!(stores.sessions.load("r1").await?.is_none(), "tasks and sessions are separate");
/// # Ok(()) }
/// ```
#[must_use]
pub fn memory_stores() -> Stores {
    Stores {
        tasks: Arc::new(MemoryRecords::default()),
        sessions: Arc::new(MemoryRecords::default()),
        grants: Arc::new(MemoryRecords::default()),
        events: Arc::new(MemoryEvents::default()),
        bus: Arc::new(MemoryBus::default()),
        rates: Arc::new(MemoryRates::default()),
        nonces: Arc::new(MemoryNonces::default()),
        health: Arc::new(AlwaysReady),
        reach: Sharing::Process,
    }
}

/// Health of stores that cannot become unavailable.
#[derive(Clone, Copy, Debug)]
struct AlwaysReady;

impl Health for AlwaysReady {
    fn is_ready(&self) -> bool {
        true
    }
}

fn full() -> Error {
    Error::overloaded(Duration::from_secs(1))
        .with_message("the store in memory is full: try again later")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
