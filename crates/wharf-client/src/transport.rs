//! The way to a server.

use std::sync::{Arc, Weak};

use serde_json::value::RawValue;
use wharf_model::{
    BoxFuture, Discovery, Error, Implementation, LogLevel, Notification, Outbox, RequestExtensions,
    Service,
};

/// What a server said about itself.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ServerInfo {
    /// Its name and version.
    pub info: Implementation,
    /// What it can do, and how a model should use it.
    pub discovery: Discovery,
    /// The date of the protocol revision spoken with it; empty within one process.
    pub revision: String,
    /// Every revision it says it speaks; empty if it did not say.
    pub supported: Vec<String>,
}

impl ServerInfo {
    /// A server that calls itself `info` and can do what `discovery` says.
    #[must_use]
    pub fn new(info: Implementation, discovery: Discovery) -> Self {
        ServerInfo { info, discovery, ..ServerInfo::default() }
    }
}

/// Something to get done that the eras do in ways of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ControlRequest {
    /// See whether the server answers.
    Ping,
    /// Log messages outside of calls: the least grave that is wanted.
    LogLevel(LogLevel),
    /// Say that the client's roots are others now.
    RootsChanged,
}

/// Hears what a server says outside of any call and any listen.
pub trait NotificationListener: Send + Sync + 'static {
    /// Called for each such notification, in order. Must not block.
    fn on_notification(&self, notification: &Notification);
}

/// A way to a server: a service that knows who is at the other end.
///
/// A call's notifications and questions go to its own outbox, and dropping the call cancels it
/// there. A link finds its way back by itself where it can; a call that was under way when the
/// connection broke ends with [`ConnectionClosed`](wharf_model::ErrorKind::ConnectionClosed).
pub trait ClientTransport: Service {
    /// What the server said about itself, the last time it did.
    fn about(&self) -> Arc<ServerInfo>;

    /// Any request by its name: the JSON text of its result. `params` is a JSON object.
    fn request(
        &self,
        method: String,
        params: Option<Box<RawValue>>,
        outbox: Outbox,
    ) -> BoxFuture<Result<Box<RawValue>, Error>>;

    /// Does what the eras do in ways of their own; nothing where an era has no need of it.
    fn run(&self, control: ControlRequest) -> BoxFuture<Result<(), Error>>;

    /// Lets `listener` hear what the server says outside of calls, as long as anybody else holds it.
    fn add_listener(&self, listener: Weak<dyn NotificationListener>);

    /// What requests of the caller's own carry beside their message, for a service in the same
    /// process. Requests that are relayed for others carry what theirs did.
    fn scope(&self) -> RequestExtensions {
        RequestExtensions::new()
    }

    /// Whether arguments are mirrored into headers, so that tools with annotations nobody can
    /// follow must not be used.
    fn sends_param_headers(&self) -> bool {
        false
    }

    /// Ends the conversation in good order.
    fn close(&self) -> BoxFuture<()>;
}
