//! Facts of a call that its log line needs at its end. They are kept as pointers and short copies: most lines are never
//! written, so that nothing is hashed or formatted before.

use std::borrow::Cow;

use wharf_model::{
    CallRole, CallStart, Method, ObservedSession, ObservedTask, Principal, hashed_id, printable,
};

/// Maximum bytes of a name or id that are kept; [`printable`] shows at most 256 characters.
const MAX_TEXT: usize = 1024;

/// Facts of a call, as they were at its start.
pub(crate) struct CallFacts {
    role: CallRole,
    method: Method,
    /// Name of the method [`Method::Discover`] in the protocol version.
    discover: Option<&'static str>,
    revision: Option<Cow<'static, str>>,
    transport: Option<&'static str>,
    principal: Option<Principal>,
    session: Option<ObservedSession>,
    task: Option<ObservedTask>,
    /// Name of the target, followed by the id of the request as JSON.
    text: String,
    target_len: usize,
}

impl CallFacts {
    pub(crate) fn of(call: &CallStart<'_>) -> CallFacts {
        let (request, role) = (call.request(), call.role());
        // The extensions of a request that a proxy forwards are about its own client.
        let (protocol, session) = match role {
            CallRole::Client => (None, None),
            _ => (request.protocol, request.scope.get().cloned()),
        };
        let revision = match protocol {
            Some(protocol) => Some(Cow::Borrowed(protocol.version)),
            None => call.protocol_version().map(|it| Cow::Owned(it.to_owned())),
        };
        let (target, id) = (request.target(), call.request_id().unwrap_or_default());
        let (target, id) = (shortened(&target), shortened(id));
        let mut text = String::with_capacity(target.len() + id.len());
        text.push_str(target);
        text.push_str(id);
        CallFacts {
            role,
            method: request.method,
            discover: protocol.map(|it| it.discover),
            revision,
            transport: call.transport().map(|it| it.name()),
            principal: call.principal().cloned(),
            session,
            task: call.task_id().and_then(|_| request.scope.get().cloned()),
            target_len: target.len(),
            text,
        }
    }

    pub(crate) fn is_task(&self) -> bool {
        self.role == CallRole::Task
    }

    /// Value of `role`: only a client's lines have it.
    pub(crate) fn role_name(&self) -> Option<&'static str> {
        (self.role == CallRole::Client).then_some("client")
    }

    pub(crate) fn method_name(&self) -> Cow<'static, str> {
        match (self.method, self.role, self.discover) {
            (Method::Custom, ..) => Cow::Owned(printable(&self.text[..self.target_len])),
            (_, CallRole::Task, _) => "task".into(),
            (Method::Discover, _, Some(name)) => name.into(),
            (method, ..) => method.name().into(),
        }
    }

    /// Name or URI of the target.
    pub(crate) fn target(&self) -> Option<String> {
        let is_named = self.target_len > 0 && self.method != Method::Custom;
        is_named.then(|| printable(&self.text[..self.target_len]))
    }

    /// Id of the request: the text of a string or number, nothing for `null`.
    pub(crate) fn request_id(&self) -> Option<String> {
        let json = &self.text[self.target_len..];
        if self.is_task() || matches!(json, "" | "null") {
            return None;
        }
        let text = json.strip_prefix('"').and_then(|it| it.strip_suffix('"'));
        Some(printable(text.unwrap_or(json)))
    }

    pub(crate) fn revision(&self) -> Option<&str> {
        self.revision.as_deref()
    }

    pub(crate) fn transport(&self) -> Option<&'static str> {
        self.transport
    }

    pub(crate) fn principal(&self) -> Option<String> {
        self.principal.as_ref().map(|it| printable(it.id()))
    }

    /// Hash of the session id.
    pub(crate) fn session(&self) -> Option<String> {
        self.session.as_ref().map(|it| hashed_id(&it.0))
    }

    /// Hash of the id of the task that this process runs.
    pub(crate) fn task(&self) -> Option<String> {
        self.task.as_ref().map(|it| hashed_id(&it.0))
    }
}

/// Returns the beginning of a text that is too long.
fn shortened(text: &str) -> &str {
    match text.len() <= MAX_TEXT {
        true => text,
        false => &text[..text.floor_char_boundary(MAX_TEXT)],
    }
}
