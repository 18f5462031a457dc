//! Stores of a server: in memory, in SQLite, on Redis, or an implementation of your own.

pub use wharf_model::{
    AttachResult, Bus, BusSubscriber, EventStore, Events, Health, NonceStore, Rate, RateDecision,
    RateResult, RateStore, Record, RecordStore, Retention, Sharing, StateCipher, Stored, Stores,
};
pub use wharf_store::{
    MemoryBus, MemoryEvents, MemoryNonces, MemoryRates, MemoryRecords, StoreOpenError, encrypted,
    memory_stores, open,
};

/// Contract of the storage traits, as tests that any store can run.
#[cfg(feature = "contract")]
pub mod contract {
    pub use wharf_store::contract::{
        StoreHandles, bus, events, find_traces, leave_traces, nonces, rates, records,
    };
}
