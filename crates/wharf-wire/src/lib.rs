//! Bytes to model and back, for every revision of the Model Context Protocol, without I/O.
//!
//! A [`Wire`] is what one server says about itself and what it accepts. A [`Connection`] takes the
//! messages of one stream, and [`Wire::receive`] takes one message that stands alone. Both answer
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
pub use crate::server::config::{Eras, ErrorProfile, Received, Wire, WireLimits};
pub use crate::server::connection::Connection;
pub use crate::server::headers::{Field, Heads, encode_header};
pub use crate::versions::revision::Revision;
pub use client::{Answered, Carrier, ClientSelf, Heard, Incoming, Opening, Patience, Step, Talk};
pub use framing::sse;
pub use versions::error_codes;
