//! The load generator: one request at a time on each connection, and every reply is checked.

mod client;
mod connection;
mod http;
mod message;
mod sample;
mod stdio;
mod task;

pub use client::{Client, Turn};
pub use connection::{Connection, Reply};
pub use http::{HttpLoad, Script, Span};
pub use message::{Check, Operation, Protocol, Template};
pub use sample::{Meter, Sample, Tally};
pub use stdio::Lines;
