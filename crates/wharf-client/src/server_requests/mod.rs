//! Requests of the server to the client: elicitation, sampling and roots.

pub(crate) mod dispatch;
pub(crate) mod extension;
pub(crate) mod handler;
