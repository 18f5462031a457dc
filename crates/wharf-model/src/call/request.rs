//! Request of a call: the bytes of the message, and the positions of its parts.

mod edit;
mod trace;

use std::{
    borrow::Cow,
    fmt,
    ops::{Deref, DerefMut},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use bytestring::ByteString;
use serde::{
    Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;

use crate::{
    ChangeVersion, ClientCapabilities, HeaderParams, Implementation, InputMode,
    LiveSubscriptionFilter, LogLevel, Method, Principal, ProtocolInfo, RequestExtensions,
    TaskRequest,
};

/// Position of a JSON value in a message. The default is an absent value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    start: u32,
    end: u32,
}

impl Span {
    /// Creates a span from `start` to `end` (exclusive), in bytes.
    #[must_use]
    pub fn new(start: u32, end: u32) -> Self {
        Span { start, end }
    }

    /// Returns whether the value is present.
    #[must_use]
    pub fn is_some(self) -> bool {
        self.end != 0
    }

    /// Returns the byte range.
    #[must_use]
    pub fn range(self) -> std::ops::Range<usize> {
        self.start as usize..self.end as usize
    }

    /// Returns the JSON text of the value in `body`.
    #[must_use]
    pub fn of(self, body: &str) -> Option<&str> {
        if self.is_some() { body.get(self.start as usize..self.end as usize) } else { None }
    }
}

/// Positions of the parts of a request. Each span covers one complete JSON value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Parts {
    /// `id` of the JSON-RPC request, for observers.
    pub id: Span,
    /// `params`.
    pub params: Span,
    /// `params.name` or `params.uri`: the method's mirrored field. For a custom method, its name.
    pub target: Span,
    /// `params.arguments`.
    pub arguments: Span,
    /// `params.cursor`.
    pub cursor: Span,
    /// `params.limit`.
    pub limit: Span,
    /// `params._meta`.
    pub meta: Span,
    /// `params.inputResponses`.
    pub input_responses: Span,
    /// `params.requestState`.
    pub request_state: Span,
    /// The client's name and version, if the request carries them.
    pub client_info: Span,
    /// The client's capabilities, if the request carries them.
    pub client_capabilities: Span,
}

/// Client info and capabilities, as the client declared them.
#[derive(Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ClientInfo {
    /// Name and version of the client, not verified.
    pub info: Option<Implementation>,
    /// Declared capabilities.
    pub capabilities: ClientCapabilities,
}

impl ClientInfo {
    /// Creates client info from name and version, and the declared capabilities.
    #[must_use]
    pub fn new(info: Option<Implementation>, capabilities: ClientCapabilities) -> Self {
        ClientInfo { info, capabilities }
    }
}

/// Client of a session or request, identified by pointer.
#[derive(Debug, Default)]
pub struct Peer {
    /// Shared between sessions of the same client program.
    client_info: Arc<ClientInfo>,
    roots_generation: AtomicU64,
    /// Name of the client in all processes of the server. Boxed, because few clients have one.
    name: Option<Box<PeerName>>,
}

#[derive(Debug)]
struct PeerName(Box<str>);

impl Peer {
    /// Creates a peer from client info and capabilities.
    #[must_use]
    pub fn new(info: Option<Implementation>, capabilities: ClientCapabilities) -> Self {
        Peer::with_client_info(Arc::new(ClientInfo { info, capabilities }))
    }

    /// Creates a peer from shared client info.
    #[must_use]
    pub fn with_client_info(client_info: Arc<ClientInfo>) -> Self {
        Peer { client_info, roots_generation: AtomicU64::new(0), name: None }
    }

    /// Sets the name of the client in all processes of the server.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        Peer { name: Some(Box::new(PeerName(name.into()))), ..self }
    }

    /// Returns the name of the client in all processes of the server.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref().map(|name| &*name.0)
    }

    /// Returns the number of `roots/list_changed` notifications of the client.
    #[must_use]
    pub fn roots_generation(&self) -> u64 {
        self.roots_generation.load(Ordering::Acquire)
    }

    /// Records a change of the client's roots.
    pub fn roots_changed(&self) {
        self.roots_generation.fetch_add(1, Ordering::AcqRel);
    }

    /// Records the number of changes of the client's roots that any process received.
    pub fn roots_changed_by(&self, generation: u64) {
        self.roots_generation.fetch_max(generation, Ordering::AcqRel);
    }
}

