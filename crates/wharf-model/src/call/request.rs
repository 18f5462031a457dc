//! One call, as it came in: the message's bytes, and where in them its parts lie.

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
    ChangeVersion, ClientCapabilities, Implementation, InputMode, LiveSubscriptionFilter, LogLevel,
    Method, Mirrored, Principal, RequestExtensions, TaskRequest,
};

/// Where a JSON value lies in a message. The default is nowhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    start: u32,
    end: u32,
}

impl Span {
    /// From `start` up to `end`, both in bytes.
    #[must_use]
    pub fn new(start: u32, end: u32) -> Self {
        Span { start, end }
    }

    /// Whether there is such a value.
    #[must_use]
    pub fn is_some(self) -> bool {
        self.end != 0
    }

    /// The bytes it covers.
    #[must_use]
    pub fn range(self) -> std::ops::Range<usize> {
        self.start as usize..self.end as usize
    }

    /// The value's JSON text in `body`.
    #[must_use]
    pub fn of(self, body: &str) -> Option<&str> {
        if self.is_some() { body.get(self.start as usize..self.end as usize) } else { None }
    }
}

/// Where the parts of a call lie in its message. Each span covers one whole JSON value.
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

/// What a client says about itself.
#[derive(Debug, Default, PartialEq)]
pub struct ClientInfo {
    /// What the client calls itself. Nobody has verified it.
    pub info: Option<Implementation>,
    /// What the client can do.
    pub capabilities: ClientCapabilities,
}

/// The client at the other end: what it said about itself, and that it is nobody else.
#[derive(Debug, Default)]
pub struct Peer {
    /// Sessions of one program may share it.
    client_info: Arc<ClientInfo>,
    roots_generation: AtomicU64,
    /// By what name the other processes of the server know it. Few have one, and all would pay.
    name: Option<Box<PeerName>>,
}

#[derive(Debug)]
struct PeerName(Box<str>);

impl Peer {
    /// A client that calls itself `info` and can do `capabilities`.
    #[must_use]
    pub fn new(info: Option<Implementation>, capabilities: ClientCapabilities) -> Self {
        Peer::introduced(Arc::new(ClientInfo { info, capabilities }))
    }

    /// A client that says this about itself, as others may do too.
    #[must_use]
    pub fn introduced(client_info: Arc<ClientInfo>) -> Self {
        Peer { client_info, roots_generation: AtomicU64::new(0), name: None }
    }

    /// The same client, whom other processes of the server know too, by this name.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        Peer { name: Some(Box::new(PeerName(name.into()))), ..self }
    }

    /// By what name the other processes of the server know it, if they do.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref().map(|name| &*name.0)
    }

    /// How often the client has said that its roots are others now.
    #[must_use]
    pub fn roots_generation(&self) -> u64 {
        self.roots_generation.load(Ordering::Acquire)
    }

    /// Notes that the client's roots are others now.
    pub fn roots_changed(&self) {
        self.roots_generation.fetch_add(1, Ordering::AcqRel);
    }

    /// Notes that the client has said so this often, to any process of the server.
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

/// One call in canonical form: owned, and raw until the handler's own types read it.
///
/// It is one pointer, because every layer between the wire and the handler passes it on. What it
/// holds are the fields of [`Envelope`], which are read and set as if they were its own.
#[derive(Debug)]
pub struct Request(Box<Envelope>);

/// What a [`Request`] holds.
#[derive(Debug)]
#[non_exhaustive]
pub struct Envelope {
    /// What is called.
    pub method: Method,
    /// How asks are met.
    pub asks: InputMode,
    /// The least grave log messages the client wants; none at all if `None`.
    pub log_level: Option<LogLevel>,
    /// Whether the client wants progress.
    pub progress: bool,
    /// What a listen listens to.
    pub filter: Option<LiveSubscriptionFilter>,
    /// Since when a listen hears of changes; from its beginning on if `None`.
    pub since: Option<ChangeVersion>,
    /// What the caller said about tasks.
    pub tasking: TaskRequest,
    /// What headers say about the arguments; `None` if the call came without headers.
    pub mirrored: Option<Mirrored>,
    /// What outer layers put beside the message.
    pub scope: RequestExtensions,
    peer: Option<Arc<Peer>>,
    body: ByteString,
    parts: Parts,
}

impl Request {
    /// A call whose parts lie in `body` as `parts` says.
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

    /// The same call, from a client that said who it is earlier.
    #[must_use]
    pub fn from_peer(mut self, peer: Arc<Peer>) -> Self {
        self.peer = Some(peer);
        self
    }

    /// Where the parts lie.
    #[must_use]
    pub fn parts(&self) -> &Parts {
        &self.parts
    }

