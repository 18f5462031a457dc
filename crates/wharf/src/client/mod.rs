//! A typed client for every server, of any revision and over any transport.

mod builder;
pub mod config;
mod connect_timeout;
mod proxy;
mod target;

use std::{fmt, ops::Deref};

use wharf_client::ClientHandle;
use wharf_model::Error;

pub use builder::ClientBuilder;
pub use target::Target;

/// A connected client: typed calls to one server, whatever it speaks.
///
/// What can be called is on [`ClientHandle`], which this stands for. Clones share the connection, and
/// [`close`](Caller::close) ends it in good order; a client that is dropped ends it anyhow.
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
#[derive(Clone)]
pub struct Client(ClientHandle);

impl Client {
    /// Connects to a server: finds out what it speaks, and what it offers.
    ///
    /// ```no_run
    /// # async fn example() -> wharf::Result<()> {
    /// use wharf::{ChildCommand, Client};
    ///
    /// let remote = Client::connect("https://example.com/mcp").await?;
    /// let local = Client::connect(ChildCommand::new("npx").args(["-y", "some-server"])).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If there is no such server, or it and we have no revision in common.
    pub async fn connect(target: impl Into<Target>) -> Result<Client, Error> {
        Client::builder().connect(target).await
    }

    /// A client in the making: who it is, how it answers servers, how long it waits.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::new()
    }
}

impl Deref for Client {
    type Target = ClientHandle;

    fn deref(&self) -> &ClientHandle {
        &self.0
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("server", &self.about().info.name).finish_non_exhaustive()
    }
}
