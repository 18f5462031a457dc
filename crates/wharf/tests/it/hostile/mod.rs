//! Hostile servers: the client limits its memory, reports the error and does not hang.

mod era_detection;
mod lists;
mod memory_amplification;
mod memory_growth;
mod redirects;
mod schemas;
pub(crate) mod scripted_server;
mod silent_servers;
mod tasks;
mod unbounded_messages;
