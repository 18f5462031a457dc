//! Legacy session: the state after `initialize`, and the requests and notifications that change it.
//!
//! Counterpart of `modern.rs`, whose requests need no session.

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
        client_info_cache::read_client_info,
        codec::{CodecRole, SessionListen, TaskOwner},
        handshake::{AnnouncedCapabilities, HandshakeState, PendingInitialize},
        message::{
            Message, invalid_field, invalid_request, subscriptions_too_long,
            too_many_subscriptions, unknown_method,
        },
        subscription_budget::SubscriptionShare,
        version_negotiation::negotiate,
    },
    versions::{
        protocol_info,
        revision::{Feature, RequestKind},
    },
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
            LegacyContext::Stateless(explicit_revision) => {
                Some(explicit_revision.unwrap_or(Revision::HTTP_DEFAULT))
            }
        }
    }

    /// Returns the revision if it was given explicitly, not by default.
    pub(crate) fn explicit_revision(&self) -> Option<Revision> {
        match self {
            LegacyContext::Session(session) => session.as_ref().map(|session| session.revision),
            LegacyContext::Stateless(explicit_revision) => *explicit_revision,
        }
    }

    fn session(&mut self) -> Option<&mut LegacySession> {
        match self {
            LegacyContext::Session(session) => session.as_mut(),
            LegacyContext::Stateless(_) => None,
        }
    }

    /// Handles a request that its revision has. Before `initialize`, a connection accepts only `ping`.
    pub(crate) fn request(
        &mut self,
        wire: &Arc<ServerProtocol>,
        kind: RequestKind,
        message: &mut Message,
    ) -> Result<Received, Error> {
        match kind {
            RequestKind::Initialize | RequestKind::Ping => {}
            _ if matches!(self, LegacyContext::Session(None)) => return Err(not_initialized(wire)),
            _ => {}
        }
        match kind {
            RequestKind::Initialize => self.initialize(wire, message),
            RequestKind::Call(method) => self.call(wire, method, message),
            RequestKind::Ping => Ok(message.empty_result()),
            RequestKind::SetLevel => self.set_level(message),
            RequestKind::Subscribe | RequestKind::Unsubscribe => {
                self.subscribe(wire, kind, message)
            }
        }
    }

    fn initialize(
        &mut self,
        wire: &Arc<ServerProtocol>,
        message: &mut Message,
    ) -> Result<Received, Error> {
        if self.session().is_some() {
            return Err(invalid_request("Invalid request: already initialized"));
        }
        let version = message.text(MessageField::ProtocolVersion);
        let version =
            version.ok_or_else(|| invalid_field("protocolVersion", "must be a string"))?;
        message.check_client_field(wire, MessageField::Capabilities, "capabilities")?;
        message.check_client_field(wire, MessageField::ClientInfo, "clientInfo")?;
        let revision = negotiate(&version);
        let (client, kept) = read_client_info(message, revision, wire.limits.kept)?;
        let client = wire.client_infos.intern(client);
        let peer = Arc::new(Peer::with_client_info(client));
        let id = message.call_id(MessageField::Id, wire.limits.id).map(|id| id.detached());
        let mut codec = message.codec(wire, Method::Discover, revision);
        let mut request = message.take_request(wire, Method::Discover, revision)?;
        request.asks = InputMode::Deliver;
        codec.role = CodecRole::StatelessInitialize;
        if let LegacyContext::Session(session) = self {
            let pending = PendingInitialize::new(id);
            codec.role = CodecRole::Initialize(pending.clone());
            **session = Some(LegacySession {
                revision,
                peer: peer.clone(),
                handshake: HandshakeState::Pending(pending),
                filter: None,
                follows: false,
                level: wire.log_level,
                listen: ListenState::NotReady,
                edits: 0,
                kept: u32::try_from(kept).unwrap_or(u32::MAX),
                subscriptions: SubscriptionShare::default(),
            });
        }
        Ok(Received::Call(request.from_peer(peer), codec))
    }

    fn call(
        &mut self,
        wire: &Arc<ServerProtocol>,
        method: Method,
        message: &mut Message,
    ) -> Result<Received, Error> {
        let revision = self.revision().unwrap_or(Revision::HTTP_DEFAULT);
        if method == Method::Complete && !revision.has(Feature::CompletionContext) {
            message.drop_context();
        }
        let task_request = self.task_request(method, message)?;
        let mut codec = message.codec(wire, method, revision);
        codec.may_be_task = matches!(task_request, TaskRequest::Wanted(_));
        let mut request = message.take_request(wire, method, revision)?;
        request.asks = InputMode::Deliver;
        request.tasking = task_request;
        if let Some(session) = self.session() {
            request.log_level =
                session.handshake.announces(|it| it.logging).then_some(session.level);
            request = request.from_peer(session.peer.clone());
            let peer = session.peer.clone();
            codec.role = match codec.may_be_task && wire.streams {
                true => CodecRole::TaskOwner(Box::new(TaskOwner {
                    peer,
                    filter: session.track().clone(),
                })),
                false => CodecRole::Peer(peer),
            };
        }
        Ok(Received::Call(request, codec))
    }

    /// Reads the task request of a call. It is ignored if the server did not announce task support.
    fn task_request(&mut self, method: Method, message: &Message) -> Result<TaskRequest, Error> {
        if !self.revision().is_some_and(|revision| revision.has(Feature::TaskRequests)) {
            return Ok(TaskRequest::Unknown);
        }
        let offered = |session: &mut LegacySession| session.handshake.announces(|it| it.tool_tasks);
        let tool = method == Method::CallTool;
        match tool && (!message.has(MessageField::Task) || !self.session().is_none_or(offered)) {
            true => Ok(TaskRequest::Declined),
            false => message.task_request_from_params(method),
        }
    }

    fn set_level(&mut self, message: &Message) -> Result<Received, Error> {
        let offered = |session: &&mut LegacySession| session.handshake.announces(|it| it.logging);
        let session = self.session().filter(offered).ok_or_else(|| message.not_announced())?;
        let level =
            message.raw(MessageField::Level).and_then(|json| serde_json::from_str(json).ok());
        session.level = level.ok_or_else(|| invalid_field("level", "must be a log level"))?;
        session.edits += 1;
        Ok(message.empty_result())
    }

    fn subscribe(
        &mut self,
        wire: &ServerProtocol,
        kind: RequestKind,
        message: &Message,
    ) -> Result<Received, Error> {
        let offered = |session: &&mut LegacySession| session.handshake.announces(|it| it.subscribe);
        let session = self.session().filter(offered).ok_or_else(|| message.not_announced())?;
        message.uri(wire.limits.uri)?;
        let uri = message.text(MessageField::Uri).unwrap_or_default();
        let (most, most_bytes) = (wire.limits.subscriptions, wire.limits.subscription_bytes);
        session.edits += 1;
        let filter = session.track().clone();
        filter.edit(|filter| match kind {
            RequestKind::Unsubscribe => {
                filter.uris.remove(&*uri);
                // Smaller than before, so it fits.
                let _ = session.subscriptions.count(wire, filter, None);
                Ok(())
            }
            _ if filter.uris.contains(&*uri) => Ok(()),
            _ if filter.uris.len() >= most => Err(too_many_subscriptions(most)),
            _ if uri.len() + filter.uris.iter().map(String::len).sum::<usize>() > most_bytes => {
                Err(subscriptions_too_long(most_bytes))
            }
            _ => {
                session.subscriptions.count(wire, filter, Some(&uri))?;
                filter.uris.insert(uri.into_owned());
                Ok(())
            }
        })?;
        Ok(message.empty_result())
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
    fn track(&mut self) -> &LiveSubscriptionFilter {
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

impl Message {
    /// Returns an empty result.
    fn empty_result(&self) -> Received {
        let id = self.raw(MessageField::Id).unwrap_or("null");
        let reply = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#);
        Received::Reply(reply.into_bytes(), 200)
    }

    fn not_announced(&self) -> Error {
        unknown_method(&self.text(MessageField::Method).unwrap_or_default())
    }

    /// Empties `context`, for revisions that do not have it.
    fn drop_context(&mut self) {
        if !self.members.has(MessageField::Context) {
            return;
        }
        let context = self.members.span(MessageField::Context).range();
        let (before, after) = (&self.body[..context.start], &self.body[context.end..]);
        let body = ByteString::from([before, "{}", after].concat());
        *self = Message::of(body, u32::MAX);
    }
}

/// Returns the filter of a session before its capabilities are announced: all list changes.
fn unrestricted_filter() -> SubscriptionFilter {
    SubscriptionFilter {
        tools: true,
        prompts: true,
        resources: true,
        ..SubscriptionFilter::default()
    }
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
