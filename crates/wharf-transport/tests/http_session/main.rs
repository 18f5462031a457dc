//! Legacy sessions over HTTP, with a service made by hand and no sockets.
#![cfg(feature = "http")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod answer;
mod bed;
mod calls;
mod doors;
mod life;
mod limits;
mod resume;
