//! Request of a call: the bytes of the message, and the positions of its parts.

use std::{
    borrow::Cow,
    ops::{Deref, DerefMut},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use bytestring::ByteString;

use crate::{
    ChangeVersion, ClientCapabilities, HeaderParams, Implementation, InputMode,
    LiveSubscriptionFilter, LogLevel, Method, Principal, RequestExtensions, TaskRequest,
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
pub struct Parts {
    /// `params`.
    pub params: Span,
    /// `params.name` or `params.uri`: the method's mirrored field.
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
pub struct ClientInfo {
    /// Name and version of the client, not verified.
    pub info: Option<Implementation>,
    /// Declared capabilities.
    pub capabilities: ClientCapabilities,
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
    /// Filter of a subscription.
    pub filter: Option<LiveSubscriptionFilter>,
    /// Change version since which a subscription reports changes; from its start if `None`.
    pub since: Option<ChangeVersion>,
    /// Task request of the caller.
    pub tasking: TaskRequest,
    /// `Mcp-Param-*` headers; `None` if the call came without headers.
    pub mirrored: Option<HeaderParams>,
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
            filter: None,
            since: None,
            tasking: TaskRequest::default(),
            mirrored: None,
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

    /// Returns the parameters as a JSON object.
    #[must_use]
    pub fn params(&self) -> &str {
        self.json(self.parts.params).unwrap_or("{}")
    }

    /// Returns the name or URI of the target; empty for methods without one.
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

/// Builder of a [`Request`] for callers in the same process, without a message to decode.
///
/// ```
/// # mod wharf { pub use wharf_model::*; pub mod model { pub use super::*; } }
/// use wharf::model::{Method, RequestBuilder};
///
/// let request = RequestBuilder::new(Method::CallTool)
///     .target("add")
///     .arguments(r#"{"a":1,"b":2}"#)
///     .build();
/// assert_eq!(request.target(), "add");
/// assert_eq!(request.params(), r#"{"name":"add","arguments":{"a":1,"b":2}}"#);
/// ```
#[derive(Debug)]
pub struct RequestBuilder {
    method: Method,
    body: String,
    parts: Parts,
}

impl RequestBuilder {
    /// Creates a request for `method` without parameters.
    #[must_use]
    pub fn new(method: Method) -> Self {
        RequestBuilder { method, body: "{".into(), parts: Parts::default() }
    }

    /// Sets the tool, prompt, resource or task.
    #[must_use]
    pub fn target(mut self, target: &str) -> Self {
        let field = self.method.info().mirrored.unwrap_or("name");
        self.parts.target = self.put_text(field, target);
        self
    }

    /// Sets the arguments: the text of a JSON object.
    #[must_use]
    pub fn arguments(mut self, json: &str) -> Self {
        self.parts.arguments = self.put("arguments", json);
        self
    }

    /// Sets the pagination cursor.
    #[must_use]
    pub fn cursor(mut self, cursor: &str) -> Self {
        self.parts.cursor = self.put_text("cursor", cursor);
        self
    }

    /// Sets the requested page size.
    #[must_use]
    pub fn limit(mut self, limit: u64) -> Self {
        self.parts.limit = self.put("limit", &limit.to_string());
        self
    }

    /// Sets the responses to earlier input requests: the text of a JSON object.
    #[must_use]
    pub fn input_responses(mut self, json: &str) -> Self {
        self.parts.input_responses = self.put("inputResponses", json);
        self
    }

    /// Sets the state that an earlier attempt returned.
    #[must_use]
    pub fn request_state(mut self, state: &str) -> Self {
        self.parts.request_state = self.put_text("requestState", state);
        self
    }

    /// Sets `_meta`: the text of a JSON object.
    #[must_use]
    pub fn meta(mut self, json: &str) -> Self {
        self.parts.meta = self.put("_meta", json);
        self
    }

    /// Adds any other parameter: its name and the text of its JSON value.
    #[must_use]
    pub fn param(mut self, name: &str, json: &str) -> Self {
        self.put(name, json);
        self
    }

    /// Builds the request.
    #[must_use]
    pub fn build(mut self) -> Request {
        self.body.push('}');
        self.parts.params = span(0, self.body.len());
        Request::new(self.method, self.body.into(), self.parts)
    }

    fn put_text(&mut self, name: &str, text: &str) -> Span {
        let json = serde_json::Value::from(text).to_string();
        self.put(name, &json)
    }

    fn put(&mut self, name: &str, json: &str) -> Span {
        if self.body.len() > 1 {
            self.body.push(',');
        }
        self.body.push_str(&serde_json::Value::from(name).to_string());
        self.body.push(':');
        let start = self.body.len();
        self.body.push_str(json);
        span(start, self.body.len())
    }
}

/// Returns the span. Messages are far below 4 GiB; a longer one has no parts.
fn span(start: usize, end: usize) -> Span {
    match (u32::try_from(start), u32::try_from(end)) {
        (Ok(start), Ok(end)) => Span::new(start, end),
        _ => Span::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaped_text_is_decoded_and_plain_text_is_borrowed() {
        let request = RequestBuilder::new(Method::GetPrompt).target("a\"b").cursor("c").build();
        assert_eq!(request.target(), "a\"b");
        assert!(matches!(request.cursor(), Some(Cow::Borrowed("c"))));
    }
}
