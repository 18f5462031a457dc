//! Bytes to model and back, for every revision of the Model Context Protocol, without I/O.
//!
//! A [`ServerProtocol`] is what one server says about itself and what it accepts. A [`Connection`] takes the
//! messages of one stream, and [`ServerProtocol::receive`] takes one message that stands alone. Both answer
//! with a [`Received`]: a call to begin, together with the [`Codec`] that encodes its events, or
//! bytes to write at once. Routers and handlers never see a revision: it ends here.
#![forbid(unsafe_code)]

mod client;
mod framing;
mod json;
mod server;
mod versions;

pub use crate::framing::lines::{Line, Lines};
pub use crate::server::codec::{CallId, Codec};
pub use crate::server::config::{
    ErrorProfile, ProtocolLimits, Received, ServerProtocol, SupportedEras,
};
pub use crate::server::connection::Connection;
pub use crate::server::headers::{HeaderField, McpHeaders, encode_header};
pub use crate::versions::revision::Revision;
pub use client::{
    Answered, Carrier, ClientCodec, ClientIdentity, Negotiation, Patience, ServerMessage,
    ServerNotification, Step,
};
pub use framing::sse;
pub use versions::error_codes;
