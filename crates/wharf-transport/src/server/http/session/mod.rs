//! Legacy sessions over HTTP: `Mcp-Session-Id`, resumable event streams and requests to the client.
//!
//! A call that does not end with its first poll becomes a task of its session and writes to an event stream. HTTP
//! responses only read streams, so a client that disconnects cancels nothing and can resume with `Last-Event-ID`.
//! Stream 0 is the session's stream (GET); each POST that needs one has a stream of its own.
//!
//! States of a stream, and the functions that change them:
//!
//! ```text
//!   Session::open_stream (POST), Session::session_stream (GET)
//!         |
//!         v        SessionCall: EventLog::send, push
//!       OPEN  <------------------------------------------+
//!         |  |                                           | append, wake the reader
//!         |  +-------------------------------------------+
//!         |
//!         |  ReplyCollector::release of the last call of the POST (its Drop, if that call was dropped): EventLog::end
//!         v
//!       ENDED  events stay for replay; queued in ReplayBudget
//!         |
//!         |  ReplayBudget (time or memory): EventLog::discard; end of the session: EventLog::close (also from OPEN)
//!         v
//!     DISCARDED
//!
//!   Reader of a stream, in OPEN and ENDED, at most one:
//!
//!      none --StreamReader::attach (first response), resume (Last-Event-ID)--> attached
//!      attached --Drop (client gone), resume by another, write timeout, release_connection--> none
//!
//!   In a cluster also, once a response has begun as a stream:
//!
//!      in memory --StreamReader::into_response (EventWriter::start)--> persisted
//!         a persisted event is visible to readers only after EventWriter has stored it (EventLog::mark_stored)
//!      persisted, read here --resumed in another process: EventLog::detach_for_store--> persisted, read from the store
//! ```
//!
//! | Type | Part in a stream |
//! | --- | --- |
//! | `SessionCall` (`call`) | polls a call once, then runs it as a task that appends the messages of its `CallDriver` |
//! | `ReplyCollector` (`call`) | collects the replies of one POST; `release` of the last share ends the stream |
//! | `EventLog` (`event_log`) | the stream in memory: events, state, position of the reader (`LogReader`) |
//! | `ReplayBudget` (`replay_budget`) | limits the memory of all logs; discards ended streams of the largest holder |
//! | `StreamReader` (`stream_reader`, `event_log::read`) | HTTP response that reads an `EventLog` |
//! | `EventWriter` (`cluster::event_writer`) | copies events from the log to the store; `PersistState` is its progress |
//! | `EventRecord` (`cluster::event_record`) | one event in the store |
//! | `StoredStreamReader` (`cluster::stored_stream_reader`) | HTTP response that reads a stream from the store |
//! | `RegisteredReader` (`cluster::record`) | registration of a reader, unique per stream in the cluster |
//! | `SessionSubscription` (`cluster::session_subscription`) | feeds stream 0 in a cluster while it is read |
//!
//! Where several processes serve a session (`cluster`), the session is a record in a store and the events of its
//! streams are stored before they are sent. A client that resumes at a process without these events reads them from
//! the store.
//!
//! There are two kinds of session (`kinds`). An endpoint has `LocalSessions` (`local`) or `SharedSessions` (`cluster::sessions`), which
//! find, open and end sessions. `SessionKind` has what differs in the middle of a session: `LocalSession`, or the
//! `SessionRecord` of a shared one. Calls, streams and the table of sessions (`table`) are those of both kinds.

pub(crate) mod call;
pub(crate) mod cluster;
mod end_session;
pub(crate) mod event_log;
pub(crate) mod id;
pub(crate) mod idle_time;
pub(crate) mod initialize;
pub(crate) mod kinds;
pub(crate) mod live_session;
pub(crate) mod local;
pub(crate) mod owner;
pub(crate) mod post;
pub(crate) mod refusals;
pub(crate) mod replay_budget;
pub(crate) mod stream_reader;
pub(crate) mod table;

pub(crate) use crate::server::http::session::{
    cluster::{sessions::SharedSessions, stored_stream_reader::StoredStreamReader},
    kinds::Sessions,
    live_session::SessionContext,
    local::LocalSessions,
    stream_reader::StreamReader,
};
