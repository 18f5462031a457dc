//! A server in front of another.

use super::Client;
use crate::Server;

/// A proxy: it offers what the client's server offers, to clients of every revision and over every
/// transport, and passes each call on. Limits, layers and transports are its own.
///
/// What the other server asks in the middle of a call goes to the proxy's own client where it can
/// be asked, so connect with the [capabilities](crate::ClientBuilder::capabilities) that those
/// clients have.
///
/// ```no_run
/// # async fn example() -> wharf::Result<()> {
/// use wharf::{ChildCommand, Client, Server};
///
/// let old = Client::connect(ChildCommand::new("some-stdio-server")).await?;
/// Server::from(old).serve_http("127.0.0.1:8000").await?;
/// # Ok(())
/// # }
/// ```
impl From<Client> for Server {
    fn from(client: Client) -> Self {
        let info = client.about().info.clone();
        Server::about(info).upstream(client.relay())
    }
}
