//! Gateways in front of servers in this process, which can be made unreachable. Time is paused.

mod calls;
mod failures;
mod lists;
mod subscriptions;
mod support;
