//! Decodes a message: classifies it, determines its era, and builds the call.

use std::sync::Arc;

use bytes::Bytes;
use bytestring::ByteString;
use serde_json::json;
use wharf_model::{Error, ErrorKind, excerpt};

use crate::{
    Era, Received, Revision, ServerProtocol, SupportedEras,
    json::envelope::{FieldSet, MessageFault, MessageField},
    server::{
        connection::{LegacyContext, not_initialized},
        encode_error::{read_error, write_error},
        message::{Message, RequestRejection, unknown_method},
        message_source::MessageSource,
        modern,
    },
    versions::{
        error_codes,
        revision::{RequestKind, RevisionRange},
    },
};

impl ServerProtocol {
    pub(crate) fn read(
        self: &Arc<Self>,
        message: Bytes,
        source: &mut MessageSource<'_>,
    ) -> Received {
        let limit = self.limits.message.min(u32::MAX as usize);
        if message.len() > limit {
            return self.refuse_oversized(Some(message.len()));
        }
        let Ok(body) = ByteString::try_from(message) else {
            return self.refuse_unparsed(None, ErrorKind::ParseError, "the message is not UTF-8");
        };
        match body.trim_ascii_start().starts_with('[') {
            true => self.read_batch(&body, source),
            false => self.read_one(body, source),
        }
    }

    pub(crate) fn read_one(
        self: &Arc<Self>,
        body: ByteString,
        source: &mut MessageSource<'_>,
    ) -> Received {
        use ErrorKind::{InvalidRequest, ParseError};
        let mut message = Message::of(body, self.limits.depth);
        let fault = message.members.fault;
        if fault == Some(MessageFault::Malformed) {
            return self.refuse_unparsed(None, ParseError, "malformed JSON");
        }
        let is_response = message.members.has_any(RESPONSE_FIELDS);
        let is_request = message.has(MessageField::Method);
        let id = message.members.span(MessageField::Id).of(&message.body);
        let id = id.filter(|_| message.is_id(MessageField::Id, self.limits.id));
        let id = id.filter(|_| fault != Some(MessageFault::Duplicate(MessageField::Id)));
        // The id of a response is the server's: an error under it could be taken for the reply to a client
        // request.
        let id = id.filter(|_| is_request || !is_response);
        let invalid = |problem: &'static str| self.refuse_unparsed(id, InvalidRequest, problem);
        match fault {
            Some(MessageFault::Deep) => return invalid("the message is nested too deeply"),
            Some(_) => return invalid("duplicate field"),
            None => {}
        }
        if message.text(MessageField::Jsonrpc).as_deref() != Some("2.0") {
            return invalid("`jsonrpc` must be \"2.0\"");
        }
        match (is_request, is_response) {
            (false, false) => return invalid("missing `method`"),
            (true, true) => return invalid("a request must not have a result or an error"),
            (false, true) => return self.read_response(&message, source),
            (true, false) => {}
        }
        if !message.is_string(MessageField::Method) {
            return invalid("`method` must be a string");
        }
        if !message.has(MessageField::Id) {
            return match source.handle_notification(self, &message) {
                Received::Ignore => self.read_custom_notification(&mut message, source),
                handled => handled,
            };
        }
        if id.is_none() {
            return invalid("`id` must be a string or an integer");
        }
        match self.read_request(&mut message, source) {
            Ok(received) => received,
            Err(refusal) => self.refuse(message.raw(MessageField::Id), &refusal),
        }
    }

    fn read_request(
        self: &Arc<Self>,
        message: &mut Message,
        source: &mut MessageSource<'_>,
    ) -> Result<Received, RequestRejection> {
        let row = self.request_kind(&message.text(MessageField::Method).unwrap_or_default());
        if !has_modern_fields(message) {
            source.check_version(self)?;
        }
        let era = self.era(message, row, source);
        match (era, self.eras, row) {
            (Era::Modern, SupportedEras::Legacy, _) => {
                return Err(self.not_modern(message, row, source));
            }
            (Era::Legacy, SupportedEras::Modern, Some((RequestKind::Initialize, _))) => {
                return Err(self.not_legacy(message));
            }
            _ => {}
        }
        if era == Era::Modern {
            return modern::begin(self, row, message, source.headers);
        }
        let revision = source.revision().unwrap_or(Revision::NEWEST_LEGACY);
        if !matches!(row, Some((RequestKind::Initialize, _))) {
            source.check_session(self)?;
        }
        message.check_objects().map_err(|error| RequestRejection::new(error, revision))?;
        let Some((kind, _)) = row.filter(|row| row.1.has(revision)) else {
            let name = message.text(MessageField::Method).unwrap_or_default();
            return Err(RequestRejection::new(unknown_method(&name), revision));
        };
        match &mut source.legacy {
            LegacyContext::Session(None)
                if !matches!(kind, RequestKind::Initialize | RequestKind::Ping) =>
            {
                Err(RequestRejection::new(not_initialized(self), revision))
            }
            legacy => legacy
                .request(self, kind, message)
                .map_err(|it| RequestRejection::new(it, revision)),
        }
    }

    pub(crate) fn era(
        &self,
        message: &Message,
        row: Option<(RequestKind, RevisionRange)>,
        source: &MessageSource<'_>,
    ) -> Era {
        let modern_only = row.is_some_and(|row| !row.1.has(Revision::NEWEST_LEGACY));
        let opens = matches!(row, Some((RequestKind::Initialize, _)));
        // A server without sessions has only the modern rules.
        let forced = self.eras == SupportedEras::Modern && !opens;
        let modern_by_context = match source.explicit_revision() {
            Some(revision) => revision.is_modern(),
            // Without header or session, the method may indicate the era.
            None => modern_only,
        };
        match has_modern_fields(message) || forced || modern_by_context {
            true => Era::Modern,
            false => Era::Legacy,
        }
    }