impl Deref for Peer {
    type Target = ClientInfo;

    fn deref(&self) -> &ClientInfo {
        &self.client_info
    }
}

/// Request in canonical form: owned, and not parsed until the handler's types read it.
///
/// It is a single pointer, because every layer between wire and handler passes it on. The fields of
/// [`Envelope`] are accessible through `Deref`.
#[derive(Debug)]
pub struct Request(Box<Envelope>);

/// Fields of a [`Request`].
#[derive(Debug)]
#[non_exhaustive]
pub struct Envelope {
    /// Method.
    pub method: Method,
    /// Delivery mode of client requests.
    pub asks: InputMode,
    /// Minimum severity of log messages for the client; `None` for no log messages.
    pub log_level: Option<LogLevel>,
    /// True if the client requested progress.
    pub progress: bool,
    /// True for a notification of a client, which has no reply.
    pub notification: bool,
    /// Filter of a subscription.
    pub filter: Option<LiveSubscriptionFilter>,
    /// Change version since which a subscription reports changes; from its start if `None`.
    pub since: Option<ChangeVersion>,
    /// Task request of the caller.
    pub tasking: TaskRequest,
    /// `Mcp-Param-*` headers; `None` if the call came without headers.
    pub mirrored: Option<HeaderParams>,
    /// Protocol version of the request, for observers; `None` for a call within the process.
    pub protocol: Option<&'static ProtocolInfo>,
    /// Typed extensions from transports and middleware.
    pub scope: RequestExtensions,
    peer: Option<Arc<Peer>>,
    body: ByteString,
    parts: Parts,
}

impl Request {
    /// Creates a request from a message and the positions of its parts.
    #[must_use]
    pub fn new(method: Method, body: ByteString, parts: Parts) -> Self {
        Request(Box::new(Envelope {
            method,
            asks: InputMode::Suspend,
            log_level: None,
            progress: false,
            notification: false,
            filter: None,
            since: None,
            tasking: TaskRequest::default(),
            mirrored: None,
            protocol: None,
            scope: RequestExtensions::new(),
            peer: None,
            body,
            parts,
        }))
    }

    /// Sets the peer, for clients that declared their info in a handshake.
    #[must_use]
    pub fn from_peer(mut self, peer: Arc<Peer>) -> Self {
        self.peer = Some(peer);
        self
    }

    /// Returns the positions of the parts.
    #[must_use]
    pub fn parts(&self) -> &Parts {
        &self.parts
    }

    /// Returns the JSON text of `span`.
    #[must_use]
    pub fn json(&self, span: Span) -> Option<&str> {
        span.of(&self.body)
    }

