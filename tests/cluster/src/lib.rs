//! Support for cluster tests: a simulated network, real processes that can be killed, and a history
//! whose invariants are checked.
#![forbid(unsafe_code)]
#![allow(missing_docs, unreachable_pub, reason = "nobody else uses it")]

pub mod change_history;
pub mod load;
pub mod node_group;
pub mod processes;
pub mod proxy;
pub mod random;
pub mod recording_client;
pub mod recording_tools;
pub mod sim;
pub mod sse;
pub mod task_history;