    fn read_response(&self, message: &Message, source: &MessageSource<'_>) -> Received {
        use ErrorKind::InvalidRequest;
        if message.has(MessageField::Result) && message.has(MessageField::Error) {
            return self.refuse_unparsed(
                None,
                InvalidRequest,
                "a response has either a result or an error",
            );
        }
        if let Err(refusal) = source.check_version(self) {
            return self.refuse(None, &refusal);
        }
        let revision = match source.response_revision() {
            Ok(Some(revision)) => revision,
            Ok(None) => return Received::Ignore,
            Err(problem) => return self.refuse_unparsed(None, InvalidRequest, problem),
        };
        let id = message.raw(MessageField::Id).and_then(|id| id.parse().ok());
        let Some(number) = id else { return Received::Ignore };
        Received::Answer(
            number,
            match message.members.span(MessageField::Result).of(&message.body) {
                Some(result) => Ok(result.to_owned()),
                None => Err(read_error(message.raw(MessageField::Error).unwrap_or("{}"), revision)),
            },
        )
    }

    pub(crate) fn refuse(&self, id: Option<&str>, refusal: &RequestRejection) -> Received {
        let mut out = Vec::new();
        write_error(&mut out, self.profile, id, &refusal.error, refusal.revision);
        let usual = error_codes::status(refusal.error.kind, refusal.revision);
        Received::Reply(out, refusal.status.unwrap_or(usual))
    }

    /// Refuses a message that is not a valid request in any revision.
    pub(crate) fn refuse_unparsed(
        &self,
        id: Option<&str>,
        kind: ErrorKind,
        problem: &str,
    ) -> Received {
        let error = Error::new(kind).with_message(format!("{}: {problem}", kind.message()));
        self.refuse(id, &RequestRejection::new(error, Revision::NEWEST))
    }

    pub(crate) fn refuse_oversized(&self, size: Option<usize>) -> Received {
        let mut data = json!({"limit": self.limits.message});
        if let Some(size) = size {
            data["size"] = size.into();
        }
        let error = Error::new(ErrorKind::ContentTooLarge).with_data(data);
        self.refuse(None, &RequestRejection::new(error, Revision::NEWEST))
    }

    fn not_modern(
        &self,
        message: &Message,
        row: Option<(RequestKind, RevisionRange)>,
        source: &MessageSource<'_>,
    ) -> RequestRejection {
        let requested = message.text(MessageField::MetaVersion).unwrap_or_default();
        if source.headers.is_some() {
            return self.unsupported_header(&requested);
        }
        // A client that probes with a modern method must receive the error of a legacy server.
        let modern_only = row.is_some_and(|row| !row.1.has(Revision::NEWEST_LEGACY));
        let error = if modern_only {
            unknown_method(&message.text(MessageField::Method).unwrap_or_default())
        } else {
            self.unsupported_version(&requested)
        };
        let revision = modern::modern_revision(&requested).unwrap_or(Revision::NEWEST);
        RequestRejection::new(error, revision)
    }

    fn not_legacy(&self, message: &Message) -> RequestRejection {
        let requested = message.text(MessageField::ProtocolVersion).unwrap_or_default();
        RequestRejection::new(self.unsupported_version(&requested), Revision::NEWEST)
    }

    /// Refuses the version in a header. Modern clients take a modern error code as a sign of a modern server.
    pub(crate) fn unsupported_header(&self, requested: &str) -> RequestRejection {
        let revision = match self.eras {
            SupportedEras::Legacy => Revision::NEWEST_LEGACY,
            _ => Revision::NEWEST,
        };
        RequestRejection::new(self.unsupported_version(requested), revision)
    }

    pub(crate) fn supports(&self, revision: Revision) -> bool {
        match self.eras {
            SupportedEras::Both => true,
            SupportedEras::Modern => revision.is_modern(),
            SupportedEras::Legacy => !revision.is_modern(),
        }
    }

    /// Returns the supported revisions, newest first.
    pub(crate) fn supported(&self) -> Vec<&'static str> {
        let all = Revision::ALL.into_iter().rev().filter(|revision| self.supports(*revision));
        all.map(Revision::as_str).collect()
    }

    /// Error for an unsupported version. The message lists the versions, because users may see nothing else.
    pub(crate) fn unsupported_version(&self, requested: &str) -> Error {
        let supported = self.supported();
        let message =
            format!("Unsupported protocol version; this server supports {}", supported.join(", "));
        Error::new(ErrorKind::UnsupportedProtocolVersion)
            .with_message(message)
            .with_data(json!({"supported": supported, "requested": excerpt(requested)}))
    }
}

/// Fields that only responses have.
const RESPONSE_FIELDS: FieldSet = FieldSet::of(&[MessageField::Result, MessageField::Error]);

/// Fields that only modern requests have.
const MODERN_FIELDS: FieldSet = FieldSet::of(&[
    MessageField::MetaVersion,
    MessageField::MetaCapabilities,
    MessageField::MetaClient,
    MessageField::MetaLevel,
]);

/// Returns whether the request has any field that only modern requests have.
fn has_modern_fields(message: &Message) -> bool {
    message.members.has_any(MODERN_FIELDS)
}
