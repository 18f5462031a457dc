//! Client transport over stream connections: JSON lines, or WebSocket.

mod call;
mod cancel_on_drop;
pub(crate) mod child;
pub(crate) mod connection;
pub(crate) mod connector;
mod control_requests;
pub(crate) mod json_lines;
mod reconnect;
pub(crate) mod socket;
pub(crate) mod stream_connector;
mod transport;
#[cfg(feature = "websocket")]
pub(crate) mod websocket;

pub(super) use self::transport::connect;
