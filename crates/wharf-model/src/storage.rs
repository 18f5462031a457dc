//! Storage behind traits, each with an in-memory default elsewhere.

use std::{any::Any, collections::BTreeMap, fmt, sync::Arc, time::Duration};

use crate::{BoxFuture, Error};

/// What a port gives back, later.
pub type Stored<T> = BoxFuture<Result<T, Error>>;

/// Seals what is out of the server's hands and comes back: state that travels through the client, what
/// lies in a store.
///
/// `context` is authenticated but not stored: state opens only under the context it was sealed in.
pub trait StateCipher: Send + Sync + 'static {
    /// Seals `plain`, as text that survives JSON and URLs.
    fn seal(&self, context: &[u8], plain: &[u8]) -> String;
    /// Opens what [`seal`](StateCipher::seal) made; `None` for anything else.
    fn open(&self, context: &[u8], sealed: &str) -> Option<Vec<u8>>;
    /// Seals `plain`, as bytes, which are fewer where nothing needs a text.
    fn seal_bytes(&self, context: &[u8], plain: &[u8]) -> Vec<u8> {
        self.seal(context, plain).into_bytes()
    }
    /// Opens what [`seal_bytes`](StateCipher::seal_bytes) made; `None` for anything else.
    fn open_bytes(&self, context: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
        self.open(context, std::str::from_utf8(sealed).ok()?)
    }
    /// Whether other processes can open it too, and this one after a restart.
    fn is_shared(&self) -> bool {
        true
    }
}

/// Remembers which one-time claims have been made.
pub trait NonceStore: Send + Sync + 'static {
    /// Claims `nonce` for `ttl`: true exactly once.
    fn claim(&self, nonce: &str, ttl: Duration) -> Stored<bool>;
}

/// Counts what callers use of a rate.
pub trait RateStore: Send + Sync + 'static {
    /// Takes one token from the bucket of `key`.
    fn take(&self, key: &str, rate: Rate) -> Taking;
}

/// Whether there was a token; if not, how long until there is one.
pub type Taken = Result<(), Duration>;

/// How a [`RateStore`] answers: at once where it counts in memory, later where it must ask.
pub enum Taking {
    /// This is the answer.
    Now(Taken),
    /// The answer will come.
    Later(BoxFuture<Taken>),
}

impl Taking {
    /// The answer, awaited if it must be.
    pub async fn taken(self) -> Taken {
        match self {
            Taking::Now(taken) => taken,
            Taking::Later(taken) => taken.await,
        }
    }
}

impl fmt::Debug for Taking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Taking::Now(taken) => f.debug_tuple("Now").field(taken).finish(),
            Taking::Later(_) => f.write_str("Later"),
        }
    }
}

/// A token bucket: `per_second` tokens come in, at most `burst` are kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// How many tokens a second come in.
    pub per_second: f64,
    /// How many tokens are kept at most.
    pub burst: f64,
}

/// What a [`RecordStore`] keeps under one id. Stores do not read the body; they index the rest.
///
/// Times are milliseconds since 1970 by the clock of the store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Names it among all records of the store.
    pub id: String,
    /// Whose it is.
    pub owner: String,
    /// When it was made.
    pub created: u64,
    /// Counts the changes: the store sets it.
    pub version: u64,
    /// Counts those who held it. What an earlier holder writes is refused.
    pub fence: u64,
    /// When somebody must look after it; `None` for never.
    pub due: Option<u64>,
    /// When it may be forgotten; `None` for never.
    pub expires: Option<u64>,
    /// What it says.
    pub body: Vec<u8>,
}

/// What became of something that was to be kept beside a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PutResult {
    /// It is kept.
    Kept,
    /// Something is kept under its name already: this.
    Known(Vec<u8>),
    /// The record is gone, or somebody else holds it by now.
    Lost,
}

