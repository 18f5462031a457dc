//! Write a tool once, as a plain function. Wharf serves it to every client of the Model Context
//! Protocol, of every revision.
//!
//! ```no_run
//! use wharf::prelude::*;
//!
//! /// Adds two numbers.
//! #[tool]
//! async fn add(a: i64, b: i64) -> i64 {
//!     a + b
//! }
//!
//! #[tokio::main]
//! async fn main() -> wharf::Result<()> {
//!     Server::new("adder", "1.0.0").tool::<add>().run().await
//! }
//! ```
//!
//! Arguments come from the signature, descriptions from the doc comments, and the function stays an
//! ordinary function. The same goes for [`#[resource]`](macro@resource) and
//! [`#[prompt]`](macro@prompt); the builders [`Tool`], [`Resource`] and [`Prompt`] do all of it
//! without macros.
//!
//! - A handler takes extractors beside its arguments: [`State`], [`Ctx`], [`Principal`],
//!   [`Extension`], or one of your own ([`Extract`](server::Extract)).
//! - [`Ctx`] sends progress and logs, requests elicitation, sampling or roots from the client, and
//!   remembers effects across the rounds of a call.
//! - [`Server::run`] serves stdin and stdout, or the transport of the command line, such as HTTP.
//!   [`Server::build`] returns an [`Endpoint`] that serves any transport, mounts in your own
//!   application, or handles [one message at a time](Endpoint::handle).
//! - [`Client`] calls any server, over any transport.
//!
//! The root has what most programs name. The rest is in modules: [`server`], [`http`],
//! [`middleware`], [`observe`], [`tasks`], [`store`], [`auth`], [`client`], [`testing`], and [`model`] with the
//! types of the protocol.
//!
//! # Features
//!
//! | feature | contents |
//! | --- | --- |
//! | `server` (default) | servers: [`Server`], handlers, extractors and macros |
//! | `http` (default) | HTTP: the endpoint of servers, and the transport of clients |
//! | `client` | [`Client`] |
//! | `auth` | authorization of callers at servers, and of clients at servers |
//! | `oauth-proxy` | authorization server in front of an identity provider without client registration |
//! | `metrics` (default) | [`Metrics`](observe::Metrics) and the admin listener, [`Server::admin`] |
//! | `otlp` | traces and metrics over OTLP, if the variables of OpenTelemetry name a receiver: `observe::Otlp` |
//! | `otel` | spans with the OpenTelemetry SDK of the application: `observe::OpenTelemetrySpans` |
//! | `logs` (default) | [`Logs`](observe::Logs): log lines on stderr, for every server that ends in [`Server::run`] |
//! | `skills` | [`skills`]: directories of instructions for models |
//! | `gateway` | [`gateway`]: many upstream servers behind one server |
//! | `server-card` | [`server_card`]: the description by which clients find a server, `Server::card` |
//! | `apps` (default) | [`apps`]: HTML pages that hosts show for tools |
//! | `axum`, `tower` | mounting in an axum application; tower layers as middleware |
//! | `websocket`, `tls` | WebSocket; HTTPS |
//! | `sqlite`, `redis`, `redis-tls` | stores that outlive the process, or are shared by many |
//!
//! A program that only calls servers takes `default-features = false` with `client` and `http`, and
//! does not compile the server side.
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "apps")]
pub mod apps;
#[cfg(any(feature = "auth", feature = "http"))]
pub mod auth;
#[cfg(feature = "client")]
pub mod client;
#[cfg(feature = "gateway")]
pub mod gateway;
#[cfg(all(feature = "http", feature = "server"))]
pub mod http;
#[cfg(feature = "server")]
pub mod middleware;
pub mod model;
pub mod observe;
pub mod prelude;
mod protocol_version;
mod run_error;
#[cfg(feature = "server")]
pub mod server;
#[cfg(feature = "server-card")]
pub mod server_card;
#[cfg(feature = "skills")]
pub mod skills;
#[cfg(feature = "server")]
pub mod store;
pub mod tasks;
#[cfg(feature = "server")]
pub mod testing;

#[cfg(feature = "client")]
pub use crate::client::calls::Client;
pub use crate::protocol_version::{Era, ProtocolVersion};
pub use crate::run_error::{Result, RunError};
#[cfg(feature = "server")]
pub use crate::server::{Endpoint, Server};
#[cfg(feature = "client")]
pub use wharf_client::args;
#[cfg(feature = "server")]
pub use wharf_macros::{prompt, resource, tool};
pub use wharf_model::{CompletionRequest, Content, Error, ErrorKind, Principal, ToolResult};
#[cfg(feature = "server")]
pub use wharf_server::{
    Args, Ctx, Extension, Json, Prompt, RawArgs, Resource, State, Tool, ToolError, Uri,
};

/// Compiles the examples of the README and of the guide.
#[cfg(doctest)]
mod guide;

/// Items that macro-generated code refers to. Not for direct use.
#[cfg(feature = "server")]
#[doc(hidden)]
pub mod __private {
    pub use wharf_model::{Error, Icon, Role};
    pub use wharf_server::{
        Args, Declaration, Extract, Extractor, Incoming, Prompt, PromptFn, Resource, ResourceFn,
        TaskMode, Tool, ToolFn, extractor,
    };
    pub use {schemars, serde, serde_json};
}
