//! Stores in memory, for one process. Every store is bounded and returns an error when it is full.

mod bus;
mod events;
mod nonces;
mod rates;
mod records;

use std::time::Duration;

use wharf_model::{Error, Sharing, Stores};

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
/// assert_eq!(stores.sharing, Sharing::Process);
///
/// let record = Record::new("r1").body(b"hello".to_vec());
/// assert!(stores.tasks.insert(record, 10).await?);
/// assert!(stores.sessions.load("r1").await?.is_none(), "tasks and sessions are separate");
/// # Ok(()) }
/// ```
#[must_use]
pub fn memory_stores() -> Stores {
    Stores::new(Sharing::Process)
        .name("memory")
        .tasks(MemoryRecords::default())
        .sessions(MemoryRecords::default())
        .grants(MemoryRecords::default())
        .events(MemoryEvents::default())
        .bus(MemoryBus::default())
        .rates(MemoryRates::default())
        .nonces(MemoryNonces::default())
}

fn full() -> Error {
    Error::overloaded(Duration::from_secs(1))
        .with_message("the store in memory is full: try again later")
}
