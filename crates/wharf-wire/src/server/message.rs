//! Message with a validated envelope, and the request built from it.

use std::{borrow::Cow, sync::Arc};

use bytestring::ByteString;
use serde_json::json;
use wharf_model::{
    Error, ErrorKind, Lifetime, LiveSubscriptionFilter, METHODS, Method, Parts, Request, Span,
    SubscriptionFilter, excerpt,
};

use crate::{
    CallId, Codec, Revision, ServerProtocol,
    json::field_spans::{FieldSpans, MessageField},
    versions::{protocol_info, revision::Feature},
};

/// Message whose JSON-RPC envelope is valid.
pub(crate) struct Message {
    pub(crate) body: ByteString,
    pub(crate) members: FieldSpans,
}

/// Error reply to a request that is not started.
pub(crate) struct RequestRejection {
    pub(crate) error: Error,
    pub(crate) revision: Revision,
    /// HTTP status, if not the default of the error kind.
    pub(crate) status: Option<u16>,
}

impl RequestRejection {
    pub(crate) fn new(error: impl Into<Error>, revision: Revision) -> Self {
        RequestRejection { error: error.into(), revision, status: None }
    }
}

impl Message {
    /// Scans the fields of `body`.
    pub(crate) fn of(body: ByteString, depth: u32) -> Self {
        let mut message = Message { body, members: FieldSpans::default() };
        message.members.find(&message.body, depth);
        message
    }

    pub(crate) fn has(&self, slot: MessageField) -> bool {
        self.members.has(slot)
    }

    pub(crate) fn is_string(&self, slot: MessageField) -> bool {
        self.members.is_string(&self.body, slot)
    }

    /// Returns whether the field is a valid id: an integer or a string, of at most `limit` bytes.
    pub(crate) fn is_id(&self, slot: MessageField, limit: usize) -> bool {
        self.members.is_id(&self.body, slot, limit)
    }

    pub(crate) fn raw(&self, slot: MessageField) -> Option<&str> {
        self.members.raw(&self.body, slot)
    }

    pub(crate) fn text(&self, slot: MessageField) -> Option<Cow<'_, str>> {
        self.members.text(&self.body, slot)
    }

    /// Returns the position of the field, unless it is `null`.
    pub(crate) fn span(&self, slot: MessageField) -> Span {
        self.members.value(slot)
    }

    /// Returns the id in a canonical form, in which equal ids have equal text.
    pub(crate) fn call_id(&self, slot: MessageField, limit: usize) -> Option<CallId> {
        let id = self.raw(slot).filter(|_| self.is_id(slot, limit))?;
        Some(CallId::canonical(self.body.slice_ref(id)))
    }

    /// Rejects a field that is present and not an object.
    pub(crate) fn require_object(&self, slot: MessageField, field: &str) -> Result<(), Error> {
        match self.members.is_object(&self.body, slot) || !self.span(slot).is_some() {
            true => Ok(()),
            false => Err(invalid_field(field, "must be an object")),
        }
    }

    /// Rejects client info or capabilities that are not an object or too long.
    pub(crate) fn check_client_field(
        &self,
        wire: &ServerProtocol,
        slot: MessageField,
        field: &str,
    ) -> Result<(), Error> {
        self.require_object(slot, field)?;
        match self.span(slot).range().len() > wire.limits.client {
            true => Err(invalid_field(field, "is too long")),
            false => Ok(()),
        }
    }

    pub(crate) fn check_objects(&self) -> Result<(), Error> {
        self.require_object(MessageField::Params, "params")?;
        self.require_object(MessageField::Meta, "_meta")
    }

    fn require_string(&self, slot: MessageField, field: &str) -> Result<(), Error> {
        match self.span(slot).is_some() && !self.is_string(slot) {
            true => Err(invalid_field(field, "must be a string")),
            false => Ok(()),
        }
    }

    /// Builds the request; takes the body out of the message.
    pub(crate) fn take_request(
        &mut self,
        wire: &ServerProtocol,
        method: Method,
        revision: Revision,
    ) -> Result<Request, Error> {
        // A custom method may use these names for anything.
        let unless_custom = |error| match method {
            Method::Custom => Ok(()),
            _ => Err(error),
        };
        self.require_object(MessageField::Arguments, "arguments").or_else(unless_custom)?;
        self.require_string(MessageField::Cursor, "cursor").or_else(unless_custom)?;
        let mut parts = Parts::default();
        parts.id = self.members.span(MessageField::Id);
        parts.params = self.span(MessageField::Params);
        parts.target = self.target(wire, method)?;
        parts.arguments = self.span(MessageField::Arguments);
        parts.cursor = self.span(MessageField::Cursor);
        parts.limit = self.span(MessageField::Limit);
        parts.meta = self.span(MessageField::Meta);
        if revision.has(Feature::InputRequests) {
            self.require_object(MessageField::InputResponses, "inputResponses")?;
            self.require_string(MessageField::RequestState, "requestState")?;
            parts.input_responses = self.span(MessageField::InputResponses);
            parts.request_state = self.span(MessageField::RequestState);
        }
        if revision.is_modern() {
            parts.client_info = self.span(MessageField::MetaClient);
            parts.client_capabilities = self.span(MessageField::MetaCapabilities);
        }
        if method == Method::UpdateTask && !parts.input_responses.is_some() {
            return Err(invalid_field("inputResponses", "must be an object"));
        }
        let filter = match method {
            Method::Listen => Some(LiveSubscriptionFilter::new(self.filter(wire)?)),
            _ => None,
        };
        let progress = wire.streams && self.token().is_some();
        let mut request = Request::new(method, std::mem::take(&mut self.body), parts);
        request.filter = filter;
        request.progress = progress;
        request.protocol = Some(protocol_info::of(revision, wire.profile));
        Ok(request)
    }

    fn target(&self, wire: &ServerProtocol, method: Method) -> Result<Span, Error> {
        match target_field(method) {
            Some(MessageField::Uri) => self.uri(wire.limits.uri),
            Some(MessageField::TaskId) => self.task_id(wire.limits.id),
            Some(slot) => self.named(slot, "name"),
            None if method == Method::Custom => Ok(self.members.span(MessageField::Method)),
            None => Ok(Span::default()),
        }
    }

    /// Returns the progress token: a string or integer; anything else is ignored.
    pub(crate) fn token(&self) -> Span {
        match self.is_id(MessageField::Token, usize::MAX) {
            true => self.members.span(MessageField::Token),
            false => Span::default(),
        }
    }

    fn named(&self, slot: MessageField, field: &str) -> Result<Span, Error> {
        match self.is_string(slot) {
            true => Ok(self.members.span(slot)),
            false => Err(invalid_field(field, "must be a string")),
        }
    }

    pub(crate) fn uri(&self, limit: usize) -> Result<Span, Error> {
        let span = self.named(MessageField::Uri, "uri")?;
        match self.text(MessageField::Uri) {
            Some(uri) if uri.len() > limit => Err(uri_too_long(limit)),
            _ => Ok(span),
        }
    }

    fn task_id(&self, limit: usize) -> Result<Span, Error> {
        let span = self.named(MessageField::TaskId, "taskId")?;
        match self.text(MessageField::TaskId) {
            Some(id) if id.len() > limit => Err(invalid_field("taskId", "is too long")),
            _ => Ok(span),
        }
    }

    fn filter(&self, wire: &ServerProtocol) -> Result<SubscriptionFilter, Error> {
        let wanted = self.raw(MessageField::Notifications).unwrap_or_default();
        let filter: SubscriptionFilter = serde_json::from_str(wanted)
            .map_err(|_| invalid_field("notifications", "must be a notification filter"))?;
        if filter.uris.len().max(filter.tasks.len()) > wire.limits.subscriptions {
            return Err(too_many_subscriptions(wire.limits.subscriptions));
        }
        if filter.tasks.iter().any(|id| id.len() > wire.limits.id) {
            return Err(invalid_field("notifications.taskIds", "has an id that is too long"));
        }
        match filter.uris.iter().any(|uri| uri.len() > wire.limits.uri) {
            true => Err(uri_too_long(wire.limits.uri)),
            false => Ok(filter),
        }
    }

    /// Builds the codec for the reply.
    pub(crate) fn codec(
        &self,
        wire: &Arc<ServerProtocol>,
        method: Method,
        revision: Revision,
    ) -> Codec {
        let mut codec = Codec {
            wire: wire.clone(),
            body: self.body.clone(),
            id: self.members.span(MessageField::Id),
            token: self.token(),
            target: target_field(method).map_or(Span::default(), |field| self.span(field)),
            capabilities: self.span(MessageField::MetaCapabilities),
            retried: [MessageField::InputResponses, MessageField::RequestState]
                .into_iter()
                .any(|slot| self.span(slot).is_some()),
            may_be_task: false,
            method,
            revision,
            role: Default::default(),
        };
        // Calls without a time limit must not keep the buffer that the message was read into.
        let lasts = method.info().lifetime != Lifetime::Short;
        if lasts || self.body.len() > MAX_SHARED_BODY_BYTES {
            codec.shrink_body();
        }
        codec
    }
}

