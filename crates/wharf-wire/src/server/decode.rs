//! Decodes a message: a request becomes a call, a response an answer. Writes the replies to messages that are refused.

use std::sync::Arc;

use bytes::Bytes;
use bytestring::ByteString;
use serde_json::json;
use wharf_model::{Error, ErrorKind};

use crate::{
    Era, Received, Revision, ServerProtocol, SupportedEras,
    json::field_spans::MessageField,
    server::{
        decode_error::read_error,
        encode_error::write_error,
        era::has_modern_fields,
        message::{Message, RequestRejection, unknown_method},
        message_source::MessageSource,
        modern,
    },
    versions::{error_codes, revision::RequestKind},
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

    pub(crate) fn read_request(
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
        let received = source.legacy.request(self, kind, message);
        received.map_err(|error| RequestRejection::new(error, revision))
    }

    pub(crate) fn read_response(&self, message: &Message, source: &MessageSource<'_>) -> Received {
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
        Received::Reply(out, refusal.status.unwrap_or(usual), Some(refusal.error.kind))
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
}
