//! The OAuth proxy with a fake identity provider, clients, browsers and attackers.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod browser_and_client;
mod clients;
mod consent;
mod documents;
mod fake_idp;
mod flow;
#[path = "../../../wharf-store/tests/redis/server.rs"]
#[allow(dead_code, unreachable_pub, reason = "shared with the tests of stores")]
mod redis;
mod tokens;
mod upstream;

use self::redis::RedisServer;
