//! Legacy sessions that three servers share: whatever one of them does, three do behind a balancer
//! that knows nothing. The tests of one server are run here too, with every request to another.
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

/// How many servers share the sessions.
const NODES: usize = 3;
