//! [`ClientTransport`]: the connection of a client to a server.

use std::sync::{Arc, Weak};

use serde_json::value::RawValue;
use wharf_model::{
    BoxFuture, CustomNotification, Discovery, Error, Implementation, LogLevel, Notification,
    Outbox, RequestExtensions, Service,
};

/// Description of a server.
///
/// ```
/// # mod wharf { pub use {wharf_client::*, wharf_model::*}; pub mod client { pub use super::*; } pub mod model { pub use super::*; } }
/// use wharf::{client::ServerInfo, model::{Discovery, Implementation}};
///
/// let server = Implementation::new("harbour", "1.0.0");
/// let info = ServerInfo::new(server, Discovery::default()).revision("2025-06-18");
/// assert_eq!(info.revision, "2025-06-18");
/// ```
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

    /// Sets the negotiated protocol revision, as a date.
    #[must_use]
    pub fn revision(mut self, date: impl Into<String>) -> Self {
        self.revision = date.into();
        self
    }

    /// Sets the revisions that the server declares, as dates.
    #[must_use]
    pub fn supported(mut self, dates: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.supported = dates.into_iter().map(Into::into).collect();
        self
    }
}

/// A request that each era implements differently.
///
/// ```
/// # mod wharf { pub use {wharf_client::*, wharf_model::*}; pub mod client { pub use super::*; } }
/// use wharf::{Error, client::{ClientTransport, ControlRequest}};
///
/// async fn is_alive(transport: &dyn ClientTransport) -> bool {
///     transport.run(ControlRequest::Ping).await.is_ok()
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ControlRequest {
    /// Check that the server responds.
    Ping,
    /// Set the lowest severity of log messages outside of calls.
    LogLevel(LogLevel),
    /// Notify the server that the client's roots have changed.
    RootsChanged,
    /// Send a notification of an extension.
    Notify(CustomNotification),
}

/// Receives notifications outside of any call and any subscription.
///
/// ```
/// # mod wharf { pub use {wharf_client::*, wharf_model::*}; pub mod client { pub use super::*; } pub mod model { pub use super::*; } }
/// use std::sync::{Arc, atomic::{AtomicUsize, Ordering}};
/// use wharf::{client::{ClientTransport, NotificationListener}, model::Notification};
///
/// #[derive(Default)]
/// struct Count(AtomicUsize);
///
/// impl NotificationListener for Count {
///     fn on_notification(&self, _: &Notification) {
///         self.0.fetch_add(1, Ordering::Relaxed);
///     }
/// }
///
/// /// Counts until the result is dropped.
/// fn count(transport: &dyn ClientTransport) -> Arc<Count> {
///     let count = Arc::new(Count::default());
///     let listener: Arc<dyn NotificationListener> = count.clone();
///     transport.add_listener(Arc::downgrade(&listener));
///     count
/// }
/// ```
pub trait NotificationListener: Send + Sync + 'static {
    /// Called for each such notification, in order. Must not block.
    fn on_notification(&self, notification: &Notification);
}

/// The connection of a client to a server: a service that also describes its server.
///
/// Notifications and requests that belong to a call go to its outbox. Dropping the call cancels it
/// on the server. A transport reconnects by itself if it can; a call in flight when the connection
/// broke ends with a [`CallError::transport`](crate::CallError::transport), as
/// [`into_outcome_error`](crate::CallError::into_outcome_error) carries it. An [`Error`] without such
/// an origin counts as one that the server sent.
///
/// An `Arc` of a transport of your own is a target for a client. One that wraps another forwards
/// all methods, those with a default too:
///
/// ```
/// # mod wharf { pub use {wharf_client::*, wharf_model::*}; pub mod client { pub use super::*; } pub mod model { pub use super::*; } }
/// use std::sync::{Arc, Weak, atomic::{AtomicUsize, Ordering}};
/// use serde_json::value::RawValue;
/// use wharf::{
///     Error,
///     client::{ClientTransport, ControlRequest, NotificationListener, ServerInfo},
///     model::{BoxFuture, ChangeVersion, Outbox, Outcome, Request, RequestExtensions, Service},
/// };
///
/// /// Counts the calls.
/// struct Counting {
///     inner: Arc<dyn ClientTransport>,
///     calls: AtomicUsize,
/// }
///
/// impl Service for Counting {
///     fn call(&self, request: Request, outbox: Outbox) -> BoxFuture<Outcome> {
///         self.calls.fetch_add(1, Ordering::Relaxed);
///         self.inner.call(request, outbox)
///     }
///
///     fn change_version(&self) -> Option<ChangeVersion> {
///         self.inner.change_version()
///     }
/// }
///
/// impl ClientTransport for Counting {
///     fn about(&self) -> Arc<ServerInfo> {
///         self.inner.about()
///     }
///
///     fn request(
///         &self,
///         method: String,
///         params: Option<Box<RawValue>>,
///         outbox: Outbox,
///     ) -> BoxFuture<Result<Box<RawValue>, Error>> {
///         self.inner.request(method, params, outbox)
///     }
///
///     fn run(&self, control: ControlRequest) -> BoxFuture<Result<(), Error>> {
///         self.inner.run(control)
///     }
///
///     fn add_listener(&self, listener: Weak<dyn NotificationListener>) {
///         self.inner.add_listener(listener);
///     }
///
///     fn scope(&self) -> RequestExtensions {
///         self.inner.scope()
///     }
///
///     fn sends_param_headers(&self) -> bool {
///         self.inner.sends_param_headers()
///     }
///
///     fn close(&self) -> BoxFuture<()> {
///         self.inner.close()
///     }
/// }
/// ```
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

    /// Returns whether listeners are notified at all. Without them, notifications reach their call or subscription
    /// only.
    fn has_listeners(&self) -> bool {
        true
    }

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
