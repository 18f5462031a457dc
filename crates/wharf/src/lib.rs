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
//!   [`Extension`], or one of your own ([`Extract`]).
//! - [`Ctx`] sends progress and logs, requests elicitation, sampling or roots from the client, and
//!   remembers effects across the rounds of a call.
//! - [`Server::run`] serves stdin and stdout, or the transport of the command line, such as HTTP.
//!   [`Server::build`] returns an [`Endpoint`] that serves any transport, mounts in your own
//!   application, or handles [one message at a time](Endpoint::handle).
#![forbid(unsafe_code)]

#[cfg(feature = "client")]
mod client;
mod command_line;
mod endpoint;
mod failure;
#[cfg(feature = "http")]
mod http;
mod protocol_version;
mod reply_stream;
mod server;

pub use crate::protocol_version::{ProtocolVersion, UnknownRevision};
pub use crate::reply_stream::ReplyStream;
#[cfg(feature = "client")]
pub use client::{Client, ClientBuilder, Target, config};
pub use command_line::Transport;
pub use endpoint::{ClientEnd, Endpoint};
pub use failure::{Result, RunError};
pub use server::{Era, Server};

/// Authorization of HTTP callers, and of clients at servers.
#[cfg(feature = "auth")]
pub use wharf_auth as auth;
#[cfg(feature = "client")]
pub use wharf_client::{
    CallBuilder, CallOptions, ClientHandle, ClientHandler, ClientHandlerBuilder, ClientTransport,
    ControlRequest, LogMessage, NotificationListener, PagedList, Progress, ServerInfo,
    Subscription, TaskChanges, TaskHandle, args, task_json,
};
pub use wharf_macros::{prompt, resource, tool};
/// The complete model, for your own transports, gateways and services.
pub use wharf_model as model;
pub use wharf_model::{
    Annotations, BoxFuture, Budget, CacheHint, CacheScope, ChangeVersion, ClientCapabilities,
    ClientCapability, ClientInfo, ClientRequest, Completion, CompletionRef, Content, ElicitAction,
    ElicitForm, ElicitResult, ElicitUrl, EmbeddedResource, Error, ErrorKind, Icon, Implementation,
    InputMode, JsonObject, JsonText, LazyJson, ListCapability, LogLevel, Media, Meta, Method,
    ModelHint, ModelPreferences, NonceStore, Notification, Outbox, Outcome, Page, Peer, Principal,
    PromptArgument, PromptInfo, PromptMessage, PromptResult, Rate, RateStore, ReadResult,
    RemoteAddress, Reply, Request, RequestBuilder, RequestExtensions, ResourceContents,
    ResourceInfo, ResourcesCapability, Role, Root, SamplingMessage, SamplingRequest,
    SamplingResult, ServerCapabilities, Service, StateCipher, Stores, SubscriptionFilter, Task,
    TaskState, TaskStatus, TaskSupport, TemplateInfo, Text, Timer, Timestamp, ToolAnnotations,
    ToolChoice, ToolInfo, ToolResult, ToolResultContent, ToolUse,
};
pub use wharf_server::*;
/// Stores of a server: in memory, in SQLite, on Redis.
pub use wharf_store as store;
#[cfg(feature = "client")]
pub use wharf_transport::client::{
    ChildCommand, ClientLimits, Deadline, Environment, Stderr, TraceEvent,
};
#[cfg(feature = "tls")]
pub use wharf_transport::server::http::Tls;
#[cfg(feature = "http")]
pub use wharf_transport::server::http::{
    Http, HttpBody, HttpLimits, HttpService, InvalidNetwork, Network, Streaming,
};
pub use wharf_transport::{LineLimits, Shutdown, ThreadTimer, TokioTimer};
pub use wharf_wire::{ErrorProfile, ProtocolLimits};

/// Common imports of servers: `use wharf::prelude::*;`.
pub mod prelude {
    pub use crate::{
        Args, ClientRequestError, Completing, Completion, Content, Ctx, Error, ErrorKind,
        Extension, Icon, Json, LogLevel, Principal, Prompt, PromptMessage, RawArgs, Resource,
        ResourceContents, Role, SamplingMessage, SamplingRequest, Server, State, Tool, ToolError,
        ToolResult, Uri, prompt, resource, tool,
    };
    pub use schemars::JsonSchema;
    pub use serde::{Deserialize, Serialize};
}

/// Compiles the examples of the guide.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/tasks.md")]
struct TasksGuide;

/// Compiles the examples of the guide.
#[cfg(all(doctest, feature = "axum"))]
#[doc = include_str!("../../../docs/http.md")]
struct HttpGuide;

/// Compiles the examples of the guide.
#[cfg(all(doctest, feature = "auth", feature = "client"))]
#[doc = include_str!("../../../docs/authorization.md")]
struct AuthorizationGuide;
#[cfg(all(doctest, feature = "oauth-proxy"))]
#[doc = include_str!("../../../docs/oauth-proxy.md")]
struct OAuthProxyGuide;

/// Items that macro-generated code refers to. Not for direct use.
#[doc(hidden)]
pub mod __private {
    pub use {schemars, serde, serde_json};
}
