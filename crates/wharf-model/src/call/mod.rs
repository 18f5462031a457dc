//! Calls: method, request, notifications, client requests and outcome.

pub(crate) mod active_call;
pub(crate) mod call_timeouts;
mod cancel_on_drop;
pub(crate) mod client_request;
pub(crate) mod extensions;
pub(crate) mod forwarded_call;
pub(crate) mod header_params;
pub(crate) mod method;
pub(crate) mod outbox;
pub(crate) mod outcome;
pub(crate) mod request;
pub(crate) mod request_builder;
pub(crate) mod service;
