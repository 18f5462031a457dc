//! Protocol settings of a server: identity, supported eras and error codes.

use std::{
    collections::HashSet,
    sync::{Arc, OnceLock},
};

use bytes::Bytes;
use wharf_model::{Budget, Error, ErrorKind, Implementation, LogLevel, Method, Request};

use crate::{
    CallId, Codec, Era, McpHeaders, Revision,
    json::writer,
    server::{
        client_info_cache::ClientInfoCache, legacy_session::LegacyContext, limits::MessageLimits,
        message_source::MessageSource,
    },
    versions::revision::{ALWAYS, RequestKind, RevisionRange},
};

/// Revisions that a server supports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SupportedEras {
    /// All revisions, on one stream.
    #[default]
    Both,
    /// Only revisions with self-contained (stateless) requests.
    Modern,
    /// Only revisions with an `initialize` handshake.
    Legacy,
}

impl From<Era> for SupportedEras {
    fn from(era: Era) -> Self {
        match era {
            Era::Modern => SupportedEras::Modern,
            Era::Legacy => SupportedEras::Legacy,
        }
    }
}

/// Error codes that replies carry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorProfile {
    /// The codes of the client's revision.
    #[default]
    Spec,
    /// In legacy revisions, the codes of Wharf's own registry.
    Registry,
}

/// Methods or client notifications of a server that the protocol does not define.
#[derive(Clone, Debug)]
enum CustomNames {
    Named(HashSet<String>),
    Any,
}

impl CustomNames {
    /// Returns whether the server has `name`; `is_free` tells whether no revision defines it.
    fn has(&self, name: &str, is_free: impl Fn(&str) -> bool) -> bool {
        match self {
            CustomNames::Named(names) => names.contains(name),
            CustomNames::Any => Method::is_qualified(name) && is_free(name),
        }
    }
}

/// Identity of a server, with the part that every modern result carries.
#[derive(Clone, Debug)]
struct EncodedIdentity {
    server: Implementation,
    /// Name and version of the server as JSON, which every modern result carries. Other fields are sent with
    /// discovery only.
    server_info: Vec<u8>,
}

impl EncodedIdentity {
    fn new(server: Implementation) -> Self {
        let mut server_info = Vec::new();
        writer::json(&mut server_info, &Implementation::new(&server.name, &server.version));
        EncodedIdentity { server, server_info }
    }
}

/// Identity of a server that is known only while it runs: that of a proxy, when its upstream server is connected.
///
/// ```
/// # mod wharf { pub mod server { pub use wharf_wire::LaterIdentity; } pub mod model { pub use wharf_model::Implementation; } }
/// use wharf::{model::Implementation, server::LaterIdentity};
///
/// let identity = LaterIdentity::default();
/// identity.set(Implementation::new("harbour", "1.0.0"));
/// ```
#[derive(Clone, Debug, Default)]
pub struct LaterIdentity(Arc<OnceLock<EncodedIdentity>>);

impl LaterIdentity {
    /// Sets the identity. Only the first one is used.
    pub fn set(&self, server: Implementation) {
        let _ = self.0.set(EncodedIdentity::new(server));
    }
}

/// Protocol settings of one server, shared by all its connections.
#[derive(Clone, Debug)]
pub struct ServerProtocol {
    identity: EncodedIdentity,
    later: LaterIdentity,
    pub(crate) eras: SupportedEras,
    pub(crate) profile: ErrorProfile,
    pub(crate) limits: MessageLimits,
    pub(crate) log_level: LogLevel,
    /// Set if the transport can send more than the one reply to a request.
    pub(crate) streams: bool,
    pub(crate) client_infos: Arc<ClientInfoCache>,
    /// Memory budget for the resource subscriptions of legacy sessions.
    pub(crate) subscriptions: Arc<Budget>,
    custom_methods: Arc<CustomNames>,
    custom_notifications: Arc<CustomNames>,
}

impl ServerProtocol {
    /// Creates the settings of a server that supports every revision.
    #[must_use]
    pub fn new(server: Implementation) -> Self {
        ServerProtocol {
            identity: EncodedIdentity::new(server),
            later: LaterIdentity::default(),
            eras: SupportedEras::default(),
            profile: ErrorProfile::default(),
            limits: MessageLimits::default(),
            subscriptions: Budget::new(MessageLimits::default().subscription_total),
            log_level: LogLevel::Info,
            streams: true,
            client_infos: Arc::default(),
            custom_methods: Arc::new(CustomNames::Named(HashSet::new())),
            custom_notifications: Arc::new(CustomNames::Named(HashSet::new())),
        }
    }

    /// Returns the server's name, version and description.
    #[must_use]
    pub fn about(&self) -> &Implementation {
        &self.identity().server
    }

    /// Name and version of the server as JSON.
    pub(crate) fn server_info(&self) -> &[u8] {
        &self.identity().server_info
    }

