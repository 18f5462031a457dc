//! The ports in one SQLite file: what is kept there outlives the process.

mod engine;
mod events;
mod file;
mod nonces;
mod records;

use std::sync::Arc;

use wharf_model::{Error, Sharing, Stores};

use self::{
    engine::SqliteEngine, events::SqliteEvents, nonces::SqliteNonces, records::SqliteRecords,
};
use crate::{
    memory::{MemoryBus, MemoryRates},
    url::StoreUrl,
};

/// Opens the file, or creates it.
pub(crate) async fn open(url: &StoreUrl<'_>) -> Result<Stores, Error> {
    let database = file::DatabaseFile::parse(url)?;
    let opened = tokio::task::spawn_blocking(move || SqliteEngine::start(&database));
    let engine = Arc::new(opened.await.map_err(Error::from_std)??);
    let records = |space| Arc::new(SqliteRecords::new(engine.clone(), space));
    Ok(Stores {
        tasks: records(records::RecordSpace::Tasks),
        sessions: records(records::RecordSpace::Sessions),
        grants: records(records::RecordSpace::Grants),
        events: Arc::new(SqliteEvents::new(engine.clone())),
        // One process is the whole server here: what it says and counts needs no file.
        bus: Arc::new(MemoryBus::default()),
        rates: Arc::new(MemoryRates::default()),
        nonces: Arc::new(SqliteNonces::new(engine.clone())),
        health: engine,
        reach: Sharing::Machine,
    })
}

/// A number that is only compared for being the same.
fn bits(number: u64) -> i64 {
    number.cast_signed()
}

/// A number that is ordered. What is too large for the file is as good as the largest.
fn ordered(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn limit(most: usize) -> i64 {
    i64::try_from(most).unwrap_or(i64::MAX)
}
