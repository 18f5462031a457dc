//! MCP gateway: many servers behind one endpoint, for clients of every protocol version.
//!
//! A [`Gateway`] is a [`Service`](wharf_model::Service), like the proxy of one server: `Server::upstream` of the facade
//! crate mounts it, with transports, middleware, authorization and limits.
//!
//! ```
//! # mod wharf { pub use wharf_client::ClientHandle as Client; pub mod gateway { pub use wharf_gateway::*; } }
//! use wharf::{Client, gateway::{Gateway, GatewayError, NamePrefix, UpstreamServer}};
//!
//! fn gateway(github: Client, files: Client) -> Result<Gateway, GatewayError> {
//!     Gateway::builder()
//!         .names(NamePrefix::Always)
//!         .upstream("github", UpstreamServer::new(github).allow(["get_*", "list_*"]))
//!         .upstream("files", UpstreamServer::new(files).read_only(true))
//!         .build()
//! }
//! # let _ = gateway;
//! ```
//!
//! # Names
//! Public names of tools and prompts are `PREFIX_NAME`, at most 46 characters of `[A-Za-z0-9_-]`. The middle of a longer
//! name is replaced by six characters of its SHA-256. A table leads back from names; they are never parsed. The first
//! owner of a public name keeps it; a later one is [refused](Gateway::refused_names). If more than one server declares
//! resources, their URIs become `PREFIX+scheme:rest`, also in the results of tools and prompts.
//!
//! # Upstream servers
//! The gateway connects to all servers with its first request. One that is slow or unavailable does not delay the others:
//! lists are answered from memory, in the order of configuration, and only the first one waits, at most
//! [5 s](UpstreamServer::list_timeout). A server that appears later, or changes its lists, causes `list_changed` notifications.
//! One that becomes unavailable is tried again after 0.5 s to 60 s. Its tools stay listed for the
//! [grace period](UpstreamServer::grace); calls to them end with an error that names the server. After five failures within 30 s
//! calls fail at once until the server is reached again. If no server is available, lists are errors. Each list has at most
//! 2000 items of one server.
//!
//! All clients share one connection to each server, with the credentials of its client, and all see the lists that the
//! server shows to it. Requests of a server during a call
//! (elicitation, sampling, roots) go to the client of that call. Tasks of servers are followed; the gateway offers
//! no tasks, extensions or custom methods itself.
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod builder;
mod catalog;
mod connector;
mod discovery;
mod driver;
mod filter;
mod gateway;
mod listen;
mod lists;
mod names;
mod snapshot;
mod unavailable;
mod upstream;
mod uris;

pub use crate::builder::{GatewayBuilder, GatewayError, UpstreamServer};
pub use crate::catalog::RefusedName;
pub use crate::connector::UpstreamConnector;
pub use crate::gateway::Gateway;
pub use crate::names::NamePrefix;
