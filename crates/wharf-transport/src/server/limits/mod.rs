//! Limits that the connections and messages of one server share.

pub(crate) mod connection_slots;
pub(crate) mod descriptor_shortage;
pub(crate) mod fair_eviction;
pub(crate) mod message_memory;
pub(crate) mod read_timeout;
pub(crate) mod write_timeout;