/// Keeps records that are changed by comparing and swapping. Every operation is atomic, and durable
/// when it returns, as far as the store is durable at all.
pub trait RecordStore: Send + Sync + 'static {
    /// The time, in milliseconds since 1970. All processes that share the store share its clock.
    fn now(&self) -> Stored<u64>;

    /// Keeps a new record, unless its owner has `most` of them already, or its id is taken: then
    /// false. Its version becomes 1.
    fn insert(&self, record: Record, most: usize) -> Stored<bool>;

    /// The record with this id, unless it has expired.
    fn load(&self, id: &str) -> Stored<Option<Record>>;

    /// Puts `record` in the place of the one with its id, if that still has its version; the
    /// version rises by one. False if it has another, or is gone.
    fn swap(&self, record: Record) -> Stored<bool>;

    /// Forgets a record and all that is kept beside it. False if there was none.
    fn remove(&self, id: &str) -> Stored<bool>;

    /// The records of `owner` that come after the one called `after`, ordered by when they were made
    /// and then by id, at most `limit` of them. None, if that one is not there any more.
    fn list(&self, owner: &str, after: Option<&str>, limit: usize) -> Stored<Vec<Record>>;

    /// The ids of records that are due, those due longest first, at most `limit` of them.
    fn due(&self, limit: usize) -> Stored<Vec<String>>;

    /// Keeps `value` beside a record, under a name that has none yet, on behalf of whoever holds
    /// the record by this fence.
    fn keep(&self, id: &str, fence: u64, name: &str, value: Vec<u8>) -> Stored<PutResult>;

    /// All that is kept beside a record.
    fn kept(&self, id: &str) -> Stored<BTreeMap<String, Vec<u8>>>;

    /// Forgets what has expired, at most `limit` records: how many.
    fn sweep(&self, limit: usize) -> Stored<usize>;
}

/// How much of a stream an [`EventStore`] keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Events, at most.
    pub events: usize,
    /// Bytes of events, at most; the newest stays, whatever its size.
    pub bytes: usize,
    /// For how long after its last event.
    pub ttl: Duration,
}

/// Events of a stream, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Events {
    /// The number of the newest event that the stream ever had; 0 if it never had any, or is gone.
    pub newest: u64,
    /// Events with their numbers. The first may be later than asked for, if older ones are not kept
    /// any more.
    pub events: Vec<(u64, Vec<u8>)>,
}

/// Keeps streams of events, for clients that come back to any process.
pub trait EventStore: Send + Sync + 'static {
    /// Appends an event: its number, which is one above that of the event before it.
    fn append(&self, stream: &str, event: Vec<u8>, keep: Retention) -> Stored<u64>;
    /// The events after the one of this number, at most `limit` of them.
    fn read(&self, stream: &str, after: u64, limit: usize) -> Stored<Events>;
    /// Forgets a stream.
    fn forget(&self, stream: &str) -> Stored<()>;
}

/// Who hears what is said on a [`Bus`]. It must not block.
pub trait BusSubscriber: Send + Sync + 'static {
    /// Somebody said this.
    fn hear(&self, topic: &str, message: &[u8]);
    /// Something may have been said that was not heard.
    fn missed(&self) {}
}

/// Carries messages between the processes of one server. Each is heard at most once by each ear
/// that was there, this process's own included, in the order of who said it.
pub trait Bus: Send + Sync + 'static {
    /// Says something to all who hear the topic.
    fn publish(&self, topic: &str, message: Vec<u8>) -> Stored<()>;
    /// Hears a topic from now on, until what it returns is dropped: at least what this process says after
    /// it. Where others must be told first, the ear is told then that it may have missed something.
    fn subscribe(&self, topic: &str, ear: Arc<dyn BusSubscriber>) -> Box<dyn Any + Send + Sync>;
}

/// Whether a store is there, as far as anybody knows. It must not block.
pub trait Health: Send + Sync + 'static {
    /// Whether what must be kept can be kept now.
    fn is_ready(&self) -> bool;
}

/// All that a server keeps somewhere, on one engine.
#[derive(Clone)]
pub struct Stores {
    /// Tasks.
    pub tasks: Arc<dyn RecordStore>,
    /// Legacy sessions over HTTP.
    pub sessions: Arc<dyn RecordStore>,
    /// What an authorization server keeps: who registered, who was let in, and with what.
    pub grants: Arc<dyn RecordStore>,
    /// What legacy clients may come back for.
    pub events: Arc<dyn EventStore>,
    /// Between the processes of one server.
    pub bus: Arc<dyn Bus>,
    /// How often callers call.
    pub rates: Arc<dyn RateStore>,
    /// One-time claims.
    pub nonces: Arc<dyn NonceStore>,
    /// Whether all of it is there.
    pub health: Arc<dyn Health>,
    /// What survives, and who shares it.
    pub reach: Sharing,
}

impl fmt::Debug for Stores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stores").field("reach", &self.reach).finish_non_exhaustive()
    }
}

/// What survives, and who shares it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sharing {
    /// One process has it, and it ends with that.
    Process,
    /// It outlives the process, for the next one.
    Machine,
    /// Any number of processes share it.
    Fleet,
}
