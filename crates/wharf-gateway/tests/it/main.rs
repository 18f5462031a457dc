//! Gateways in front of servers in this process, which can be made unreachable. Time is paused.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod calls;
mod failures;
mod lists;
mod subscriptions;
mod support;
