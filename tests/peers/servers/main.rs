//! Tests Wharf's client with servers of other SDKs, in every era and over every transport that they support.
//!
//! The scripts are in `tests/foreign/servers`; rmcp's server is a program of this package. All but one have the same
//! tools, resources and prompts, and share the checks; npm's `server-everything` has its own checks. Features that a
//! server lacks are in [`known_failures`].
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod checks;
mod client_requests;
mod everything;
mod known_failures;
#[path = "../rmcp/proxy.rs"]
mod proxy;
mod resumption;
mod server_under_test;
mod skills;
mod start;
mod tasks;
mod trace;

use std::time::Duration;

use server_under_test::{Era, Server, TestTransport};

/// Timeout of a check.
const LIMIT: Duration = Duration::from_secs(60);

/// Defines one test per server, era and transport.
macro_rules! servers {
    ($($test:ident: $server:ident $era:ident over $over:ident;)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                server_under_test::run_checks(Server::$server, Era::$era, TestTransport::$over).await;
            }
        )*
    };
}

servers! {
    typescript2_legacy_stdio: TypeScript2 Legacy over Stdio;
    typescript2_legacy_http: TypeScript2 Legacy over Http;
    typescript2_modern_stdio: TypeScript2 Modern over Stdio;
    typescript2_modern_http: TypeScript2 Modern over Http;
    typescript2_skills_legacy_stdio: TypeScript2Skills Legacy over Stdio;
    typescript2_skills_legacy_http: TypeScript2Skills Legacy over Http;
    typescript2_skills_modern_stdio: TypeScript2Skills Modern over Stdio;
    typescript2_skills_modern_http: TypeScript2Skills Modern over Http;
    python_legacy_stdio: Python Legacy over Stdio;
    python_legacy_http: Python Legacy over Http;
    python_legacy_sse: Python Legacy over Sse;
    python_modern_stdio: Python Modern over Stdio;
    python_modern_http: Python Modern over Http;
    fastmcp_legacy_stdio: FastMcp Legacy over Stdio;
    fastmcp_legacy_http: FastMcp Legacy over Http;
    fastmcp_modern_stdio: FastMcp Modern over Stdio;
    fastmcp_modern_http: FastMcp Modern over Http;
    rmcp_legacy_stdio: Rmcp Legacy over Stdio;
    rmcp_legacy_http: Rmcp Legacy over Http;
    rmcp_modern_stdio: Rmcp Modern over Stdio;
    rmcp_modern_http: Rmcp Modern over Http;
    rmcp_legacy_proxied_to_legacy: Rmcp Legacy over ProxyToLegacy;
    rmcp_legacy_proxied_to_modern: Rmcp Legacy over ProxyToModern;
    rmcp_modern_proxied_to_legacy: Rmcp Modern over ProxyToLegacy;
    rmcp_modern_proxied_to_modern: Rmcp Modern over ProxyToModern;
    everything_legacy_stdio: Everything Legacy over Stdio;
    everything_legacy_http: Everything Legacy over Http;
    everything_legacy_sse: Everything Legacy over Sse;
}
