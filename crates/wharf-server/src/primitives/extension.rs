//! Extensions of the protocol.

use std::{any::TypeId, fmt};

use serde_json::Value;
use wharf_model::Meta;

use crate::{
    builder::server_parts::ServerParts,
    handler::{Handler, extract::Extract, into_method_result::IntoMethodResult},
    primitives::custom_method::CustomMethod,
};

/// Extension of the protocol: its identifier, its settings, its methods, and its notifications in both directions.
///
/// The server declares it under `capabilities.extensions`, in every revision. Its methods are answered whether or
/// not the client declares it; notifications are sent only to clients that do.
///
/// ```
/// # mod wharf { pub use {wharf_model::*, wharf_server::*}; pub mod server { pub use super::*; } }
/// use serde_json::json;
/// use wharf::{Json, server::{ProtocolExtension, Router}};
///
/// let tides = ProtocolExtension::new("com.example/tides")
///     .setting("unit", "metre")
///     .method("tides/now", async || Json(json!({"height": 3})));
/// let router = Router::builder().extension(tides).build()?;
/// # let _ = router;
/// # Ok::<(), wharf::server::BuildError>(())
/// ```
#[must_use]
pub struct ProtocolExtension {
    pub(crate) id: String,
    pub(crate) settings: Meta,
    pub(crate) methods: Vec<CustomMethod>,
    /// Names of notifications that the server may send.
    pub(crate) notifications: Vec<String>,
    pub(crate) prepare: Option<PrepareParts>,
}

/// Function of an extension that checks and completes the parts of a server.
pub(crate) struct PrepareParts {
    /// Type of the function: one that the server and a part bring runs once.
    pub(crate) function: TypeId,
    pub(crate) run: Box<dyn FnOnce(&mut ServerParts<'_>) + Send>,
}

impl ProtocolExtension {
    /// Creates an extension without settings and methods. Its identifier is a domain in reverse, `/` and a
    /// name, such as `com.example/tides`.
    pub fn new(id: impl Into<String>) -> Self {
        let (methods, notifications) = (Vec::new(), Vec::new());
        let settings = Meta::new();
        ProtocolExtension { id: id.into(), settings, methods, notifications, prepare: None }
    }

    /// Sets a setting that clients read.
    pub fn setting(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.settings.insert(name.into(), value.into());
        self
    }

    /// Adds a method, as [`RouterBuilder::method`](crate::RouterBuilder::method) does.
    pub fn method<A, F>(self, name: impl Into<String>, handler: F) -> Self
    where
        F: Handler<A>,
        F::Output: IntoMethodResult,
        A: Extract + 'static,
    {
        self.custom_method(CustomMethod::new(name, handler))
    }

    /// Receives a notification of clients: an async function of the same extractors as a method. Its result is
    /// discarded, and it cannot send to the client.
    pub fn on_notification<A, F>(self, name: impl Into<String>, handler: F) -> Self
    where
        F: Handler<A>,
        F::Output: IntoMethodResult,
        A: Extract + 'static,
    {
        self.custom_method(CustomMethod::new(name, handler).receives_notification())
    }

    /// Declares a notification that the server sends: [`Ctx::notify`](crate::Ctx::notify) during a call,
    /// [`Registry::notify`](crate::Registry::notify) at any time.
    pub fn notification(mut self, name: impl Into<String>) -> Self {
        self.notifications.push(name.into());
        self
    }

    /// Checks and completes the parts of the server when it is built; replaces an earlier function. Parts that are
    /// added to the running server are not among them. If the server adds the extension itself and a part brings it too,
    /// both functions run, or once if they are the same; the settings are those of the server.
    pub fn prepare<F>(mut self, prepare: F) -> Self
    where
        F: FnOnce(&mut ServerParts<'_>) + Send + 'static,
    {
        self.prepare = Some(PrepareParts { function: TypeId::of::<F>(), run: Box::new(prepare) });
        self
    }

    /// Adds a method with scopes or a timeout.
    pub fn custom_method(mut self, method: CustomMethod) -> Self {
        self.methods.push(method);
        self
    }
}

impl fmt::Debug for ProtocolExtension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProtocolExtension").field("id", &self.id).finish_non_exhaustive()
    }
}
