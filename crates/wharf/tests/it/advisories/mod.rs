//! Regression tests for known vulnerabilities and failures of MCP implementations.
//!
//! `advisory_ids` lists the advisories; the tests name them, and further issues. All tests use real sockets and, unless
//! noted otherwise, the default configuration.

mod aborted_requests;
mod advisory_ids;
mod ambiguous_messages;
mod attacked_server;
mod authentication_bypass;
mod cors;
mod cross_caller_leaks;
mod dns_rebinding;
mod dpop_proofs;
mod failure_lines;
mod graceful_shutdown;
mod handler_panics;
mod harness;
mod http2_floods;
mod http_client;
mod http_statuses;
mod large_messages;
mod limit_lines;
mod log_lines;
mod malformed_http;
#[cfg(feature = "oauth-proxy")]
mod oauth_consent;
mod per_caller_limits;
mod raw_http;
mod request_body_limits;
mod required_scopes;
mod resource_starvation;
mod reverse_proxy_address;
mod server_process;
mod session_creation;
mod session_hijacking;
mod slow_clients;
mod task_lines;
mod tls;
mod token_expiry;
mod token_scope_filtering;
mod unread_responses;
#[path = "../../behaviour/web.rs"]
mod web;