    /// The JSON text of `span`.
    #[must_use]
    pub fn json(&self, span: Span) -> Option<&str> {
        span.of(&self.body)
    }

    /// The parameters, as a JSON object.
    #[must_use]
    pub fn params(&self) -> &str {
        self.json(self.parts.params).unwrap_or("{}")
    }

    /// The name or URI of what is called; empty for methods that name nothing.
    #[must_use]
    pub fn target(&self) -> Cow<'_, str> {
        self.text(self.parts.target).unwrap_or_default()
    }

    /// The arguments, as a JSON object. Many clients write `null` where there are none.
    #[must_use]
    pub fn arguments(&self) -> &str {
        self.json(self.parts.arguments).filter(|json| *json != "null").unwrap_or("{}")
    }

    /// Where a list goes on.
    #[must_use]
    pub fn cursor(&self) -> Option<Cow<'_, str>> {
        self.text(self.parts.cursor)
    }

    /// How many items the client would like on a page.
    #[must_use]
    pub fn limit(&self) -> Option<u64> {
        self.json(self.parts.limit)?.parse().ok()
    }

    /// The request's metadata, as a JSON object.
    #[must_use]
    pub fn meta(&self) -> Option<&str> {
        self.json(self.parts.meta)
    }

    /// The answers to an earlier round's questions, as a JSON object.
    #[must_use]
    pub fn input_responses(&self) -> Option<&str> {
        self.json(self.parts.input_responses)
    }

    /// The state an earlier round sealed.
    #[must_use]
    pub fn request_state(&self) -> Option<Cow<'_, str>> {
        self.text(self.parts.request_state)
    }

    /// Who is calling, if anybody authenticated the caller.
    #[must_use]
    pub fn principal(&self) -> Option<&Principal> {
        self.scope.get()
    }

    /// The client at the other end: what it said earlier, or says with this request.
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

    /// The client at the other end, if it said earlier who it is.
    #[must_use]
    pub fn known_peer(&self) -> Option<&Arc<Peer>> {
        self.peer.as_ref()
    }

    /// How many bytes the message has that the call came in, or was written as.
    #[must_use]
    pub fn message_len(&self) -> usize {
        self.body.len()
    }

    /// Forgets the message: its parameters and its metadata. A call that lasts, such as a listen, would
    /// otherwise keep the memory that the message takes.
    pub fn forget_message(&mut self) {
        (self.body, self.parts) = (ByteString::default(), Parts::default());
    }

    fn text(&self, span: Span) -> Option<Cow<'_, str>> {
        let quoted = self.json(span)?;
        let inside = quoted.strip_prefix('"')?.strip_suffix('"')?;
        // Names are short: too short for a search by vectors to pay.
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

/// Writes a [`Request`] for callers in the same process, who have no message to decode.
///
/// ```
/// # mod wharf { pub use wharf_model::*; }
/// use wharf::{Method, RequestBuilder};
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
    /// A request for `method` without parameters.
    #[must_use]
    pub fn new(method: Method) -> Self {
        RequestBuilder { method, body: "{".into(), parts: Parts::default() }
    }

    /// Names the tool, prompt or resource.
    #[must_use]
    pub fn target(mut self, target: &str) -> Self {
        let field = self.method.info().mirrored.unwrap_or("name");
        self.parts.target = self.put_text(field, target);
        self
    }

    /// The arguments: the text of a JSON object.
    #[must_use]
    pub fn arguments(mut self, json: &str) -> Self {
        self.parts.arguments = self.put("arguments", json);
        self
    }

    /// Where a list goes on.
    #[must_use]
    pub fn cursor(mut self, cursor: &str) -> Self {
        self.parts.cursor = self.put_text("cursor", cursor);
        self
    }

    /// How many items a page should have.
    #[must_use]
    pub fn limit(mut self, limit: u64) -> Self {
        self.parts.limit = self.put("limit", &limit.to_string());
        self
    }

    /// The answers to an earlier round's questions: the text of a JSON object.
    #[must_use]
    pub fn input_responses(mut self, json: &str) -> Self {
        self.parts.input_responses = self.put("inputResponses", json);
        self
    }

    /// The state an earlier round returned.
    #[must_use]
    pub fn request_state(mut self, state: &str) -> Self {
        self.parts.request_state = self.put_text("requestState", state);
        self
    }

    /// The request's metadata: the text of a JSON object.
    #[must_use]
    pub fn meta(mut self, json: &str) -> Self {
        self.parts.meta = self.put("_meta", json);
        self
    }

    /// Any other parameter: its name and the text of its JSON value.
    #[must_use]
    pub fn param(mut self, name: &str, json: &str) -> Self {
        self.put(name, json);
        self
    }

    /// The request.
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

/// Messages are far below 4 GiB; a longer one has no parts.
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
