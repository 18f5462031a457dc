//! Encodes the results of methods that the protocol does not define.

use wharf_model::{LazyJson, Meta};

use crate::{
    json::{field_spans::unquote, scanner, writer, writer::ObjectWriter},
    server::{codec::Codec, encode::PROTOCOL_FIELDS},
};

impl Codec {
    /// Writes the result of a custom method, with the members that the revision requires. The cache hint of a
    /// handler is sent where results have one. Returns false, and writes nothing, if `json` is not an object.
    pub(crate) fn complete_custom(&self, json: &str, out: &mut Vec<u8>) -> bool {
        let modern = self.revision.is_modern();
        // A result that depends on input responses must not be cached under the parameters alone.
        let ours: &[&str] = match modern && !self.retried {
            true => &["resultType"],
            false => &PROTOCOL_FIELDS,
        };
        let start = out.len();
        let mut message = ObjectWriter::open(out);
        message.plain("jsonrpc", "\"2.0\"");
        message.plain("id", self.id_json());
        let mut result = message.object("result");
        if modern {
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
