//! The client's direction: calls out; results, notifications and questions in.

mod decode;
mod encode;
mod headers;
mod negotiation;
mod notifications;
mod result;
mod server_requests;
mod task;

use std::sync::Arc;

use bytestring::ByteString;
use serde::{Deserialize, de::Error as _};
use wharf_model::{ClientCapabilities, ClientRequest, Error, Implementation, Notification};

pub use crate::client::negotiation::{Answered, Carrier, Negotiation, Patience, Step};
use crate::{CallId, Revision};

/// What a client says about itself. Each revision is told what it knows of it.
///
/// ```
/// use wharf_model::{ClientCapabilities, Implementation, RootsCapability};
/// use wharf_wire::ClientIdentity;
///
/// let client = ClientIdentity {
///     info: Implementation::new("tug", "1.0.0"),
///     capabilities: ClientCapabilities::default().roots(RootsCapability::default()),
/// };
/// assert_eq!(client.info.name, "tug");
/// ```
#[derive(Clone, Debug, Default)]
pub struct ClientIdentity {
    /// Its name and version.
    pub info: Implementation,
    /// What it can do.
    pub capabilities: ClientCapabilities,
}

/// The client's side of a conversation whose revision is settled: writes and reads messages.
/// Cheap to clone.
///
/// ```
/// use std::sync::Arc;
/// use wharf_model::{Method, RequestBuilder};
/// use wharf_wire::{CallId, ClientIdentity, Revision, ClientCodec};
///
/// let talk = ClientCodec::new(Revision::NEWEST_LEGACY, Arc::new(ClientIdentity::default()));
/// let request = RequestBuilder::new(Method::CallTool).target("add").build();
/// let mut out = Vec::new();
/// talk.call(&request, &CallId::from(7), &mut out).unwrap();
/// assert_eq!(out, br#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"add"}}"#);
/// ```
#[derive(Clone, Debug)]
pub struct ClientCodec {
    revision: Revision,
    client: Arc<ClientIdentity>,
    identity: Arc<encode::IdentityJson>,
}

impl ClientCodec {
    /// A conversation in `revision`, in which the client is `client`.
    #[must_use]
    pub fn new(revision: Revision, client: Arc<ClientIdentity>) -> ClientCodec {
        let identity = Arc::new(encode::IdentityJson::new(&client, revision));
        ClientCodec { revision, client, identity }
    }

    /// The revision that is spoken.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// Whether requests carry version, identity and capabilities themselves.
    #[must_use]
    pub fn is_modern(&self) -> bool {
        self.revision.is_modern()
    }
}

/// One thing that the server said: see [`ClientCodec::hear`].
#[derive(Clone, Debug)]
pub enum ServerMessage {
    /// A reply.
    Reply {
        /// Which request it answers; none where the server could not read ours.
        id: Option<CallId>,
        /// The JSON text of the result, or the error as a kind.
        result: Result<ByteString, Error>,
    },
    /// A notification.
    ServerNotification(ServerNotification),
    /// The server took its own question back, or ended a listen of ours.
    Cancelled {
        /// The id of the question or of the listen.
        id: CallId,
    },
    /// A question that can be put to somebody; only legacy servers send any.
    ClientRequest {
        /// What the answer goes under.
        id: CallId,
        /// The question.
        ask: ClientRequest,
    },
    /// The server wants to know whether anybody is there.
    Ping {
        /// What the answer goes under.
        id: CallId,
    },
    /// A request that cannot be met: answer it with this error.
    Refused {
        /// What the answer goes under.
        id: CallId,
        /// Why it cannot be met.
        error: Error,
    },
    /// A notification that nobody knows.
    Ignored,
}

/// A notification from the server, and what it belongs to.
#[derive(Clone, Debug)]
pub struct ServerNotification {
    /// What the server says.
    pub notification: Notification,
    /// The token of the call whose progress this is.
    pub token: Option<CallId>,
    /// The listen that this belongs to.
    pub subscription: Option<CallId>,
}

/// Reads a JSON object. Serde would take an array for one as well, and no specification does.
fn read_object<'a, T: Deserialize<'a>>(json: &'a str) -> Result<T, serde_json::Error> {
    match json.trim_ascii_start().starts_with('{') {
        true => serde_json::from_str(json),
        false => Err(serde_json::Error::custom("it must be a JSON object")),
    }
}
