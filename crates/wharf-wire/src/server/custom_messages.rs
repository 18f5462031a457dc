//! Methods and notifications that the protocol does not define.

use std::sync::Arc;

use wharf_model::{CustomNotification, LazyJson, Meta, Method, Notification};

use crate::{
    Received, Revision, ServerProtocol,
    json::{
        field_spans::MessageField, field_spans::unquote, scanner, writer, writer::ObjectWriter,
    },
    server::{
        codec::{Codec, SUBSCRIPTION_ID},
        encode::PROTOCOL_FIELDS,
        encode_task,
        legacy_session::LegacyContext,
        message::{Message, RequestRejection},
        message_source::MessageSource,
        modern,
    },
    versions::revision::{ALWAYS, Feature, RequestKind},
};

impl ServerProtocol {
    /// Reads a notification that an extension of the server declares, after the checks of the protocol's own
    /// notifications. Any other one is ignored, and so is one that is malformed, unless HTTP can report it.
    pub(crate) fn read_custom_notification(
        self: &Arc<Self>,
        message: &mut Message,
        source: &mut MessageSource<'_>,
    ) -> Received {
        let name = message.text(MessageField::Method).unwrap_or_default();
        if !self.has_custom_notification(&name) {
            return Received::Ignore;
        }
        let kind = RequestKind::Call(Method::Custom);
        let row = Some((kind, ALWAYS));
        let revision = source.revision().unwrap_or(Revision::NEWEST_LEGACY);
        let modern = message.has(MessageField::MetaVersion) || revision.is_modern();
        let received = match &mut source.legacy {
            _ if modern && !self.supports(Revision::NEWEST) => return Received::Ignore,
            _ if modern => modern::begin(self, row, message, source.headers),
            LegacyContext::Session(None) => return Received::Ignore,
            legacy => {
                let checked = message.check_objects();
                let received = checked.and_then(|()| legacy.request(self, kind, message));
                received.map_err(|error| RequestRejection::new(error, revision))
            }
        };
        match received {
            Ok(Received::Call(mut request, _)) => {
                request.notification = true;
                Received::Notify(request)
            }
            Err(refusal) if source.headers.is_some() => self.refuse(None, &refusal),
            _ => Received::Ignore,
        }
    }
}

/// Copies the sender's own `_meta`, except the members that the protocol layer sets.
pub(crate) fn copy_meta(own: &str, meta: &mut ObjectWriter<'_>) {
    // Not an object: then there is nothing to copy.
    let _ = scanner::each_member(own, |key, value| {
        let name = unquote(key).unwrap_or_default();
        if name != SUBSCRIPTION_ID && name != encode_task::RELATED_TASK {
            writer::raw(meta.any_key(&name), value);
        }
    });
}

impl Codec {
    /// Writes the parameters of a custom notification.
    pub(crate) fn write_custom_params(
        &self,
        notification: &Notification,
        it: &CustomNotification,
        params: &mut ObjectWriter<'_>,
    ) {
        let mut own = None;
        // The parameters are an object: that was checked when the notification was made.
        let _ = scanner::each_member(it.params.get(), |key, value| {
            match &*unquote(key).unwrap_or_default() {
                "_meta" => own = Some(value),
                key => writer::raw(params.any_key(key), value),
            }
        });
        self.write_related_meta(notification, own, params);
    }

    /// Writes the result of a custom method, with the members that the revision requires. The cache hint of a
    /// handler is sent where results have one. Returns false, and writes nothing, if `json` is not an object.
    pub(crate) fn complete_custom(&self, json: &str, out: &mut Vec<u8>) -> bool {
        // A result that depends on input responses must not be cached under the parameters alone.
        let ours: &[&str] = match self.revision.has(Feature::CacheHints) && !self.retried {
            true => &["resultType"],
            false => &PROTOCOL_FIELDS,
        };
        let start = out.len();
        let mut message = ObjectWriter::open(out);
        message.plain("jsonrpc", "\"2.0\"");
        message.plain("id", self.id_json());
        let mut result = message.object("result");
        if self.revision.has(Feature::ResultTypes) {
            result.plain("resultType", "\"complete\"");
        }
        let mut meta: Option<LazyJson<Meta>> = None;
        let walked =
            scanner::each_member(json, |key, value| match &*unquote(key).unwrap_or_default() {
                "_meta" => meta = serde_json::from_str(value).ok(),
                key if ours.contains(&key) => {}
                key => writer::raw(result.any_key(key), value),
            });
        self.write_meta(&mut result, meta.as_ref());
        result.close();
        message.close();
        if walked.is_err() {
            out.truncate(start);
        }
        walked.is_ok()
    }
}
