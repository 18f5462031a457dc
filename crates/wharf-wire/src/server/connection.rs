//! Connection that messages of every era pass through; holds the legacy session that `initialize` opens.

use std::sync::Arc;

use bytes::Bytes;
use wharf_model::{Caller, ChangeVersion, Error, Principal, Request};

use crate::{
    Codec, McpHeaders, Received, Revision, ServerProtocol,
    server::{
        legacy_session::{LegacyContext, LegacySession, ListenState},
        message::RequestRejection,
        message_source::MessageSource,
        subscription_budget::SubscriptionShare,
    },
    versions::revision::Feature,
};

/// Stream of messages: requests of any revision, and the legacy session that it may hold.
///
/// ```
/// use std::sync::Arc;
/// use wharf_model::Implementation;
/// use wharf_wire::{Connection, Received, ServerProtocol};
///
/// let wire = Arc::new(ServerProtocol::new(Implementation::new("harbour", "1.0.0")));
/// let mut connection = Connection::new(wire);
/// let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{
///     "protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#;
/// assert!(matches!(connection.receive(hello.into()), Received::Call(..)));
/// ```
#[derive(Debug)]
pub struct Connection {
    pub(crate) wire: Arc<ServerProtocol>,
    pub(crate) session: Option<LegacySession>,
}

impl Connection {
    /// Creates a connection without a session.
    #[must_use]
    pub fn new(wire: Arc<ServerProtocol>) -> Self {
        Connection { wire, session: None }
    }

    /// Reads the next message.
    pub fn receive(&mut self, message: Bytes) -> Received {
        self.read(message, None)
    }

    /// Reads the next message of an HTTP session and validates its headers.
    ///
    /// On a new connection this is the message that may open a session. Messages other than `initialize` and
    /// modern requests are refused there: they would need a session id.
    pub fn receive_http(&mut self, message: Bytes, headers: &McpHeaders<'_>) -> Received {
        self.read(message, Some(headers))
    }

    fn read(&mut self, message: Bytes, headers: Option<&McpHeaders<'_>>) -> Received {
        // A failed handshake opens no session.
        self.session.take_if(|session| !session.handshake.settle());
        let legacy = LegacyContext::Session(&mut self.session);
        self.wire.read(message, &mut MessageSource { legacy, headers })
    }

    /// Returns whether `initialize` succeeded.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.handshake.announces(|_| true))
    }

    /// Returns the date of the revision that `initialize` negotiated.
    #[must_use]
    pub fn protocol_version(&self) -> Option<&'static str> {
        self.session.as_ref().map(|session| session.revision.as_str())
    }

    /// Returns whether the session's streams start with a priming event, and may be closed early.
    #[must_use]
    pub fn polls(&self) -> bool {
        let polls = |session: &LegacySession| session.revision.has(Feature::StreamPolling);
        self.is_open() && self.session.as_ref().is_some_and(polls)
    }

    /// Returns the approximate size in bytes of the session's client info.
    #[must_use]
    pub fn client_info_bytes(&self) -> usize {
        self.session.as_ref().map_or(0, |session| session.kept as usize)
    }

    /// Counts the session's subscriptions under `caller` from now on.
    pub fn count_as(&mut self, caller: &Caller) {
        if let Some(session) = &mut self.session {
            session.subscriptions = SubscriptionShare::of(caller.clone());
            session.recount(&self.wire);
        }
    }

    /// Postpones the start of the session's subscription until it is [due](Connection::due_listen). It will
    /// report changes since `since`.
    pub fn postpone_listen(&mut self, since: ChangeVersion) {
        if let Some(session) = &mut self.session {
            session.listen = ListenState::Postponed(since);
            session.filter.take_if(|_| !session.follows);
        }
    }

    /// Sets the principal whose permissions filter the session's subscription: the sender of the newest
    /// message.
    pub fn set_principal(&self, caller: &Principal) {
        if let Some(filter) = self.session.as_ref().and_then(|session| session.filter.as_ref()) {
            filter.set_principal(caller);
        }
    }

    /// Returns the postponed subscription if it is due: a reader is attached, or the session follows resources
    /// or tasks, whose changes are not recorded elsewhere.
    pub fn due_listen(&mut self, has_reader: bool) -> Option<(Request, Codec)> {
        let session = self.session.as_mut()?;
        match session.listen {
            ListenState::Postponed(since) if has_reader || session.follows => {
                let (mut request, codec) = session.listen(&self.wire);
                request.since = Some(since);
                Some((request, codec))
            }
            _ => None,
        }
    }

    /// Returns the reply to a message that exceeds the size limit and was not read.
    #[must_use]
    pub fn too_long(&self) -> Received {
        self.wire.too_long()
    }

    /// Returns the error reply to a message that was not read.
    #[must_use]
    pub fn refuse(&self, error: &Error) -> Received {
        self.wire.refuse(None, &RequestRejection::new(error.clone(), Revision::NEWEST))
    }
}
