//! Sessions that several processes serve through a shared store.
//!
//! - A change by the client is written with compare-and-swap before it is acknowledged.
//! - An event is visible to readers only after the store has it (`event_writer.rs`). Events carry the number that their writer gave them, so an event
//!   that was stored twice is read once. They also carry the writer, so that readers can check its heartbeat. The first end of a stream counts.
//! - A client that resumes at another process, or after the events have left memory, reads the store (`stored_stream_reader.rs`). The session's `GET`
//!   stream is fed by the process that reads it (`session_subscription.rs`).
//! - A client response goes to the mailbox of the process whose number is in the request id. A cancellation goes to the mailboxes of all live processes
//!   (`mailbox.rs`).
//! - Bus messages only trigger a read of the store. Polling finds what the bus lost. Change notifications work the same way
//!   (`wharf-server/src/notifications/cluster.rs`): change versions are times there, and a change that may have been missed is assumed to have happened.

pub(crate) mod event_record;
pub(crate) mod event_writer;
pub(crate) mod mailbox;
pub(crate) mod record;
pub(crate) mod session_subscription;
pub(crate) mod sessions;
pub(crate) mod stored_stream_reader;
