//! The command line, as people and programs use it.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by panicking")]

mod arguments;
#[cfg(unix)]
mod auth;
#[cfg(unix)]
mod auth_people;
mod auth_rules;
mod bed;
mod bench;
mod config;
mod exits;
#[cfg(unix)]
mod gate;
#[cfg(unix)]
mod interrupts;
#[cfg(unix)]
mod pty;
#[cfg(target_os = "linux")]
mod routes;
#[cfg(unix)]
mod stores;
#[cfg(unix)]
mod tasks;
#[cfg(unix)]
mod terminal;
mod transports;
#[cfg(unix)]
mod trust;
mod verbs;
