//! Client side: encodes calls; decodes results, notifications and server requests.

mod batch;
mod decode;
mod decode_notification;
pub(crate) mod decode_result;
mod decode_server_request;
mod decode_task;
mod encode;
mod headers;
mod negotiation;

use std::sync::Arc;

use bytestring::ByteString;
use serde::{Deserialize, de::Error as _};
use wharf_model::{
    ClientCapabilities, ClientRequest, Error, Implementation, Method, Notification,
    ServerCapabilities, TASKS_EXTENSION,
};

pub use crate::client::negotiation::{
    Negotiation, NegotiationEvent, NegotiationStep, NegotiationTimeout, TransportKind,
};
use crate::{
    CallId, Revision,
    versions::revision::{Feature, RequestKind},
};

/// Identity and capabilities of a client. Each revision receives the fields that it has.
///
/// ```
/// use wharf_model::{ClientCapabilities, Implementation, RootsCapability};
/// use wharf_wire::ClientIdentity;
///
/// let client = ClientIdentity {
///     info: Implementation::new("tug", "1.0.0"),
///     capabilities: ClientCapabilities::default().roots(RootsCapability::default()),
///     ..ClientIdentity::default()
/// };
/// assert_eq!(client.info.name, "tug");
/// ```
#[derive(Clone, Debug, Default)]
pub struct ClientIdentity {
    /// Name and version.
    pub info: Implementation,
    /// Declared capabilities.
    pub capabilities: ClientCapabilities,
    /// Notifications of declared extensions that the client receives: name, and identifier of the extension.
    pub notifications: Vec<(String, String)>,
}

/// Client codec for one negotiated revision: encodes and decodes messages. Cheap to clone.
///
/// ```
/// use std::sync::Arc;
/// use wharf_model::{Method, RequestBuilder};
/// use wharf_wire::{CallId, ClientIdentity, Revision, ClientCodec};
///
/// let codec = ClientCodec::new(Revision::NEWEST_LEGACY, Arc::new(ClientIdentity::default()));
/// let request = RequestBuilder::new(Method::CallTool).target("add").build();
/// let mut out = Vec::new();
/// codec.call(&request, &CallId::from(7), &mut out).unwrap();
/// assert_eq!(out, br#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"add"}}"#);
/// ```
#[derive(Clone, Debug)]
pub struct ClientCodec {
    revision: Revision,
    client: Arc<ClientIdentity>,
    identity: Arc<encode::IdentityJson>,
}

impl ClientCodec {
    /// Creates a codec for `revision`.
    #[must_use]
    pub fn new(revision: Revision, client: Arc<ClientIdentity>) -> ClientCodec {
        let identity = Arc::new(encode::IdentityJson::new(&client, revision));
        ClientCodec { revision, client, identity }
    }

    /// Returns the revision.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// Returns whether the revision has the request `method`.
    ///
    /// ```
    /// use wharf_model::Method;
    /// use wharf_wire::{ClientCodec, ClientIdentity, Revision};
    ///
    /// let codec = ClientCodec::new(Revision::NEWEST_LEGACY, ClientIdentity::default().into());
    /// assert!(codec.has(Method::CallTool) && !codec.has(Method::Discover));
    /// ```
    #[must_use]
    pub fn has(&self, method: Method) -> bool {
        self.name(method).is_some()
    }

    /// Returns the name of the request `method`, if the revision has it.
    ///
    /// ```
    /// use wharf_model::Method;
    /// use wharf_wire::{ClientCodec, ClientIdentity, Revision};
    ///
    /// let codec = ClientCodec::new(Revision::NEWEST_LEGACY, ClientIdentity::default().into());
    /// assert_eq!(codec.name(Method::CallTool), Some("tools/call"));
    /// assert_eq!(codec.name(Method::Discover), None);
    /// ```
    #[must_use]
    pub fn name(&self, method: Method) -> Option<&'static str> {
        RequestKind::Call(method).name(self.revision)
    }

    /// Returns whether a handshake opened a session, which may end and then has to be opened again.
    #[must_use]
    pub fn has_sessions(&self) -> bool {
        self.revision.has(Feature::Sessions)
    }

    /// Returns whether the server may send requests, which the client answers.
    #[must_use]
    pub fn has_server_requests(&self) -> bool {
        self.revision.has(Feature::ServerRequests)
    }

    /// Returns whether `Mcp-Param-*` headers repeat the arguments that a tool's schema marks.
    #[must_use]
    pub fn has_param_headers(&self) -> bool {
        self.revision.has(Feature::RoutingHeaders)
    }

    /// Returns the method that every server answers without doing anything: see [`ClientCodec::ping`].
    #[must_use]
    pub fn ping_method(&self) -> &'static str {
        if self.has_request("ping") { "ping" } else { Method::Discover.name() }
    }

    /// Removes the declaration of tasks that this revision does not have. Each era has its own tasks, and
    /// servers of both eras may declare both.
    pub fn remove_foreign_tasks(&self, capabilities: &mut ServerCapabilities) {
        match self.has(Method::UpdateTask) {
            true => capabilities.tasks = None,
            false => {
                capabilities.extensions.remove(TASKS_EXTENSION);
            }
        }
    }

    fn is_modern(&self) -> bool {
        self.revision.is_modern()
    }
}

/// Message of a server: see [`ClientCodec::decode`].
#[derive(Clone, Debug)]
pub enum ServerMessage {
    /// Response to a client request.
    Reply {
        /// Id of the request; none if the server could not read it.
        id: Option<CallId>,
        /// JSON text of the result, or the error.
        result: Result<ByteString, Error>,
    },
    /// Notification.
    ServerNotification(ServerNotification),
    /// Cancellation of a server request, or the end of a subscription.
    Cancelled {
        /// Id of the server request or subscription.
        id: CallId,
    },
    /// Request to be handled by the client; only legacy servers send one.
    ClientRequest {
        /// Id for the response.
        id: CallId,
        /// The request.
        ask: ClientRequest,
    },
    /// Ping.
    Ping {
        /// Id for the response.
        id: CallId,
    },
    /// Invalid request: respond with this error.
    Refused {
        /// Id for the response.
        id: CallId,
        /// Error for the response.
        error: Error,
    },
    /// Unknown notification, to be ignored.
    Ignored,
}

/// Notification of a server, with the call or subscription that it belongs to.
#[derive(Clone, Debug)]
pub struct ServerNotification {
    /// The notification.
    pub notification: Notification,
    /// Progress token of the call.
    pub token: Option<CallId>,
    /// Id of the subscription.
    pub subscription: Option<CallId>,
}

/// Reads a JSON object. Serde alone would also accept an array.
fn read_object<'a, T: Deserialize<'a>>(json: &'a str) -> Result<T, serde_json::Error> {
    match json.trim_ascii_start().starts_with('{') {
        true => serde_json::from_str(json),
        false => Err(serde_json::Error::custom("it must be a JSON object")),
    }
}
