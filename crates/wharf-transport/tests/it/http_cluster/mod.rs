//! Legacy sessions that three servers share behind a load balancer without affinity. The tests of a
//! single server run here as well, with each request sent to another server.
#![allow(clippy::duplicate_mod, reason = "the tests of one server run here with three")]

#[path = "../http_session/access.rs"]
mod access;
#[path = "../http_session/calls.rs"]
mod calls;
mod chaos;
#[path = "../http_session/decoded_response.rs"]
mod decoded_response;
mod node_changes;
mod node_failures;
mod store_outages;
#[path = "../http_session/support.rs"]
#[allow(dead_code, reason = "part of it is used by one server")]
mod support;

/// Number of servers that share the sessions.
const NODES: usize = 3;
