//! Legacy requests: `initialize`, `ping`, `logging/setLevel`, `resources/subscribe`, `resources/unsubscribe`, and those
//! that become calls.
//!
//! Counterpart of `modern.rs`, whose requests need no session.

use std::sync::Arc;

use bytestring::ByteString;
use wharf_model::{Error, InputMode, Method, Peer, TaskRequest};

use crate::{
    Received, ServerProtocol,
    json::field_spans::MessageField,
    server::{
        client_info_cache::read_client_info,
        codec::{CodecRole, TaskOwner},
        handshake::{HandshakeState, PendingInitialize},
        headers::legacy_revision,
        legacy_session::{LegacyContext, LegacySession, ListenState},
        message::{
            Message, invalid_field, invalid_request, subscriptions_too_long,
            too_many_subscriptions, unknown_method,
        },
        subscription_budget::SubscriptionShare,
        version_negotiation::negotiate,
    },
    versions::revision::{Feature, RequestKind},
};

impl LegacyContext<'_> {
    /// Handles a request that its revision has. Before `initialize`, a connection accepts only `ping`.
    pub(crate) fn request(
        &mut self,
        wire: &Arc<ServerProtocol>,
        kind: RequestKind,
        message: &mut Message,
    ) -> Result<Received, Error> {
        match kind {
            RequestKind::Initialize | RequestKind::Ping => {}
            _ => self.require_session(wire)?,
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
        let revision = legacy_revision(self.revision());
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
}

impl Message {
    /// Returns an empty result.
    fn empty_result(&self) -> Received {
        let id = self.raw(MessageField::Id).unwrap_or("null");
        let reply = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#);
        Received::Reply(reply.into_bytes(), 200, None)
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
