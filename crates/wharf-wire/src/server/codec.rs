//! Codec of one call: its id, revision and role, which its replies, notifications and requests are encoded with.

use std::sync::Arc;

use bytestring::ByteString;
use wharf_model::{
    ClientCapabilities, ClientCapability, Lifetime, LiveSubscriptionFilter, Method, Peer, Span,
    Task,
};

use crate::{
    Revision, ServerProtocol,
    json::{field_spans::unquote, writer, writer::ObjectWriter},
    server::handshake::PendingInitialize,
    versions::revision::Feature,
};

/// Request id of a call as JSON text, in which `"1"` and `1` differ.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CallId(ByteString);

impl CallId {
    /// Returns the id as JSON text.
    #[must_use]
    pub fn as_json(&self) -> &str {
        &self.0
    }

    /// Copies the id, so that it no longer keeps the message buffer alive.
    pub(crate) fn detached(&self) -> Self {
        CallId(self.as_json().to_owned().into())
    }

    /// Returns a form in which equal ids have equal text, however they were escaped.
    pub(crate) fn canonical(json: ByteString) -> Self {
        if &*json == "-0" {
            return CallId(ByteString::from_static("0"));
        }
        match unquote(&json) {
            Some(text) if json.contains('\\') => {
                let mut out = String::new().into_bytes();
                writer::quoted(&mut out, &text);
                CallId(ByteString::try_from(out).unwrap_or(json))
            }
            _ => CallId(json),
        }
    }
}

impl From<u64> for CallId {
    fn from(number: u64) -> Self {
        CallId(number.to_string().into())
    }
}

/// Additional task of a codec beside replying to its call.
#[derive(Debug, Default)]
pub(crate) enum CodecRole {
    #[default]
    Plain,
    /// Has the peer of a legacy session.
    Peer(Arc<Peer>),
    /// Replies to `initialize`, and records the announced capabilities in the session.
    Initialize(Arc<PendingInitialize>),
    /// Replies to `initialize` without opening a session.
    StatelessInitialize,
    /// Has the peer of a legacy session that requested a task.
    TaskOwner(Box<TaskOwner>),
    /// Belongs to the implicit subscription of a legacy session.
    SessionListen(Box<SessionListen>),
}

/// Implicit subscription of a legacy session: its client and its filter.
#[derive(Debug)]
pub(crate) struct SessionListen {
    pub(crate) peer: Arc<Peer>,
    pub(crate) filter: LiveSubscriptionFilter,
}

/// Legacy client that requested a task.
#[derive(Debug)]
pub(crate) struct TaskOwner {
    pub(crate) peer: Arc<Peer>,
    /// Filter of the session's subscription.
    pub(crate) filter: LiveSubscriptionFilter,
}

impl TaskOwner {
    /// Adds the task to the session's subscription. A session with too many tasks has to poll.
    pub(crate) fn follow(&self, task: &Task, most: usize) {
        if !task.status().is_terminal() && self.filter.read(|filter| filter.tasks.len() < most) {
            self.filter.edit(|filter| filter.tasks.insert(task.id.clone()));
        }
    }
}

/// Encodes the events of one call in the revision and under the id of its request.
#[derive(Debug)]
pub struct Codec {
    pub(crate) wire: Arc<ServerProtocol>,
    pub(crate) body: ByteString,
    pub(crate) id: Span,
    pub(crate) token: Span,
    pub(crate) target: Span,
    pub(crate) capabilities: Span,
    /// Set if the request carries input responses or state of an earlier attempt.
    pub(crate) retried: bool,
    /// Set if the call may become a task.
    pub(crate) may_be_task: bool,
    pub(crate) method: Method,
    pub(crate) revision: Revision,
    pub(crate) role: CodecRole,
}

impl Codec {
    /// Copies the parts of the message that the codec needs, so that the message is not kept as long as the
    /// call.
    #[cold]
    pub(crate) fn shrink_body(&mut self) {
        let mut kept = String::new();
        for span in [&mut self.id, &mut self.token, &mut self.target, &mut self.capabilities] {
            let Some(json) = span.of(&self.body) else { continue };
            let start = kept.len() as u32;
            kept.push_str(json);
            *span = Span::new(start, kept.len() as u32);
        }
        self.body = kept.into();
    }

    /// Returns the id of the call, unique among the calls of the connection.
    #[must_use]
    pub fn id(&self) -> CallId {
        match self.id.of(&self.body) {
            Some(id) => CallId::canonical(self.body.slice_ref(id)),
            // Not valid JSON, so no client can send this id.
            None => CallId(ByteString::from_static("session")),
        }
    }

    /// Returns whether the call is `subscriptions/listen`.
    #[must_use]
    pub fn is_listen(&self) -> bool {
        self.method == Method::Listen
    }

    /// Returns whether the call waits without a time limit: a subscription, or the result of a task.
    #[must_use]
    pub fn waits(&self) -> bool {
        self.method.info().lifetime != Lifetime::Short
    }

    /// Returns whether nothing is written when the call ends: the subscription of a legacy session.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        matches!(self.role, CodecRole::SessionListen(_))
    }

    /// Returns whether the call may become a task. If it does, the legacy session's subscription has to report
    /// it and is [due](crate::Connection::due_listen) from now on.
    #[must_use]
    pub fn may_become_task(&self) -> bool {
        self.may_be_task
    }

    pub(crate) fn id_json(&self) -> &str {
        self.id.of(&self.body).unwrap_or("null")
    }

    /// Returns whether the call may end with input requests.
    pub(crate) fn may_suspend(&self) -> bool {
        self.revision.has(Feature::InputRequests) && self.method.info().may_suspend
    }

    /// Returns whether the call is a subscription of its client, whose notifications carry its id.
    pub(crate) fn has_subscription_id(&self) -> bool {
        self.is_listen() && !self.is_silent()
    }

    /// Writes the message that follows the result of a modern subscription on a line stream. Returns false if
    /// there is none.
    pub fn write_listen_end(&self, out: &mut Vec<u8>) -> bool {
        let due = self.has_subscription_id();
        if due {
            write_cancelled(out, self.id_json(), "the subscription has ended");
        }
        due
    }

    pub(crate) fn client_can(&self, wanted: &ClientCapability) -> bool {
        match &self.role {
            CodecRole::Peer(peer) => return peer.capabilities.has(wanted),
            CodecRole::TaskOwner(owner) => return owner.peer.capabilities.has(wanted),
            CodecRole::SessionListen(listen) => return listen.peer.capabilities.has(wanted),
            _ => {}
        }
        let declared = self.capabilities.of(&self.body);
        let declared = declared.and_then(|json| serde_json::from_str(json).ok());
        declared.is_some_and(|declared: ClientCapabilities| declared.has(wanted))
    }
}

pub(crate) const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";

pub(crate) fn write_cancelled(out: &mut Vec<u8>, id: &str, reason: &str) {
    let mut message = ObjectWriter::open(out);
    message.plain("jsonrpc", "\"2.0\"");
    message.text("method", "notifications/cancelled");
    let mut params = message.object("params");
    params.plain("requestId", id);
    params.text("reason", reason);
    params.close();
    message.close();
}
