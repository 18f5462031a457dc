//! Legacy session: the state after `initialize`, the refusal of requests before it, and the notifications that change
//! the state. Its requests: `legacy_requests`.

use std::sync::Arc;

use bytestring::ByteString;
use wharf_model::{
    ChangeVersion, Error, ErrorKind, InputMode, LiveSubscriptionFilter, LogLevel, Method, Parts,
    Peer, Request, SubscriptionFilter, TaskRequest,
};

use crate::{
    Codec, Received, Revision, ServerProtocol,
    json::field_spans::{FieldSpans, MessageField},
    server::{
        codec::{CodecRole, SessionListen},
        handshake::{AnnouncedCapabilities, HandshakeState},
        headers::legacy_revision,
        message::Message,
        subscription_budget::SubscriptionShare,
    },
    versions::{protocol_info, revision::Feature},
};

/// State of a legacy session: the handshake, and the client's later changes.
#[derive(Debug)]
pub(crate) struct LegacySession {
    pub(crate) revision: Revision,
    pub(crate) peer: Arc<Peer>,
    pub(crate) handshake: HandshakeState,
    /// Filter of the session's subscription; created when that starts, or with the first resource or task.
    pub(crate) filter: Option<LiveSubscriptionFilter>,
    /// Set once the session has followed a resource or task.
    pub(crate) follows: bool,
    pub(crate) level: LogLevel,
    pub(crate) listen: ListenState,
    /// Number of changes by the client to the saved state.
    pub(crate) edits: u32,
    /// Approximate size in bytes of the client info.
    pub(crate) kept: u32,
    pub(crate) subscriptions: SubscriptionShare,
}

/// State of the session's subscription.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ListenState {
    /// The client has not sent `notifications/initialized`.
    NotReady,
    Postponed(ChangeVersion),
    Started,
}

/// Target of legacy messages: the session of a connection, or none, with the revision of the request.
pub(crate) enum LegacyContext<'a> {
    Session(&'a mut Option<LegacySession>),
    Stateless(Option<Revision>),
}

impl LegacyContext<'_> {
    pub(crate) fn revision(&self) -> Option<Revision> {
        match self {
            LegacyContext::Session(_) => self.explicit_revision(),
            LegacyContext::Stateless(in_header) => Some(legacy_revision(*in_header)),
        }
    }

    /// Returns the revision if it was given explicitly, not by default.
    pub(crate) fn explicit_revision(&self) -> Option<Revision> {
        match self {
            LegacyContext::Session(session) => session.as_ref().map(|session| session.revision),
            LegacyContext::Stateless(in_header) => *in_header,
        }
    }

    /// Refuses a request on a connection whose client has not sent `initialize`.
    pub(crate) fn require_session(&self, wire: &ServerProtocol) -> Result<(), Error> {
        match self {
            LegacyContext::Session(None) => Err(not_initialized(wire)),
            _ => Ok(()),
        }
    }

    pub(crate) fn session(&mut self) -> Option<&mut LegacySession> {
        match self {
            LegacyContext::Session(session) => session.as_mut(),
            LegacyContext::Stateless(_) => None,
        }
    }

    /// Handles a notification.
    pub(crate) fn handle_notification(
        &mut self,
        wire: &Arc<ServerProtocol>,
        message: &Message,
    ) -> Received {
        match &*message.text(MessageField::Method).unwrap_or_default() {
            "notifications/cancelled" => self.cancelled(wire, message),
            "notifications/initialized" => match self.session() {
                Some(session) => session.initialized(wire),
                None => Received::Ignore,
            },
            "notifications/roots/list_changed" => {
                if let Some(session) = self.session() {
                    session.peer.roots_changed();
                    session.edits += 1;
                }
                Received::Ignore
            }
            _ => Received::Ignore,
        }
    }

    fn cancelled(&mut self, wire: &ServerProtocol, message: &Message) -> Received {
        let Some(id) = message.call_id(MessageField::RequestId, wire.limits.id) else {
            return Received::Ignore;
        };
        match self.session().is_some_and(|session| session.handshake.is_pending(&id)) {
            true => Received::Ignore,
            false => Received::Cancel(id),
        }
    }
}

impl LegacySession {
    fn initialized(&mut self, wire: &Arc<ServerProtocol>) -> Received {
        match self.listen {
            ListenState::NotReady if wire.streams => {
                self.edits += 1;
                let (request, codec) = self.listen(wire);
                Received::Call(request, codec)
            }
            _ => Received::Ignore,
        }
    }

    /// Starts the session's one subscription, whose filter `resources/subscribe` edits.
    pub(crate) fn listen(&mut self, wire: &Arc<ServerProtocol>) -> (Request, Codec) {
        self.listen = ListenState::Started;
        let body = ByteString::from_static("{}");
        let message = Message { body: body.clone(), members: FieldSpans::default() };
        let mut codec: Codec = message.codec(wire, Method::Listen, self.revision);
        let filter = self.filter().clone();
        let (peer, followed) = (self.peer.clone(), filter.clone());
        codec.role = CodecRole::SessionListen(Box::new(SessionListen { peer, filter: followed }));
        let mut request = Request::new(Method::Listen, body, Parts::default());
        request.asks = InputMode::Deliver;
        request.filter = Some(filter);
        request.protocol = Some(protocol_info::of(self.revision, wire.profile));
        if self.revision.has(Feature::TaskRequests) {
            request.tasking = TaskRequest::Welcome;
        }
        (request.from_peer(self.peer.clone()), codec)
    }

    /// Returns the filter, to add a resource or task that only the subscription reports.
    pub(crate) fn track(&mut self) -> &LiveSubscriptionFilter {
        self.follows = true;
        self.filter()
    }

    /// Counts subscriptions that another process accepted. They stay even if they exceed the budget here.
    pub(crate) fn recount(&mut self, wire: &ServerProtocol) {
        if let Some(filter) = &self.filter {
            let _ = filter.read(|filter| self.subscriptions.count(wire, filter, None));
        }
    }

    pub(crate) fn filter(&mut self) -> &LiveSubscriptionFilter {
        let announced = self.handshake.announced();
        self.filter.get_or_insert_with(|| {
            LiveSubscriptionFilter::new(
                announced.map_or_else(unrestricted_filter, AnnouncedCapabilities::filter),
            )
        })
    }
}

/// Returns the filter of a session before its capabilities are announced: all list changes.
fn unrestricted_filter() -> SubscriptionFilter {
    SubscriptionFilter::default().tools(true).prompts(true).resources(true)
}

/// Error for a request before the handshake.
fn not_initialized(wire: &ServerProtocol) -> Error {
    let (legacy, modern) = (Revision::NEWEST_LEGACY, Revision::NEWEST);
    let what = match wire.supports(modern) {
        false => "send `initialize` first".to_owned(),
        true => format!(
            "send `initialize` first ({legacy} and older), or put \
             `io.modelcontextprotocol/protocolVersion` and \
             `io.modelcontextprotocol/clientCapabilities` into the request's `_meta` ({modern})"
        ),
    };
    Error::new(ErrorKind::NotInitialized).with_message(format!("Not initialized: {what}"))
}
