//! HTTP client transport: with our own server in every revision, and with servers that violate the
//! specification.

mod bounded_retries;
mod credentials;
mod errors;
mod legacy_sse;
mod modern;
mod negotiation;
mod own_server;
mod proxy;
mod redirects;
mod resume;
mod scripted_server;
mod sessions;
mod subscriptions;
mod support;
mod test_server;
#[cfg(feature = "tls")]
mod tls;
