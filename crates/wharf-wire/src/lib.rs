//! Bytes to model and back, for every revision of the Model Context Protocol, without I/O.
//!
//! A [`Wire`] is what one server says about itself and what it accepts. A [`Connection`] takes the
//! messages of one stream, and [`Wire::receive`] takes one message that stands alone. Both answer
//! with a [`Received`]: a call to begin, together with the [`Codec`] that encodes its events, or
//! bytes to write at once. Routers and handlers never see a revision: it ends here.
#![forbid(unsafe_code)]

mod ask;
mod batch;
mod client;
mod codec;
pub mod codes;
mod decode;
mod encode;
mod failure;
mod headers;
mod introductions;
mod legacy;
mod lines;
mod members;
mod message;
mod modern;
mod offer;
mod origin;
mod revision;
mod saved;
mod scan;
pub mod sse;
mod subscriptions;
mod task;
mod tasking;
mod text;
mod translate;
mod wire;
mod wrap;

pub use client::{Answered, Carrier, ClientSelf, Heard, Incoming, Opening, Patience, Step, Talk};
pub use codec::{CallId, Codec};
pub use headers::{Field, Heads, encode_header};
pub use legacy::Connection;
pub use lines::{Line, Lines};
pub use revision::Revision;
pub use wire::{Eras, ErrorProfile, Received, Wire, WireLimits};
