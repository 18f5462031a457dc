//! [`ClientTransport`]: the connection of a client to a server.

use std::sync::{Arc, Weak};

use serde_json::value::RawValue;
use wharf_model::{
    BoxFuture, Discovery, Error, Implementation, LogLevel, Notification, Outbox, RequestExtensions,
    Service,
};

/// Description of a server.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ServerInfo {
    /// Its name and version.
    pub info: Implementation,
    /// Its capabilities, and instructions for models.
    pub discovery: Discovery,
    /// The negotiated protocol revision, as a date; empty within one process.
    pub revision: String,
    /// Every revision that the server declares; empty if it declares none.
    pub supported: Vec<String>,
}

impl ServerInfo {
    /// A server with this name, version and discovery result.
    #[must_use]
    pub fn new(info: Implementation, discovery: Discovery) -> Self {
        ServerInfo { info, discovery, ..ServerInfo::default() }
    }
}

/// A request that each era implements differently.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ControlRequest {
    /// Check that the server responds.
    Ping,
    /// Set the lowest severity of log messages outside of calls.
    LogLevel(LogLevel),
    /// Notify the server that the client's roots have changed.
    RootsChanged,
}

/// Receives notifications outside of any call and any subscription.
pub trait NotificationListener: Send + Sync + 'static {
    /// Called for each such notification, in order. Must not block.
    fn on_notification(&self, notification: &Notification);
}

/// The connection of a client to a server: a service that also describes its server.
///
/// Notifications and requests that belong to a call go to its outbox. Dropping the call cancels it
/// on the server. A transport reconnects by itself if it can; a call in flight when the connection
/// broke ends with [`ConnectionClosed`](wharf_model::ErrorKind::ConnectionClosed).
pub trait ClientTransport: Service {
    /// The server's description from the last handshake.
    fn about(&self) -> Arc<ServerInfo>;

    /// Sends any request by its method name and returns the result as JSON text. `params` is a JSON
    /// object.
    fn request(
        &self,
        method: String,
        params: Option<Box<RawValue>>,
        outbox: Outbox,
    ) -> BoxFuture<Result<Box<RawValue>, Error>>;

    /// Runs a control request; does nothing in eras that do not need it.
    fn run(&self, control: ControlRequest) -> BoxFuture<Result<(), Error>>;

    /// Adds a listener for notifications outside of calls. It is dropped with its last strong
    /// reference.
    fn add_listener(&self, listener: Weak<dyn NotificationListener>);

    /// Extensions of the client's own requests, for a service in the same process. Requests
    /// forwarded by a proxy keep the extensions of the downstream request.
    fn scope(&self) -> RequestExtensions {
        RequestExtensions::new()
    }

    /// Returns whether arguments are sent as `Mcp-Param-*` headers. If so, tools with invalid
    /// header annotations must not be used.
    fn sends_param_headers(&self) -> bool {
        false
    }

    /// Closes the connection gracefully.
    fn close(&self) -> BoxFuture<()>;
}
