//! Hostile servers: the client limits its memory, reports the error and does not hang.
#![allow(unreachable_pub, reason = "nothing outside a test reaches into it")]
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by panicking")]

mod era_detection;
mod lists;
mod memory_amplification;
mod redirects;
mod schemas;
mod scripted_server;
mod silent_servers;
mod tasks;
mod unbounded_messages;
