//! Typed calls to any server, over any [`Link`].
//!
//! Nothing here does I/O or names a protocol revision: a link is a [`Service`](wharf_model::Service)
//! that also knows who is at the other end.
#![forbid(unsafe_code)]

mod link;

pub use link::{About, Ear, Errand, Link};
