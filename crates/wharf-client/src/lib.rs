//! Typed calls to any server, over any [`Link`].
//!
//! Nothing here does I/O or names a protocol revision: a link is a [`Service`](wharf_model::Service)
//! that also knows who is at the other end. A [`Caller`] makes requests over it, answers what the
//! server asks on the way with an [`Answer`], and knows what may be kept and what may be repeated.
#![forbid(unsafe_code)]

mod answer;
mod args;
mod asks;
mod cache;
mod caller;
mod calling;
mod engine;
mod link;
mod listening;
mod listing;
mod local;
mod memory;
mod options;
mod overheard;
mod pages;
mod parked;
mod raw;
mod read;
mod relay;
mod round;
mod spec;
mod task;
mod tasks;
mod through;
mod tokens;
mod tools;
mod wait;

pub use answer::{Answer, Answers};
pub use asks::answer_to;
pub use caller::Caller;
pub use calling::{Calling, LogMessage, Progress};
pub use link::{About, Ear, Errand, Link};
pub use listening::Listening;
pub use listing::{Listed, Listing};
pub use local::{local, local_with};
pub use options::CallOptions;
pub use task::{TaskChanges, TaskHandle, task_json};

/// What [`args!`] expands to.
#[doc(hidden)]
pub mod __private {
    pub use serde_json::{Map, Value, json};
    pub use std::string::String;
}
