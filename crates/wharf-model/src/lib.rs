//! Types of the Model Context Protocol, and the `Service` interface between all parts of Wharf.
//!
//! This crate does no I/O and depends neither on a runtime nor on a protocol revision. A [`Service`] receives a
//! [`Request`] and an [`Outbox`] for notifications and client requests, and returns one [`Outcome`]. An
//! [`ActiveCall`] is such a call in flight.
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod arc_impls;
mod auth;
mod budget;
mod builders;
mod call;
mod error;
mod file_mode;
mod json;
mod lock;
mod log_throttle;
mod observe;
mod protocol;
mod storage_traits;
mod stores;

pub use crate::auth::authenticator::*;
pub use crate::auth::caller::*;
pub use crate::auth::credentials::*;
pub use crate::auth::principal::*;
pub use crate::call::active_call::*;
pub use crate::call::client_request::*;
pub use crate::call::extensions::*;
pub use crate::call::forwarded_call::forward_for_client;
pub use crate::call::header_params::*;
pub use crate::call::method::*;
pub use crate::call::outbox::*;
pub use crate::call::outcome::*;
pub use crate::call::request::*;
pub use crate::call::request_builder::*;
pub use crate::call::service::*;
pub use crate::json::lazy::*;
pub use crate::json::object::JsonObject;
pub use crate::json::text::*;
pub use crate::json::unknown_fields::*;
pub use crate::observe::active::{ClientObservation, ObservedServer};
pub use crate::observe::calls::*;
pub use crate::observe::events::*;
pub use crate::observe::refusal::*;
pub use crate::observe::span::*;
pub use crate::observe::trace_context::*;
pub use crate::observe::transport::*;
pub use crate::observe::{Observer, Observers};
pub use crate::protocol::cache_hints::*;
pub use crate::protocol::capability::*;
pub use crate::protocol::completion::*;
pub use crate::protocol::content::*;
pub use crate::protocol::custom_notification::*;
pub use crate::protocol::elicitation::*;
pub use crate::protocol::implementation::*;
pub use crate::protocol::log_level::*;
pub use crate::protocol::prompt::*;
pub use crate::protocol::resource::*;
pub use crate::protocol::roots::*;
pub use crate::protocol::sampling::*;
pub use crate::protocol::subscription::*;
pub use crate::protocol::task::*;
pub use crate::protocol::tool::*;
pub use crate::storage_traits::*;
pub use crate::stores::*;
pub use budget::*;
pub use error::*;
pub use file_mode::*;
pub use lock::*;
pub use log_throttle::*;
