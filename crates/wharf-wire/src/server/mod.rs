//! Server side: decodes requests, encodes responses and notifications.

pub(crate) mod batch;
pub(crate) mod client_info_cache;
pub(crate) mod client_requests;
pub(crate) mod codec;
pub(crate) mod config;
pub(crate) mod connection;
pub(crate) mod custom;
pub(crate) mod decode;
pub(crate) mod encode;
pub(crate) mod encode_error;
pub(crate) mod envelope;
pub(crate) mod era;
pub(crate) mod error_as_result;
pub(crate) mod handshake;
pub(crate) mod headers;
pub(crate) mod legacy_session;
pub(crate) mod limits;
pub(crate) mod message;
pub(crate) mod message_source;
pub(crate) mod modern;
pub(crate) mod saved_session;
pub(crate) mod structured_content;
pub(crate) mod subscription_budget;
pub(crate) mod task_params;
pub(crate) mod tasks;
pub(crate) mod version_negotiation;
