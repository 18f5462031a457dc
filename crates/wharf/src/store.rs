//! Stores of a server: in memory, in SQLite, on Redis, or an implementation of your own.

pub use wharf_model::{
    AttachResult, Bus, BusSubscriber, EventStore, Events, Health, NonceStore, Rate, RateDecision,
    RateResult, RateStore, Record, RecordStore, Retention, Sharing, StateCipher, Stored, Stores,
};
#[cfg(feature = "contract")]
pub use wharf_store::contract;
pub use wharf_store::{
    MemoryBus, MemoryEvents, MemoryNonces, MemoryRates, MemoryRecords, StoreOpenError,
    memory_stores, open, sealed,
};
