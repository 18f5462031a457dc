//! Interfaces that a builder takes as `impl Trait`, implemented for [`Arc`]: a value that is shared with other code is
//! passed the same way as an owned one.

use std::{
    any::Any,
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use crate::{
    AttachResult, BoxFuture, Bus, BusSubscriber, EventStore, Events, Health, NonceStore, Rate,
    RateDecision, RateStore, Record, RecordStore, Retention, StateCipher, Stored, Timer,
};

/// Implements a trait for `Arc`. Every method is listed, those with a default too: the default would replace the
/// implementation of the shared value.
macro_rules! forward_to_arc {
    ($($interface:ident { $(fn $method:ident(&self $(, $arg:ident: $ty:ty)*) $(-> $out:ty)?;)* })*) => {
        $(impl<T: $interface + ?Sized> $interface for Arc<T> {
            $(fn $method(&self $(, $arg: $ty)*) $(-> $out)? {
                (**self).$method($($arg),*)
            })*
        })*
    };
}

forward_to_arc! {
    Timer {
        fn now(&self) -> Instant;
        fn wall(&self) -> SystemTime;
        fn sleep_until(&self, deadline: Instant) -> BoxFuture<()>;
    }
    StateCipher {
        fn seal(&self, context: &[u8], plain: &[u8]) -> String;
        fn open(&self, context: &[u8], sealed: &str) -> Option<Vec<u8>>;
        fn seal_bytes(&self, context: &[u8], plain: &[u8]) -> Vec<u8>;
        fn open_bytes(&self, context: &[u8], sealed: &[u8]) -> Option<Vec<u8>>;
        fn is_shared(&self) -> bool;
    }
    NonceStore {
        fn claim(&self, nonce: &str, ttl: Duration) -> Stored<bool>;
    }
    RateStore {
        fn take(&self, key: &str, rate: Rate) -> RateDecision;
    }
    RecordStore {
        fn now(&self) -> Stored<u64>;
        fn insert(&self, record: Record, most: usize) -> Stored<bool>;
        fn load(&self, id: &str) -> Stored<Option<Record>>;
        fn swap(&self, record: Record) -> Stored<bool>;
        fn remove(&self, id: &str) -> Stored<bool>;
        fn list(&self, owner: &str, after: Option<&str>, limit: usize) -> Stored<Vec<Record>>;
        fn due(&self, limit: usize) -> Stored<Vec<String>>;
        fn attach(&self, id: &str, fence: u64, name: &str, value: Vec<u8>) -> Stored<AttachResult>;
        fn attachments(&self, id: &str) -> Stored<BTreeMap<String, Vec<u8>>>;
        fn sweep(&self, limit: usize) -> Stored<usize>;
    }
    EventStore {
        fn append(&self, stream: &str, event: Vec<u8>, keep: Retention) -> Stored<u64>;
        fn read(&self, stream: &str, after: u64, limit: usize) -> Stored<Events>;
        fn remove(&self, stream: &str) -> Stored<()>;
    }
    Bus {
        fn publish(&self, topic: &str, message: Vec<u8>) -> Stored<()>;
        fn subscribe(&self, topic: &str, subscriber: Arc<dyn BusSubscriber>) -> Box<dyn Any + Send + Sync>;
    }
    Health {
        fn is_ready(&self) -> bool;
    }
}
