//! [`ClientExtension`]: an extension of the protocol that a client declares.

use std::{collections::BTreeMap, fmt, sync::Arc};

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use wharf_model::CustomNotification;

type NotificationFn = Arc<dyn Fn(&CustomNotification) + Send + Sync>;

/// Extension of the protocol: its identifier, its settings, its methods, and its notifications in both directions.
///
/// ```
/// # mod wharf { pub use {wharf_client::*, wharf_model::*}; pub mod client { pub use super::*; } pub mod model { pub use super::*; } }
/// use serde::Deserialize;
/// use wharf::client::{ClientExtension, ClientHandler, ClientHandlerBuilder};
///
/// #[derive(Deserialize)]
/// struct Turned { height: f64 }
///
/// let tides = ClientExtension::new("com.example/tides")
///     .setting("unit", "foot")
///     .method("tides/now")
///     .on_notification("tides/turned", |it: Turned| println!("{} feet", it.height))
///     .notification("tides/seen");
/// let handler = ClientHandlerBuilder::new().extension(tides);
/// assert!(handler.capabilities().extensions.contains_key("com.example/tides"));
/// ```
#[derive(Clone)]
#[must_use]
pub struct ClientExtension {
    pub(crate) id: String,
    pub(crate) settings: Map<String, Value>,
    /// Callbacks by the name of the notification.
    pub(crate) received: BTreeMap<String, NotificationFn>,
    /// Names of notifications that the client may send.
    pub(crate) sent: Vec<String>,
    /// Names of the methods of the server that belong to the extension.
    pub(crate) methods: Vec<String>,
}

impl ClientExtension {
    /// Creates an extension from its identifier: a domain in reverse, `/`, and a name.
    pub fn new(id: impl Into<String>) -> Self {
        let (received, sent, methods) = (BTreeMap::new(), Vec::new(), Vec::new());
        ClientExtension { id: id.into(), settings: Map::new(), received, sent, methods }
    }

    /// Adds a setting, which the server receives with the declaration.
    pub fn setting(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.settings.insert(name.into(), value.into());
        self
    }

    /// Receives a notification of the server: the callback gets its parameters. It must not block. A notification
    /// whose parameters are not a `T` is logged and ignored.
    ///
    /// Outside of calls, servers of modern revisions notify subscriptions only: see `Client::listen`.
    pub fn on_notification<T: DeserializeOwned>(
        mut self,
        method: impl Into<String>,
        callback: impl Fn(T) + Send + Sync + 'static,
    ) -> Self {
        let call = move |it: &CustomNotification| match read(it.params.get()) {
            Ok(params) => callback(params),
            Err(error) => {
                let method = it.method.as_str();
                tracing::warn!(method, %error, "ignored a notification with unexpected parameters");
            }
        };
        self.received.insert(method.into(), Arc::new(call));
        self
    }

    /// Declares a method of the server. `Client::request` and `Client::request_as` call it only at servers that declare
    /// the extension, and fail at others without sending anything.
    pub fn method(mut self, name: impl Into<String>) -> Self {
        self.methods.push(name.into());
        self
    }

    /// Declares a notification that the client sends with `Client::notify`.
    pub fn notification(mut self, method: impl Into<String>) -> Self {
        self.sent.push(method.into());
        self
    }
}

/// Reads parameters without `_meta`, which belongs to the protocol.
fn read<T: DeserializeOwned>(params: &str) -> Result<T, serde_json::Error> {
    let mut params: Map<String, Value> = serde_json::from_str(params)?;
    params.remove("_meta");
    serde_json::from_value(params.into())
}

impl fmt::Debug for ClientExtension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientExtension").field("id", &self.id).finish_non_exhaustive()
    }
}
