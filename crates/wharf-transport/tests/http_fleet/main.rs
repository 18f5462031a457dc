//! Legacy sessions that three servers share behind a load balancer without affinity. The tests of a
//! single server run here as well, with each request sent to another server.
#![cfg(feature = "http")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../http_session/answer.rs"]
mod answer;
#[path = "../http_session/bed.rs"]
#[allow(dead_code, reason = "some of it is for one server")]
mod bed;
#[path = "../http_session/calls.rs"]
mod calls;
mod chaos;
mod deaths;
#[path = "../http_session/doors.rs"]
mod doors;
mod moves;
mod outages;
mod ports;

/// Number of servers that share the sessions.
const NODES: usize = 3;
