//! Stream client transports: with our own server in every revision, and with scripted peers. Time
//! is paused unless a test waits for another process.

mod child;
mod connectors;
mod limits;
mod negotiation;
mod revisions;
mod scripted_peer;
mod server_requests;
mod sockets;
mod subscriptions;
mod support;
#[cfg(all(feature = "tls", feature = "websocket"))]
mod websocket;
