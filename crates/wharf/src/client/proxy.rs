//! Proxy in front of another server.

use super::Client;
use crate::Server;

/// Proxy: it offers the features of the upstream server to clients of every protocol version and
/// over every transport, and forwards each call. It has its own limits, middleware and transports.
///
/// Requests of the upstream server during a call are forwarded to the downstream client if it
/// supports them, so connect with the [capabilities](crate::client::ClientBuilder::capabilities) of those
/// clients.
///
/// At the end of a [run](Server::run) the client is closed, which ends a server that it started. A server that is
/// [built](Server::build) keeps the client as long as it exists.
///
/// ```no_run
/// # async fn example() -> wharf::Result<()> {
/// use wharf::{Client, Server, client::ChildCommand};
///
/// let old = Client::connect(ChildCommand::new("some-stdio-server")).await?;
/// Server::from(old).serve_http("127.0.0.1:8000").await?;
/// # Ok(())
/// # }
/// ```
impl From<Client> for Server {
    fn from(client: Client) -> Self {
        let info = client.about().info.clone();
        let server = Server::about(info).upstream(client.relay());
        server.at_end(async move { client.close().await })
    }
}
