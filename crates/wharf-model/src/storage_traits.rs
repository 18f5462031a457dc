//! Storage traits (ports). Implementations, in memory and others, are in `wharf-store`.

use std::{any::Any, collections::BTreeMap, fmt, sync::Arc, time::Duration};

use crate::{BoxFuture, Error, setters};

/// Future of a storage operation.
pub type Stored<T> = BoxFuture<Result<T, Error>>;

/// Encrypts state that leaves the server and returns: state held by the client, and records in a store.
///
/// `context` is authenticated but not stored: decryption needs the same context as encryption.
pub trait StateCipher: Send + Sync + 'static {
    /// Encrypts `plain` to text that is safe in JSON and URLs.
    fn seal(&self, context: &[u8], plain: &[u8]) -> String;
    /// Decrypts the output of [`seal`](StateCipher::seal); `None` for anything else.
    fn open(&self, context: &[u8], sealed: &str) -> Option<Vec<u8>>;
    /// Encrypts `plain` to bytes, which are shorter than text.
    fn seal_bytes(&self, context: &[u8], plain: &[u8]) -> Vec<u8> {
        self.seal(context, plain).into_bytes()
    }
    /// Decrypts the output of [`seal_bytes`](StateCipher::seal_bytes); `None` for anything else.
    fn open_bytes(&self, context: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
        self.open(context, std::str::from_utf8(sealed).ok()?)
    }
    /// Returns whether other processes, and this one after a restart, can decrypt.
    fn is_shared(&self) -> bool {
        true
    }
}

/// Store of nonces that were used (replay protection).
pub trait NonceStore: Send + Sync + 'static {
    /// Claims `nonce` for `ttl`; returns true exactly once.
    fn claim(&self, nonce: &str, ttl: Duration) -> Stored<bool>;
}

/// Store of token buckets for rate limits.
pub trait RateStore: Send + Sync + 'static {
    /// Takes one token from the bucket of `key`.
    fn take(&self, key: &str, rate: Rate) -> RateDecision;
}

/// Result of taking a token; the error is the time until the next token.
pub type RateResult = Result<(), Duration>;

/// Decision of a [`RateStore`]: immediate if it counts in memory, otherwise a future.
pub enum RateDecision {
    /// Immediate result.
    Now(RateResult),
    /// Future result.
    Later(BoxFuture<RateResult>),
}

impl RateDecision {
    /// Returns the result; awaits it if necessary.
    pub async fn taken(self) -> RateResult {
        match self {
            RateDecision::Now(taken) => taken,
            RateDecision::Later(taken) => taken.await,
        }
    }
}

impl fmt::Debug for RateDecision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RateDecision::Now(taken) => f.debug_tuple("Now").field(taken).finish(),
            RateDecision::Later(_) => f.write_str("Later"),
        }
    }
}

/// Token bucket: refilled at `per_second`, with a capacity of `burst`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Tokens added per second.
    pub per_second: f64,
    /// Capacity of the bucket.
    pub burst: f64,
}

/// Record in a [`RecordStore`]. Stores do not read the body; they index the other fields.
///
/// Times are milliseconds since 1970 by the clock of the store.
///
/// ```
/// # mod wharf { pub mod store { pub use wharf_model::*; } }
/// use wharf::store::Record;
///
/// let record = Record::new("r1").owner("alice").body(b"hello").expires(1_800_000_000_000);
/// assert_eq!(record.due, None);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Record {
    /// Id, unique in the store.
    pub id: String,
    /// Owner of the record.
    pub owner: String,
    /// Creation time.
    pub created: u64,
    /// Version, incremented by the store with each change.
    pub version: u64,
    /// Fencing token: incremented with each new holder. Writes of an earlier holder are refused.
    pub fence: u64,
    /// Time at which the record needs processing; `None` for never.
    pub due: Option<u64>,
    /// Expiry time; `None` for never.
    pub expires: Option<u64>,
    /// Content.
    pub body: Vec<u8>,
}

impl Record {
    /// Creates an empty record with this id.
    #[must_use]
    pub fn new(id: impl Into<String>) -> Self {
        Record::default().id(id)
    }
}

setters!(Record {
    id: impl Into<String>,
    owner: impl Into<String>,
    created: u64,
    version: u64,
    fence: u64,
    due: impl Into<Option<u64>>,
    expires: impl Into<Option<u64>>,
    body: impl Into<Vec<u8>>,
});

/// Result of attaching a value to a record.
#[derive(Clone, Debug, PartialEq, Eq)]
// Exhaustive: every match decides about a new variant.
pub enum AttachResult {
    /// The value was stored.
    Attached,
    /// A value with this name exists: this one.
    Exists(Vec<u8>),
    /// The record was removed, or another process holds it.
    Lost,
}

