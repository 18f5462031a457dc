//! The ports in one SQLite file: what is kept there outlives the process.

mod engine;
mod events;
mod file;
mod nonces;
mod records;

use std::sync::Arc;

use wharf_model::{Error, Sharing, Stores};

use self::{engine::Engine, events::FileEvents, nonces::FileNonces, records::FileRecords};
use crate::{
    memory::{MemoryBus, MemoryRates},
    url::Url,
};

/// Opens the file, or creates it.
pub(crate) async fn open(url: &Url<'_>) -> Result<Stores, Error> {
    let place = file::Place::parse(url)?;
    let opened = tokio::task::spawn_blocking(move || Engine::start(&place));
    let engine = Arc::new(opened.await.map_err(Error::from_std)??);
    let records = |space| Arc::new(FileRecords::new(engine.clone(), space));
    Ok(Stores {
        tasks: records(records::Space::Tasks),
        sessions: records(records::Space::Sessions),
        grants: records(records::Space::Grants),
        events: Arc::new(FileEvents::new(engine.clone())),
        // One process is the whole server here: what it says and counts needs no file.
        bus: Arc::new(MemoryBus::default()),
        rates: Arc::new(MemoryRates::default()),
        nonces: Arc::new(FileNonces::new(engine.clone())),
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
