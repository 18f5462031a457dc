//! Clusters under failure: simulated, with killed nodes, and with outages of Redis.
#![allow(clippy::expect_used)]

mod kills;
mod outages;
mod simulation;
