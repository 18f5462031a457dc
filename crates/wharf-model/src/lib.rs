//! The nouns of the Model Context Protocol, and the seam every part of Wharf meets at.
//!
//! Nothing here does I/O, knows a runtime or names a protocol revision. A [`Request`] goes into a
//! [`Service`] together with an [`Outbox`] for what happens on the way, and ends with one
//! [`Outcome`]. An [`Exchange`] is one such call in progress.
#![forbid(unsafe_code)]

mod ask;
mod authority;
mod budget;
mod builders;
mod cache;
mod call;
mod caller;
mod capability;
mod completion;
mod content;
mod credentials;
mod elicit;
mod error;
mod exchange;
mod extra;
mod file_mode;
mod implementation;
mod json_object;
mod json_text;
mod lazy_json;
mod listen;
mod log;
mod log_throttle;
mod mirrored;
mod outbox;
mod outcome;
mod ports;
mod principal;
mod prompt;
mod request;
mod resource;
mod roots;
mod sampling;
mod scope;
mod service;
mod task;
mod tool;

pub use ask::*;
pub use authority::*;
pub use budget::*;
pub use cache::*;
pub use call::*;
pub use caller::*;
pub use capability::*;
pub use completion::*;
pub use content::*;
pub use credentials::*;
pub use elicit::*;
pub use error::*;
pub use exchange::*;
pub use extra::*;
pub use file_mode::*;
pub use implementation::*;
pub use json_object::JsonObject;
pub use json_text::*;
pub use lazy_json::*;
pub use listen::*;
pub use log::*;
pub use log_throttle::*;
pub use mirrored::*;
pub use outbox::*;
pub use outcome::*;
pub use ports::*;
pub use principal::*;
pub use prompt::*;
pub use request::*;
pub use resource::*;
pub use roots::*;
pub use sampling::*;
pub use scope::*;
pub use service::*;
pub use task::*;
pub use tool::*;