/// Returns the field that names the target of `method`: the one that headers repeat.
pub(crate) fn target_field(method: Method) -> Option<MessageField> {
    TARGET_FIELDS[method as usize]
}

/// Field of the target of each method, from the names in [`METHODS`]. A name without a field does not compile.
static TARGET_FIELDS: [Option<MessageField>; METHODS.len()] = {
    let mut fields = [None; METHODS.len()];
    let mut index = 0;
    while index < fields.len() {
        fields[index] = match METHODS[index].mirrored {
            None => None,
            Some(name) => Some(match name.as_bytes() {
                b"name" => MessageField::Name,
                b"uri" => MessageField::Uri,
                b"taskId" => MessageField::TaskId,
                _ => panic!("the scanner has no such field: add it to `MessageField`"),
            }),
        };
        index += 1;
    }
    fields
};

/// Size above which the codec copies what it needs instead of keeping the message.
const MAX_SHARED_BODY_BYTES: usize = 4 << 10;

pub(crate) fn invalid_request(problem: impl Into<Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::InvalidRequest).with_message(problem)
}

pub(crate) fn unknown_method(name: &str) -> Error {
    Error::method_not_found(&excerpt(name))
}

/// Error for an invalid parameter.
pub(crate) fn invalid_field(field: &str, problem: &str) -> Error {
    Error::new(ErrorKind::InvalidParams)
        .with_message(format!("Invalid params: `{field}` {problem}"))
        .with_data(json!({"field": field}))
}

pub(crate) fn subscriptions_too_long(most: usize) -> Error {
    Error::new(ErrorKind::RefusedResourceConstraints)
        .with_message(format!("Too many bytes in the URIs of all subscriptions: at most {most}"))
}

pub(crate) fn too_many_subscriptions(most: usize) -> Error {
    Error::new(ErrorKind::RefusedResourceConstraints)
        .with_message(format!("Too many subscriptions: at most {most}"))
}

fn uri_too_long(limit: usize) -> Error {
    let error =
        Error::new(ErrorKind::UriTooLong).with_data(json!({"field": "uri", "limit": limit}));
    error.with_message(format!("URI too long: at most {limit} bytes"))
}
