//! Proxy: a client as a service for downstream clients.

pub(crate) mod forward;
pub(crate) mod known_targets;
pub(crate) mod progress_tokens;
pub(crate) mod subscription;
pub(crate) mod suspended_calls;
pub(crate) mod tasks;
