//! Legacy sessions over HTTP, with a test service and without sockets.

mod access;
mod calls;
mod decoded_response;
mod lifetime;
mod limits;
mod resume;
#[allow(dead_code, reason = "part of it is used by several servers")]
mod support;

/// Number of servers that share the sessions.
const NODES: usize = 1;
