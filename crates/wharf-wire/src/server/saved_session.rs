//! Serialized state of a legacy session, with which another process can continue it.

use std::{borrow::Cow, collections::BTreeSet, sync::Arc};

use serde::{Deserialize, Serialize};
use wharf_model::{
    ChangeVersion, ClientCapabilities, ClientInfo, Error, Implementation, LogLevel, Peer, Request,
    SubscriptionFilter,
};

use crate::{
    Codec, Connection, ServerProtocol,
    server::{
        encode_error::write_error,
        handshake::{AnnouncedCapabilities, HandshakeState},
        legacy_session::{LegacySession, ListenState},
        subscription_budget::SubscriptionShare,
    },
};

/// Saved form of a session. Unknown fields, written by newer versions, are ignored.
#[derive(Serialize, Deserialize)]
struct SavedSession<'a> {
    revision: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    info: Option<Cow<'a, Implementation>>,
    capabilities: Cow<'a, ClientCapabilities>,
    offer: AnnouncedCapabilities,
    level: LogLevel,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    uris: BTreeSet<String>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    tasks: BTreeSet<String>,
    /// Change version from which the subscription reports; set once the client is ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    since: Option<u64>,
    #[serde(default)]
    roots: u64,
}

/// Saving and restoring of sessions, so that any process of a server can continue them.
///
/// ```
/// use std::sync::Arc;
/// use wharf_model::{Implementation, Outcome, Reply};
/// use wharf_wire::{Connection, Received, ServerProtocol};
///
/// let wire = Arc::new(ServerProtocol::new(Implementation::new("harbour", "1.0.0")));
/// let mut here = Connection::new(wire.clone());
/// let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{
///     "protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#;
/// let Received::Call(_, codec) = here.receive(hello.into()) else { panic!() };
/// codec.encode(&Outcome::from(Reply::Discover(Box::default())), &mut Vec::new());
/// let saved = here.save().unwrap();
/// let there = Connection::restored(wire, &saved, "a name").unwrap();
/// assert!(there.is_open());
/// ```
impl Connection {
    /// Serializes the session. None unless `initialize` succeeded.
    #[must_use]
    pub fn save(&self) -> Option<Vec<u8>> {
        let session = self.session.as_ref()?;
        let peer = &session.peer;
        let follows = |what: fn(&SubscriptionFilter) -> &BTreeSet<String>| {
            let filter = session.filter.as_ref();
            filter.map(|it| it.read(|filter| what(filter).clone())).unwrap_or_default()
        };
        let saved = SavedSession {
            revision: session.revision.as_str().into(),
            info: peer.info.as_ref().map(Cow::Borrowed),
            capabilities: Cow::Borrowed(&peer.capabilities),
            offer: session.handshake.announced()?,
            level: session.level,
            uris: follows(|filter| &filter.uris),
            tasks: follows(|filter| &filter.tasks),
            since: session.listen.since().map(ChangeVersion::number),
            roots: peer.roots_generation(),
        };
        serde_json::to_vec(&saved).ok()
    }

    /// Creates a connection from the output of [`save`](Connection::save). All processes use the same `name`
    /// for the client. None if `saved` is invalid.
    #[must_use]
    pub fn restored(wire: Arc<ServerProtocol>, saved: &[u8], name: &str) -> Option<Self> {
        let kept = u32::try_from(saved.len()).unwrap_or(u32::MAX);
        let saved: SavedSession<'_> = serde_json::from_slice(saved).ok()?;
        let client = wire.client_infos.intern(ClientInfo::new(
            saved.info.as_ref().map(|info| info.clone().into_owned()),
            saved.capabilities.clone().into_owned(),
        ));
        let mut session = LegacySession {
            revision: saved.revision.parse().ok()?,
            peer: Arc::new(Peer::with_client_info(client).named(name)),
            handshake: HandshakeState::Done(saved.offer),
            filter: None,
            follows: false,
            level: saved.level,
            listen: ListenState::NotReady,
            edits: 0,
            kept,
            subscriptions: SubscriptionShare::default(),
        };
        session.catch_up(saved, wire.limits.subscriptions);
        Some(Connection { wire, session: Some(session) })
    }

    /// Updates the session to a saved state. The filter of a running subscription is updated too.
    pub fn catch_up(&mut self, saved: &[u8]) {
        if let (Some(session), Ok(saved)) = (&mut self.session, serde_json::from_slice(saved)) {
            session.catch_up(saved, self.wire.limits.subscriptions);
            session.recount(&self.wire);
        }
    }

    /// Returns the number of changes by the client to the saved state.
    #[must_use]
    pub fn edits(&self) -> u32 {
        self.session.as_ref().map_or(0, |session| session.edits)
    }

    /// Starts the session's subscription again, for as long as a reader is attached. None if the client is not
    /// ready.
    pub fn restart_listen(&mut self) -> Option<(Request, Codec)> {
        let session = self.session.as_mut()?;
        let since = session.listen.since()?;
        let (mut request, codec) = session.listen(&self.wire);
        session.listen = ListenState::Postponed(since);
        request.since = Some(since);
        Some((request, codec))
    }

    /// Records that all changes before this version were delivered.
    pub fn mark_delivered_until(&mut self, version: ChangeVersion) {
        if let Some(session) = &mut self.session
            && session.listen.since().is_some_and(|since| since < version)
        {
            session.listen = ListenState::Postponed(version);
        }
    }

    /// Writes an error as the reply to the call with this id, if only the id is known.
    pub fn fail(&self, id: &str, error: &Error, out: &mut Vec<u8>) {
        if let Some(session) = &self.session {
            write_error(out, self.wire.profile, Some(id), error, session.revision);
        }
    }
}

impl LegacySession {
    fn catch_up(&mut self, saved: SavedSession<'_>, most: usize) {
        self.level = saved.level;
        self.peer.roots_changed_by(saved.roots);
        self.listen = match saved.since.map(ChangeVersion::at) {
            // This process may have delivered more than was saved.
            Some(since) => {
                ListenState::Postponed(self.listen.since().map_or(since, |it| it.max(since)))
            }
            None => ListenState::NotReady,
        };
        self.follows |= !saved.uris.is_empty() || !saved.tasks.is_empty();
        if self.follows || self.filter.is_some() {
            self.filter().edit(|filter| {
                filter.uris = saved.uris;
                // Calls of this process may have become tasks that are not saved yet.
                let room = most.saturating_sub(filter.tasks.len());
                filter.tasks.extend(saved.tasks.into_iter().take(room));
            });
        }
    }
}

impl ListenState {
    fn since(self) -> Option<ChangeVersion> {
        match self {
            ListenState::Postponed(since) => Some(since),
            ListenState::NotReady | ListenState::Started => None,
        }
    }
}
