//! Gateway: many upstream servers behind one server.
//!
//! ```
//! use wharf::{Client, args, client::Target, gateway::Gateway, prelude::*};
//!
//! /// Adds two numbers.
//! #[tool]
//! async fn add(a: i64, b: i64) -> i64 {
//!     a + b
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> wharf::Result<()> {
//! let adder = Server::new("adder", "1.0.0").tool::<add>().build()?;
//! let gateway = Gateway::builder()
//!     .upstream("math", Target::from(adder))
//!     // Unreachable: the other one works nevertheless.
//!     .upstream("docs", Target::from("http://127.0.0.1:9/mcp"))
//!     .build()?;
//!
//! // A URL, a command to start or a configuration entry are targets, too. The gateway takes the place of a single
//! // upstream server: `run` and `serve_http` work as always.
//! let server = Server::new("gateway", "1.0.0").upstream(gateway).build()?;
//! let client = Client::connect(server).await?;
//! let sum: i64 = client.call_as("math_add", args! { a: 1, b: 2 }).await?;
//! assert_eq!(sum, 3);
//! # Ok(())
//! # }
//! ```

use wharf_client::ClientHandle;
use wharf_model::{ClientCapabilities, ElicitationCapability, RootsCapability, SamplingCapability};

use crate::client::{Client, Target};

pub use wharf_gateway::{
    Gateway, GatewayBuilder, GatewayError, NamePrefix, RefusedName, UpstreamConnector,
    UpstreamServer,
};

/// Connects to the target with a client that passes on elicitation, sampling and roots. For other options, connect with
/// a [`ClientBuilder`](crate::client::ClientBuilder) in [`UpstreamConnector::new`].
impl From<Target> for UpstreamConnector {
    fn from(target: Target) -> Self {
        UpstreamConnector::new(move || {
            let target = target.clone();
            async move {
                let capabilities = ClientCapabilities::default()
                    .roots(RootsCapability::default().list_changed(true))
                    .sampling(SamplingCapability::default().tools(true).context(true))
                    .elicitation(ElicitationCapability::default().form(true).url(true));
                Client::builder().capabilities(capabilities).connect(target).await
            }
        })
    }
}

impl From<Client> for ClientHandle {
    fn from(client: Client) -> Self {
        client.0
    }
}

/// A client that is connected already.
impl From<Client> for UpstreamConnector {
    fn from(client: Client) -> Self {
        ClientHandle::from(client).into()
    }
}
