//! Era of a request: determined by its fields, headers, session and method; refused if the server does not support it.

use crate::{
    Era, Revision, ServerProtocol, SupportedEras,
    json::field_spans::{FieldSet, MessageField},
    server::{
        message::{Message, RequestRejection, unknown_method},
        message_source::MessageSource,
        modern,
    },
    versions::revision::{RequestKind, RevisionRange},
};

impl ServerProtocol {
    /// Determines the era of a request.
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

    /// Refuses a modern request to a legacy server.
    pub(crate) fn not_modern(
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

    /// Refuses `initialize` on a modern server.
    pub(crate) fn not_legacy(&self, message: &Message) -> RequestRejection {
        let requested = message.text(MessageField::ProtocolVersion).unwrap_or_default();
        RequestRejection::new(self.unsupported_version(&requested), Revision::NEWEST)
    }
}

/// Fields that only modern requests have.
const MODERN_FIELDS: FieldSet = FieldSet::of(&[
    MessageField::MetaVersion,
    MessageField::MetaCapabilities,
    MessageField::MetaClient,
    MessageField::MetaLevel,
]);

/// Returns whether the request has any field that only modern requests have.
pub(crate) fn has_modern_fields(message: &Message) -> bool {
    message.members.has_any(MODERN_FIELDS)
}
