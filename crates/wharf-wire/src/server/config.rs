//! What one server says about itself on every connection, and what it accepts.

use std::sync::Arc;

use bytes::Bytes;
use wharf_model::{Budget, Error, Implementation, LogLevel, Request};

use crate::{
    CallId, Codec, McpHeaders, Revision,
    json::writer,
    server::{
        client_info_cache::ClientInfoCache, connection::LegacyContext,
        message_source::MessageSource,
    },
};

/// Which revisions a server speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SupportedEras {
    /// All of them, on one stream.
    #[default]
    Both,
    /// Only those whose requests carry everything themselves.
    Modern,
    /// Only those that open with a handshake.
    Legacy,
}

/// Which numbers errors carry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ErrorProfile {
    /// Those that the peer's revision defines.
    #[default]
    Spec,
    /// In legacy revisions, those of Wharf's own registry.
    Registry,
}

/// How large a message and its parts may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProtocolLimits {
    /// Bytes in a message.
    pub message: usize,
    /// Levels of nesting, up to 128.
    pub depth: u32,
    /// Bytes in the id of a request, or of a task.
    pub id: usize,
    /// Bytes in a URI.
    pub uri: usize,
    /// Bytes in a client's capabilities, and in what it says about itself beside them.
    pub client: usize,
    /// Bytes that a legacy session or connection keeps of them, about. What only describes the client is dropped if it
    /// does not fit, then what is experimental, then the settings of extensions, whose names stay. A name or version
    /// of more than a quarter of that is refused.
    pub kept: usize,
    /// Messages in a batch.
    pub batch: usize,
    /// Resources, and tasks, that one listen, or one legacy session, may follow.
    pub subscriptions: usize,
    /// Bytes of the URIs that one legacy session may follow.
    pub subscription_bytes: usize,
    /// Bytes of the URIs that all legacy sessions may follow, with 64 more for each. One caller gets as much as is still
    /// free.
    pub subscription_total: usize,
}

impl Default for ProtocolLimits {
    fn default() -> Self {
        ProtocolLimits {
            message: 16 * 1024 * 1024,
            depth: 128,
            id: 256,
            uri: 8 * 1024,
            client: 256 * 1024,
            kept: 16 * 1024,
            batch: 1_000,
            subscriptions: 1_000,
            subscription_bytes: 128 * 1024,
            subscription_total: 64 * 1024 * 1024,
        }
    }
}

/// What one server says about itself on every connection, and what it accepts.
#[derive(Clone, Debug)]
pub struct ServerProtocol {
    pub(crate) server: Implementation,
    pub(crate) eras: SupportedEras,
    pub(crate) profile: ErrorProfile,
    pub(crate) limits: ProtocolLimits,
    pub(crate) log_level: LogLevel,
    /// Whether anything but the end of a call can be sent.
    pub(crate) streams: bool,
    /// The server's name and version, as every modern result carries them. What else the server
    /// says about itself is said once, to those who discover it.
    pub(crate) server_info: Vec<u8>,
    pub(crate) client_infos: Arc<ClientInfoCache>,
    /// Bytes that legacy sessions are subscribed to.
    pub(crate) subscriptions: Arc<Budget>,
}

impl ServerProtocol {
    /// A server that calls itself `server` and speaks every revision.
    #[must_use]
    pub fn new(server: Implementation) -> Self {
        let mut server_info = Vec::new();
        writer::json(&mut server_info, &Implementation::new(&server.name, &server.version));
        ServerProtocol {
            server,
            server_info,
            eras: SupportedEras::default(),
            profile: ErrorProfile::default(),
            limits: ProtocolLimits::default(),
            subscriptions: Budget::new(ProtocolLimits::default().subscription_total),
            log_level: LogLevel::Info,
            streams: true,
            client_infos: Arc::default(),
        }
    }

    /// What the server says about itself.
    #[must_use]
    pub fn about(&self) -> &Implementation {
        &self.server
    }

    /// Speaks only the revisions of `eras`.
    #[must_use]
    pub fn eras(mut self, eras: SupportedEras) -> Self {
        self.eras = eras;
        self
    }

    /// Numbers errors by `profile`.
    #[must_use]
    pub fn profile(mut self, profile: ErrorProfile) -> Self {
        self.profile = profile;
        self
    }

    /// Accepts messages within `limits`.
    #[must_use]
    pub fn limits(mut self, limits: ProtocolLimits) -> Self {
        self.limits = limits;
        self.subscriptions = Budget::new(limits.subscription_total);
        self
    }

    /// Logs from `level` on for a legacy client that has not said what it wants.
    #[must_use]
    pub fn default_log_level(mut self, level: LogLevel) -> Self {
        self.log_level = level;
        self
    }

    /// The same server on a host that can send nothing but the one answer to a request: there is
    /// no `subscriptions/listen`, and nothing is offered that needs a stream.
    #[must_use]
    pub fn without_streams(&self) -> ServerProtocol {
        ServerProtocol { streams: false, ..self.clone() }
    }

    /// Whether the server speaks any revision that opens with a handshake.
    #[must_use]
    pub fn speaks_legacy(&self) -> bool {
        self.eras != SupportedEras::Modern
    }

    /// Reads one message that stands alone.
    ///
    /// A legacy request is served without a session, as `revision` or else as 2025-03-26.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use wharf_model::Implementation;
    /// use wharf_wire::{Received, ServerProtocol};
    ///
    /// let wire = Arc::new(ServerProtocol::new(Implementation::new("harbour", "1.0.0")));
    /// let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    /// let Received::Reply(bytes, 200) = wire.receive(ping.into(), None) else { panic!() };
    /// assert_eq!(bytes, br#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
    /// ```
    pub fn receive(self: &Arc<Self>, message: Bytes, revision: Option<Revision>) -> Received {
        let legacy = LegacyContext::Stateless(revision);
        self.read(message, &mut MessageSource { legacy, headers: None })
    }

    /// Reads one message that stands alone, and what HTTP headers say about it.
    ///
    /// A legacy request is served without a session, as the revision that its header names or
    /// else as 2025-03-26.
    pub fn receive_http(self: &Arc<Self>, message: Bytes, headers: &McpHeaders<'_>) -> Received {
        let legacy = LegacyContext::Stateless(headers.revision());
        self.read(message, &mut MessageSource { legacy, headers: Some(headers) })
    }

    /// The answer to a message that is longer than the limit, of which nothing else is known.
    #[must_use]
    pub fn too_long(&self) -> Received {
        self.refuse_oversized(None)
    }
}

/// What to do about a message.
#[derive(Debug)]
pub enum Received {
    /// Begin the call; the codec encodes its events.
    Call(Request, Codec),
    /// Write these bytes, with this HTTP status.
    Reply(Vec<u8>, u16),
    /// The client answered the ask of this number: the JSON text of its result, or its error.
    Answer(u64, Result<String, Error>),
    /// The client gave this call up.
    Cancel(CallId),
    /// Treat each, and join the replies into one array; a silent call has no reply to wait for.
    Batch(Vec<Received>),
    /// Nothing.
    Ignore,
}
