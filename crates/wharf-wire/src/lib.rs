//! Codec between bytes and `wharf-model` for every revision of the Model Context Protocol, without I/O.
//!
//! A [`ServerProtocol`] holds the protocol settings of one server. A [`Connection`] receives the messages of
//! one stream; [`ServerProtocol::receive`] receives one stateless message. Both return a [`Received`]: a call
//! to start, together with the [`Codec`] that encodes its events, or bytes to write at once. Protocol revisions
//! stay in this crate: routers and handlers never see one.
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod client;
mod framing;
mod json;
mod replies;
mod server;
mod versions;

pub use crate::framing::lines::{Line, Lines};
pub use crate::server::codec::{CallId, Codec};
pub use crate::server::connection::Connection;
pub use crate::server::headers::{HeaderField, McpHeaders, encode_header};
pub use crate::server::limits::MessageLimits;
pub use crate::server::server_protocol::{
    ErrorProfile, LaterIdentity, Received, ServerProtocol, SupportedEras,
};
pub use crate::versions::revision::{AllowedRevisions, Era, Revision};
pub use client::{
    ClientCodec, ClientIdentity, Negotiation, NegotiationEvent, NegotiationStep,
    NegotiationTimeout, ServerMessage, ServerNotification, TransportKind,
};
pub use framing::sse;
pub use versions::error_codes;
