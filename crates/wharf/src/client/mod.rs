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
mod calls;
pub mod config;
mod connect_timeout;
#[cfg(feature = "server")]
mod proxy;
mod target;

use std::fmt;

use wharf_client::ClientHandle;
use wharf_model::Error;

pub use builder::ClientBuilder;
pub use target::Target;
pub use wharf_client::{
    CallBuilder, CallOptions, ClientHandler, ClientHandlerBuilder, ClientTransport, ControlRequest,
    Listable, LogMessage, NotificationListener, PagedList, Progress, ServerInfo, Subscription,
};
pub use wharf_transport::client::{
    ChildCommand, ClientLimits, Deadline, Environment, Stderr, StreamConnector, TraceEvent,
};

/// Connected client: typed calls to one server, of any protocol version.
///
/// Clones share the connection. [`close`](Client::close) shuts it down gracefully; dropping the
/// last clone ends it, too.
///
/// ```
/// use wharf::{Client, args, prelude::*};
///
/// /// Adds two numbers.
/// #[tool]
/// async fn add(a: i64, b: i64) -> i64 {
///     a + b
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> wharf::Result<()> {
/// // A URL or a command to start would do as well.
/// let server = Server::new("adder", "1.0.0").tool::<add>().build()?;
/// let client = Client::connect(server).await?;
///
/// let sum: i64 = client.call_as("add", args! { a: 1, b: 2 }).await?;
/// assert_eq!(sum, 3);
/// # Ok(())
/// # }
/// ```
// A type of its own, because `connect` and `builder` need the transports, on which `wharf-client`
// does not depend.
#[derive(Clone)]
pub struct Client(ClientHandle);

impl Client {
    /// Connects to a server, negotiates the protocol version, and reads its capabilities.
    ///
    /// ```no_run
    /// # async fn example() -> wharf::Result<()> {
    /// use wharf::{Client, client::ChildCommand};
    ///
    /// let remote = Client::connect("https://example.com/mcp").await?;
    /// let local = Client::connect(ChildCommand::new("npx").args(["-y", "some-server"])).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If there is no such server, or no protocol version is shared with it.
    pub async fn connect(target: impl Into<Target>) -> Result<Client, Error> {
        Client::builder().connect(target).await
    }

    /// Builder of a client: its identity, its handler for server requests, its timeouts.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::new()
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("server", &self.about().info.name).finish_non_exhaustive()
    }
}
