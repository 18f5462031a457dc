//! Official extensions of the Model Context Protocol, built on the public extension API of Wharf.
//!
//! Applications use them through the crate `wharf-mcp`.
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "apps")]
pub mod apps;
pub mod server_card;
#[cfg(feature = "skills")]
pub mod skills;
