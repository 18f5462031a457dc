//! Stores in one SQLite file, which survive the process.

mod events;
mod group_commit;
mod nonces;
mod open;
mod records;

use std::sync::Arc;

use wharf_model::{Error, Sharing, Stores};

use self::{
    events::SqliteEvents, group_commit::SqliteEngine, nonces::SqliteNonces, records::SqliteRecords,
};
use crate::{
    memory::{MemoryBus, MemoryRates},
    url::StoreUrl,
};

/// Opens the file, or creates it.
pub(crate) async fn open(url: &StoreUrl<'_>) -> Result<Stores, Error> {
    let database = open::DatabaseFile::parse(url)?;
    let opened = tokio::task::spawn_blocking(move || SqliteEngine::start(&database));
    let engine = Arc::new(opened.await.map_err(Error::internal)??);
    let records = |space| SqliteRecords::new(engine.clone(), space);
    Ok(Stores::new(Sharing::Machine)
        .name("sqlite")
        .tasks(records(records::RecordSpace::Tasks))
        .sessions(records(records::RecordSpace::Sessions))
        .grants(records(records::RecordSpace::Grants))
        .events(SqliteEvents::new(engine.clone()))
        // One process is the whole server here: bus and rates can stay in memory.
        .bus(MemoryBus::default())
        .rates(MemoryRates::default())
        .nonces(SqliteNonces::new(engine.clone()))
        .health(engine))
}

/// Stores a number that is only compared for equality.
fn bits(number: u64) -> i64 {
    number.cast_signed()
}

/// Stores a number that is ordered. A number too large for SQLite is stored as the largest.
fn ordered(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn limit(most: usize) -> i64 {
    i64::try_from(most).unwrap_or(i64::MAX)
}
