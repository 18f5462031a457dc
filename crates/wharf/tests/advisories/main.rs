//! Known failures of MCP implementations, each as a test of what must not happen here.
//!
//! Section 1 of the security notes lists them: advisories, issues and their root causes. Everything
//! runs over real sockets and, unless a test says otherwise, with the default configuration.
#![allow(unreachable_pub, reason = "nothing outside a test reaches into it")]
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by panicking")]

mod authority;
mod bed;
mod bodies;
mod caller;
mod child;
#[cfg(feature = "oauth-proxy")]
mod consent;
mod cors;
mod cuts;
mod doors;
mod endings;
mod expiry;
mod fairness;
mod ids;
#[path = "../../../wharf-auth/tests/server/bed.rs"]
#[allow(dead_code, reason = "the tests of authorities use the rest")]
mod issuer;
mod leaks;
mod openings;
mod panics;
mod proofs;
mod proxied;
mod raw;
mod readings;
mod rights;
mod scopes;
mod server;
mod sessions;
mod shares;
mod slow;
mod statuses;
mod strict;
mod tls;
mod unread;
#[path = "../behaviour/web.rs"]
mod web;