    fn identity(&self) -> &EncodedIdentity {
        self.later.0.get().unwrap_or(&self.identity)
    }

    /// Replaces the identity as soon as `later` is set.
    #[must_use]
    pub fn later_identity(mut self, later: LaterIdentity) -> Self {
        self.later = later;
        self
    }

    /// Restricts the supported revisions to those of `eras`.
    #[must_use]
    pub fn eras(mut self, eras: SupportedEras) -> Self {
        self.eras = eras;
        self
    }

    /// Selects the error codes.
    #[must_use]
    pub fn profile(mut self, profile: ErrorProfile) -> Self {
        self.profile = profile;
        self
    }

    /// Sets the size limits.
    #[must_use]
    pub fn limits(mut self, limits: MessageLimits) -> Self {
        self.limits = limits;
        self.subscriptions = Budget::new(limits.subscription_total);
        self
    }

    /// Returns the maximum number of bytes in a message.
    #[must_use]
    pub fn max_message(&self) -> usize {
        self.limits.message
    }

    /// Sets the methods of the server that the protocol does not define.
    #[must_use]
    pub fn custom_methods(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let names = names.into_iter().map(Into::into).collect();
        self.custom_methods = Arc::new(CustomNames::Named(names));
        self
    }

    /// Sets the notifications of clients that extensions of the server declare.
    #[must_use]
    pub fn custom_notifications(
        mut self,
        names: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        let names = names.into_iter().map(Into::into).collect();
        self.custom_notifications = Arc::new(CustomNames::Named(names));
        self
    }

    /// Accepts every method and every notification that the protocol does not define and whose name is
    /// [qualified](Method::is_qualified), for a proxy: the upstream server refuses the ones that it does not have.
    #[must_use]
    pub fn any_custom_method(mut self) -> Self {
        self.custom_methods = Arc::new(CustomNames::Any);
        self.custom_notifications = self.custom_methods.clone();
        self
    }

    /// Returns the request named `name` and the revisions that have it.
    pub(crate) fn request_kind(&self, name: &str) -> Option<(RequestKind, RevisionRange)> {
        RequestKind::named(name).or_else(|| {
            let has = self.custom_methods.has(name, |name| !Method::is_defined(name));
            has.then_some((RequestKind::Call(Method::Custom), ALWAYS))
        })
    }

    /// Returns whether an extension of the server declares the notification `name` of clients.
    pub(crate) fn has_custom_notification(&self, name: &str) -> bool {
        self.custom_notifications.has(name, Method::is_custom_notification)
    }

    /// Sets the log level for legacy clients that did not send `logging/setLevel`.
    #[must_use]
    pub fn default_log_level(mut self, level: LogLevel) -> Self {
        self.log_level = level;
        self
    }

    /// Returns the settings for a transport that can send only one reply to a request: without
    /// `subscriptions/listen` and without capabilities that need a stream.
    #[must_use]
    pub fn without_streams(&self) -> ServerProtocol {
        ServerProtocol { streams: false, ..self.clone() }
    }

    /// Returns whether the server supports any revision with sessions.
    #[must_use]
    pub fn has_sessions(&self) -> bool {
        self.eras != SupportedEras::Modern
    }

    /// Reads one stateless message.
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
    /// let Received::Reply(bytes, 200, None) = wire.receive(ping.into(), None) else { panic!() };
    /// assert_eq!(bytes, br#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
    /// ```
    pub fn receive(self: &Arc<Self>, message: Bytes, revision: Option<Revision>) -> Received {
        let legacy = LegacyContext::Stateless(revision);
        self.read(message, &mut MessageSource { legacy, headers: None })
    }

    /// Reads one stateless message and validates its HTTP headers.
    ///
    /// A legacy request is served without a session, as the revision in its header or else as 2025-03-26.
    pub fn receive_http(self: &Arc<Self>, message: Bytes, headers: &McpHeaders<'_>) -> Received {
        let legacy = LegacyContext::Stateless(headers.revision());
        self.read(message, &mut MessageSource { legacy, headers: Some(headers) })
    }

    /// Returns the reply to a message that exceeds the size limit and was not read.
    #[must_use]
    pub fn too_long(&self) -> Received {
        self.refuse_oversized(None)
    }
}

/// Action for a received message.
#[derive(Debug)]
pub enum Received {
    /// Start the call; the codec encodes its events.
    Call(Request, Codec),
    /// Run the handler of this notification, which has no reply.
    Notify(Request),
    /// Write these bytes, with this HTTP status. They have an error of this kind if the message is refused.
    Reply(Vec<u8>, u16, Option<ErrorKind>),
    /// Deliver the client's response to the server request of this number: the JSON text of its result, or its
    /// error.
    Answer(u64, Result<String, Error>),
    /// Cancel this call.
    Cancel(CallId),
    /// Process each message, and join the replies into one array; a silent call has no reply.
    Batch(Vec<Received>),
    /// Do nothing.
    Ignore,
}