/// Store of records with compare-and-swap updates. Every operation is atomic, and durable when it returns if
/// the store is durable at all.
pub trait RecordStore: Send + Sync + 'static {
    /// Returns the time in milliseconds since 1970. All processes that share the store share its clock.
    fn now(&self) -> Stored<u64>;

    /// Inserts a record with version 1. Returns false if its owner has `most` records already or the id exists.
    fn insert(&self, record: Record, most: usize) -> Stored<bool>;

    /// Returns the record with this id, unless it has expired.
    fn load(&self, id: &str) -> Stored<Option<Record>>;

    /// Replaces the record with the same id if its version is unchanged (compare-and-swap), and increments the
    /// version. Returns false otherwise.
    fn swap(&self, record: Record) -> Stored<bool>;

    /// Removes a record and the values attached to it. Returns false if it did not exist.
    fn remove(&self, id: &str) -> Stored<bool>;

    /// Returns at most `limit` records of `owner` after the record `after`, ordered by creation time and id.
    /// Returns none if `after` no longer exists.
    fn list(&self, owner: &str, after: Option<&str>, limit: usize) -> Stored<Vec<Record>>;

    /// Returns the ids of at most `limit` due records, those due longest first.
    fn due(&self, limit: usize) -> Stored<Vec<String>>;

    /// Attaches a value to a record under a new name, on behalf of the holder with this fencing token.
    fn attach(&self, id: &str, fence: u64, name: &str, value: Vec<u8>) -> Stored<AttachResult>;

    /// Returns all values attached to a record.
    fn attachments(&self, id: &str) -> Stored<BTreeMap<String, Vec<u8>>>;

    /// Removes at most `limit` expired records; returns their number.
    fn sweep(&self, limit: usize) -> Stored<usize>;
}

/// Retention limits of a stream in an [`EventStore`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Retention {
    /// Maximum number of events.
    pub events: usize,
    /// Maximum size of the events in bytes; the newest event always stays.
    pub bytes: usize,
    /// Retention time after the last event.
    pub ttl: Duration,
}

impl Retention {
    /// Creates limits from the number of events, their size and the retention time.
    #[must_use]
    pub const fn new(events: usize, bytes: usize, ttl: Duration) -> Self {
        Retention { events, bytes, ttl }
    }
}

setters!(Retention { events: usize, bytes: usize, ttl: Duration });

/// Events of a stream, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Events {
    /// Number of the newest event that the stream ever had; 0 if it had none, or was removed.
    pub newest: u64,
    /// Events with their numbers. The first may be later than requested, if older ones were removed.
    pub events: Vec<(u64, Vec<u8>)>,
}

impl Events {
    /// Creates the events of a stream whose newest event has this number.
    #[must_use]
    pub fn new(newest: u64, events: Vec<(u64, Vec<u8>)>) -> Self {
        Events { newest, events }
    }
}

/// Store of event streams, for resumability: clients may reconnect to any process.
pub trait EventStore: Send + Sync + 'static {
    /// Appends an event; returns its number, one above the previous one.
    fn append(&self, stream: &str, event: Vec<u8>, keep: Retention) -> Stored<u64>;
    /// Returns at most `limit` events after the one with this number.
    fn read(&self, stream: &str, after: u64, limit: usize) -> Stored<Events>;
    /// Removes a stream.
    fn remove(&self, stream: &str) -> Stored<()>;
}

/// Subscriber of a [`Bus`]. Its methods must not block.
pub trait BusSubscriber: Send + Sync + 'static {
    /// Receives a message.
    fn receive(&self, topic: &str, message: &[u8]);
    /// Reports that messages may have been lost.
    fn missed(&self) {}
}

/// Publish/subscribe bus between the processes of one server. Each message reaches each subscriber at most
/// once, including those of the publishing process, in the order of its publisher.
pub trait Bus: Send + Sync + 'static {
    /// Publishes a message to all subscribers of the topic.
    fn publish(&self, topic: &str, message: Vec<u8>) -> Stored<()>;
    /// Subscribes to a topic until the returned guard is dropped. Messages that this process publishes later
    /// are received at least. If other processes must be notified first, `missed` is called once that is done.
    fn subscribe(&self, topic: &str, ear: Arc<dyn BusSubscriber>) -> Box<dyn Any + Send + Sync>;
}

/// Availability of a store. Its methods must not block.
pub trait Health: Send + Sync + 'static {
    /// Returns whether writes can succeed now.
    fn is_ready(&self) -> bool;
}
