//! Sessions that several processes serve through a shared store.

pub(crate) mod event_record;
pub(crate) mod event_writer;
pub(crate) mod mailbox;
pub(crate) mod record;
pub(crate) mod sessions;
pub(crate) mod stored_stream_reader;
