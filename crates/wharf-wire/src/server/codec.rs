//! Encodes the events of one call: notifications, server-to-client requests, and their cancellation.

use std::{borrow::Cow, sync::Arc};

use bytestring::ByteString;
use wharf_model::{
    ClientCapabilities, ClientCapability, ClientRequest, Lifetime, LiveSubscriptionFilter, Method,
    Notification, Peer, Span, Task,
};

use crate::{
    Revision, ServerProtocol,
    json::{field_spans::unquote, writer, writer::ObjectWriter},
    server::{client_requests, custom, handshake::PendingInitialize, tasks},
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

    /// Writes a notification. Returns false, and writes nothing, if the revision does not have it here.
    pub fn notify(&self, notification: &Notification, out: &mut Vec<u8>) -> bool {
        let modern = self.revision.is_modern();
        let listening = modern && self.is_listen();
        // A legacy session receives task notifications outside of its calls.
        let owning = self.is_silent() && self.revision.has(Feature::TaskRequests);
        let fits = match notification {
            Notification::Progress { progress, total, .. } => {
                self.token.is_some() && is_finite(*progress, *total)
            }
            Notification::Task(_) => listening || owning,
            Notification::TaskProgress { progress, total, .. } => {
                owning && is_finite(*progress, *total)
            }
            Notification::Log { .. } => !listening,
            Notification::Acknowledged(_) => listening,
            Notification::ElicitationComplete { .. } => self.revision.has(Feature::ElicitationIds),
            Notification::Custom(it) => {
                self.client_can(&ClientCapability::Extension(it.extension.clone()))
            }
            Notification::ToolsChanged
            | Notification::PromptsChanged
            | Notification::ResourcesChanged
            | Notification::ResourceUpdated { .. } => listening || !modern,
        };
        if !fits {
            return false;
        }
        let method = notification_method(notification, self.revision);
        let mut message = ObjectWriter::open(out);
        message.plain("jsonrpc", "\"2.0\"");
        message.text("method", method);
        if listening || has_params(notification) {
            let mut params = message.object("params");
            match notification {
                Notification::Custom(it) => {
                    self.write_custom_params(notification, it, &mut params);
                }
                _ => {
                    self.write_related_meta(notification, None, &mut params);
                    self.write_params(notification, &mut params);
                }
            }
            params.close();
        }
        message.close();
        self.unfollow_ended_task(notification);
        true
    }

    /// Writes `_meta`: the sender's own members, and the subscription or task that a notification belongs to.
    pub(crate) fn write_related_meta(
        &self,
        notification: &Notification,
        own: Option<&str>,
        params: &mut ObjectWriter<'_>,
    ) {
        let modern = self.revision.is_modern();
        let related = match notification {
            _ if modern => None,
            Notification::TaskProgress { id, .. } => Some(Cow::Owned(writer::as_json(id))),
            _ => self.related_task().map(Cow::Borrowed),
        };
        let subscription = modern && self.is_listen();
        if own.is_none() && related.is_none() && !subscription {
            return;
        }
        let mut meta = params.object("_meta");
        if let Some(own) = own {
            custom::copy_meta(own, &mut meta);
        }
        if let Some(id) = related {
            tasks::write_related(&mut meta, &id);
        }
        if subscription {
            meta.plain(SUBSCRIPTION_ID, self.id_json());
        }
        meta.close();
    }

    /// Removes a task that has ended from the session's subscription: it sends no more notifications.
    fn unfollow_ended_task(&self, notification: &Notification) {
        if let (CodecRole::SessionListen(listen), Notification::Task(task)) =
            (&self.role, notification)
            && task.status().is_terminal()
        {
            listen.filter.edit(|filter| filter.tasks.remove(&task.id));
        }
    }

    fn write_params(&self, notification: &Notification, params: &mut ObjectWriter<'_>) {
        match notification {
            Notification::Progress { progress, total, message } => {
                let token = self.token.of(&self.body).unwrap_or("null");
                self.write_progress(token, (*progress, *total), message.as_deref(), params);
            }
            Notification::TaskProgress { token, progress, total, message, .. } => {
                self.write_progress(token.get(), (*progress, *total), message.as_deref(), params);
            }
            Notification::Task(task) => self.write_whole_task(task, params),
            Notification::Log { level, logger, data } => {
                params.text("level", level.as_str());
                if let Some(logger) = logger {
                    params.text("logger", logger);
                }
                params.raw("data", data.get());
            }
            Notification::Acknowledged(filter) => params.json("notifications", filter),
            Notification::ResourceUpdated { uri } => params.text("uri", uri),
            Notification::ElicitationComplete { id } => params.text("elicitationId", id),
            Notification::ToolsChanged
            | Notification::PromptsChanged
            | Notification::ResourcesChanged
            | Notification::Custom(_) => {}
        }
    }

    fn write_progress(
        &self,
        token: &str,
        (progress, total): (f64, Option<f64>),
        message: Option<&str>,
        params: &mut ObjectWriter<'_>,
    ) {
        params.raw("progressToken", token);
        writer::number(params.key("progress"), progress);
        if let Some(total) = total {
            writer::number(params.key("total"), total);
        }
        if let Some(message) = message.filter(|_| self.revision.has(Feature::ProgressMessages)) {
            params.text("message", message);
        }
    }

    /// Writes a server-to-client request with this number as its id. Returns false, and writes nothing, if the
    /// revision does not have it here.
    pub fn ask(&self, number: u64, ask: &ClientRequest, out: &mut Vec<u8>) -> bool {
        if self.revision.is_modern() {
            return false;
        }
        let Some(mut params) = client_requests::params(ask, self, number) else { return false };
        self.add_related_task(&mut params);
        let mut message = ObjectWriter::open(out);
        message.plain("jsonrpc", "\"2.0\"");
        writer::integer(message.key("id"), number);
        message.text("method", ask.method().name());
        if !params.is_null() {
            message.json("params", &params);
        }
        message.close();
        true
    }

    /// Writes the cancellation of the server-to-client request with this number.
    pub fn withdraw(&self, number: u64, out: &mut Vec<u8>) {
        if !self.revision.is_modern() {
            write_cancelled(out, &number.to_string(), "the response is no longer needed");
        }
    }

    /// Writes the message that follows the result of a modern subscription on a line stream. Returns false if
    /// there is none.
    pub fn write_listen_end(&self, out: &mut Vec<u8>) -> bool {
        let due = self.revision.is_modern() && self.is_listen();
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

fn notification_method(notification: &Notification, revision: Revision) -> &str {
    match notification {
        Notification::Progress { .. } | Notification::TaskProgress { .. } => {
            "notifications/progress"
        }
        Notification::Task(_) if revision.has(Feature::TaskRequests) => {
            "notifications/tasks/status"
        }
        Notification::Task(_) => "notifications/tasks",
        Notification::Log { .. } => "notifications/message",
        Notification::Acknowledged(_) => "notifications/subscriptions/acknowledged",
        Notification::ToolsChanged => "notifications/tools/list_changed",
        Notification::PromptsChanged => "notifications/prompts/list_changed",
        Notification::ResourcesChanged => "notifications/resources/list_changed",
        Notification::ResourceUpdated { .. } => "notifications/resources/updated",
        Notification::ElicitationComplete { .. } => "notifications/elicitation/complete",
        Notification::Custom(it) => &it.method,
    }
}

fn is_finite(progress: f64, total: Option<f64>) -> bool {
    progress.is_finite() && total.is_none_or(f64::is_finite)
}

fn has_params(notification: &Notification) -> bool {
    use Notification::{PromptsChanged, ResourcesChanged, ToolsChanged};
    !matches!(notification, ToolsChanged | PromptsChanged | ResourcesChanged)
}

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
