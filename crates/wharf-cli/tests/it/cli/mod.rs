//! Command line, in interactive and non-interactive use.

mod arguments;
#[cfg(unix)]
mod auth;
#[cfg(unix)]
mod auth_interactive;
mod auth_security;
mod bench;
#[cfg(target_os = "linux")]
mod bridge;
mod commands;
mod config;
mod exit_codes;
#[cfg(unix)]
mod interrupts;
mod logs;
#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod memory;
mod otlp;
#[cfg(unix)]
pub(crate) mod pack;
#[cfg(unix)]
mod protected_server;
mod proxy_options;
#[cfg(unix)]
mod pty;
#[cfg(unix)]
pub(crate) mod publish;
pub(crate) mod sandbox;
mod scripted_server;
#[cfg(target_os = "linux")]
mod serve_http;
mod server_card;
mod skills;
#[cfg(unix)]
mod stores;
#[cfg(unix)]
mod tasks;
#[cfg(unix)]
mod terminal;
#[cfg(unix)]
mod top;
mod transports;
#[cfg(unix)]
mod trust;