    /// Returns the name of the method on the wire.
    ///
    /// ```
    /// # mod wharf { pub use wharf_model::*; pub mod model { pub use super::*; } }
    /// use wharf::model::{Method, RequestBuilder};
    ///
    /// assert_eq!(RequestBuilder::new(Method::ListTools).build().method_name(), "tools/list");
    /// assert_eq!(RequestBuilder::custom("acme/report").build().method_name(), "acme/report");
    /// ```
    #[must_use]
    pub fn method_name(&self) -> Cow<'_, str> {
        match self.method {
            Method::Custom => self.target(),
            method => Cow::Borrowed(method.name()),
        }
    }

    /// Returns the parameters that the caller of a custom method gave: the JSON object `params` without the members
    /// that belong to the protocol (`_meta`, and those of a retry).
    ///
    /// ```
    /// # mod wharf { pub use wharf_model::*; pub mod model { pub use super::*; } }
    /// use wharf::model::RequestBuilder;
    ///
    /// let request = RequestBuilder::custom("acme/report").param("year", "2026").meta("{}").build();
    /// assert_eq!(request.custom_params(), r#"{"year":2026}"#);
    /// ```
    #[must_use]
    pub fn custom_params(&self) -> Cow<'_, str> {
        let Parts { meta, input_responses, request_state, .. } = self.parts;
        let names = ["_meta", "inputResponses", "requestState"];
        let present = [meta, input_responses, request_state].map(Span::is_some);
        if present == [false; 3] {
            return Cow::Borrowed(self.params());
        }
        let is_own =
            |name: &str| !names.iter().zip(present).any(|(it, found)| found && *it == name);
        // The message was checked when it was read, so `params` is an object.
        without_members(self.params(), is_own).map_or(Cow::Borrowed("{}"), Cow::Owned)
    }

    /// Returns the parameters as a JSON object.
    #[must_use]
    pub fn params(&self) -> &str {
        self.json(self.parts.params).unwrap_or("{}")
    }

    /// Returns the name or URI of the target; empty for methods without one. The target of a custom method is its
    /// own name.
    #[must_use]
    pub fn target(&self) -> Cow<'_, str> {
        self.text(self.parts.target).unwrap_or_default()
    }

    /// Returns the arguments as a JSON object. Many clients write `null` for none.
    #[must_use]
    pub fn arguments(&self) -> &str {
        self.json(self.parts.arguments).filter(|json| *json != "null").unwrap_or("{}")
    }

    /// Returns the pagination cursor.
    #[must_use]
    pub fn cursor(&self) -> Option<Cow<'_, str>> {
        self.text(self.parts.cursor)
    }

    /// Returns the page size that the client requested.
    #[must_use]
    pub fn limit(&self) -> Option<u64> {
        self.json(self.parts.limit)?.parse().ok()
    }

    /// Returns `_meta` as a JSON object.
    #[must_use]
    pub fn meta(&self) -> Option<&str> {
        self.json(self.parts.meta)
    }

    /// Returns the responses to earlier input requests as a JSON object.
    #[must_use]
    pub fn input_responses(&self) -> Option<&str> {
        self.json(self.parts.input_responses)
    }

    /// Returns the encrypted state of an earlier attempt.
    #[must_use]
    pub fn request_state(&self) -> Option<Cow<'_, str>> {
        self.text(self.parts.request_state)
    }

    /// Returns the authenticated principal.
    #[must_use]
    pub fn principal(&self) -> Option<&Principal> {
        self.scope.get()
    }

    /// Returns the client, from the handshake or from this request.
    #[must_use]
    pub fn peer(&self) -> Arc<Peer> {
        if let Some(peer) = &self.peer {
            return peer.clone();
        }
        let info = self.json(self.parts.client_info).and_then(|j| serde_json::from_str(j).ok());
        let capabilities = self
            .json(self.parts.client_capabilities)
            .and_then(|j| serde_json::from_str(j).ok())
            .unwrap_or_default();
        Arc::new(Peer::new(info, capabilities))
    }

    /// Returns the client, if it declared its info in a handshake.
    #[must_use]
    pub fn known_peer(&self) -> Option<&Arc<Peer>> {
        self.peer.as_ref()
    }

    /// Returns the size in bytes of the message.
    #[must_use]
    pub fn message_len(&self) -> usize {
        self.body.len()
    }

    /// Drops the message with its parameters and metadata, to release its memory during long calls such as
    /// subscriptions.
    pub fn drop_message(&mut self) {
        (self.body, self.parts) = (ByteString::default(), Parts::default());
    }

    fn text(&self, span: Span) -> Option<Cow<'_, str>> {
        let quoted = self.json(span)?;
        let inside = quoted.strip_prefix('"')?.strip_suffix('"')?;
        // Names are too short for a vectorized search to pay off.
        if inside.bytes().any(|byte| byte == b'\\') {
            serde_json::from_str(quoted).ok().map(Cow::Owned)
        } else {
            Some(Cow::Borrowed(inside))
        }
    }
}

impl Deref for Request {
    type Target = Envelope;

    fn deref(&self) -> &Envelope {
        &self.0
    }
}

impl DerefMut for Request {
    fn deref_mut(&mut self) -> &mut Envelope {
        &mut self.0
    }
}

/// Copies the members of a JSON object that `is_kept` selects; none if it is not an object.
fn without_members(json: &str, is_kept: impl Fn(&str) -> bool) -> Option<String> {
    struct Members<F>(F);
    impl<'de, F: Fn(&str) -> bool> Visitor<'de> for Members<F> {
        type Value = String;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<String, A::Error> {
            let mut out = String::from("{");
            while let Some((name, value)) = map.next_entry::<String, &RawValue>()? {
                if (self.0)(&name) {
                    if out.len() > 1 {
                        out.push(',');
                    }
                    out.push_str(&serde_json::Value::from(name).to_string());
                    out.push(':');
                    out.push_str(value.get());
                }
            }
            out.push('}');
            Ok(out)
        }
    }
    serde_json::Deserializer::from_str(json).deserialize_map(Members(is_kept)).ok()
}
