//! Typed client for servers of any protocol version, over any transport.
//!
//! [`Client`] connects to a [`Target`] and calls the server. [`ClientBuilder`] configures it: its
//! identity, its timeouts, and its [`ClientHandler`] for requests of the server.
//!
//! ```no_run
//! # async fn example() -> wharf::Result<()> {
//! use wharf::{Client, args};
//!
//! let client = Client::connect("https://example.com/mcp").await?;
//! let sum: i64 = client.call_as("add", args! { a: 1, b: 2 }).await?;
//! # drop(sum);
//! # Ok(())
//! # }
//! ```

mod builder;
pub(crate) mod calls;
pub mod config;
mod connect;
mod connect_timeout;
mod connection_options;
#[cfg(feature = "server")]
mod proxy;
#[cfg(feature = "skills")]
mod skills;
mod target;
mod url_scheme;

pub use builder::ClientBuilder;
pub(crate) use calls::Client;
pub use target::Target;
pub use wharf_client::{
    CallBuilder, CallError, CallOptions, ClientExtension, ClientHandler, ClientHandlerBuilder,
    ClientTransport, ConnectError, ControlRequest, Listable, LogMessage, NotificationListener,
    PagedList, Progress, RequestList, ServerInfo, Subscription, TimeoutKind,
};
pub use wharf_connect::{ConnectionError, HostConnector, Origin};
pub use wharf_transport::client::{
    ChildCommand, ClientLimits, Deadline, Environment, Stderr, StreamConnector, TraceEvent,
    kill_children,
};
