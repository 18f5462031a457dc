//! [`UpstreamConnector`]: opens the connection to an upstream server.

use std::{fmt, future::Future, sync::Arc};

use wharf_client::ClientHandle;
use wharf_model::{BoxFuture, ConnectError};

type Connect = dyn Fn() -> BoxFuture<Result<ClientHandle, ConnectError>> + Send + Sync;

/// Function that connects to an upstream server. The gateway calls it when it starts, and again when the connection
/// is lost for good.
///
/// The facade crate makes one of each `Target`: a URL, a command to start, a server in this process.
///
/// ```
/// # mod wharf { pub use wharf_client::ClientHandle; pub mod client { pub use wharf_client::*; } pub mod gateway { pub use wharf_gateway::*; } }
/// use wharf::{client::ConnectError, gateway::{Gateway, UpstreamConnector}};
///
/// # fn example(client: wharf::ClientHandle) {
/// let connected = UpstreamConnector::new(move || {
///     let client = client.clone();
///     async move { Ok::<_, ConnectError>(client) }
/// });
/// let builder = Gateway::builder().upstream("github", connected);
/// # let _ = builder;
/// # }
/// ```
#[derive(Clone)]
pub struct UpstreamConnector(Arc<Connect>);

impl UpstreamConnector {
    /// Creates a connector from a function, which returns a `Client` of the facade crate or its handle.
    pub fn new<F, C>(connect: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<C, ConnectError>> + Send + 'static,
        C: Into<ClientHandle>,
    {
        UpstreamConnector(Arc::new(move || {
            let connecting = connect();
            Box::pin(async move { connecting.await.map(Into::into) })
        }))
    }

    pub(crate) fn connect(&self) -> BoxFuture<Result<ClientHandle, ConnectError>> {
        (self.0)()
    }
}

/// A client that is connected already. It is not connected again if its transport cannot reconnect.
impl From<ClientHandle> for UpstreamConnector {
    fn from(client: ClientHandle) -> Self {
        UpstreamConnector::new(move || {
            let client = client.clone();
            async move { Ok::<_, ConnectError>(client) }
        })
    }
}

impl fmt::Debug for UpstreamConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UpstreamConnector").finish_non_exhaustive()
    }
}
