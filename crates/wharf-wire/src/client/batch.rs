//! JSON-RPC batches of a server, which only revision 2025-03-26 has.

use bytestring::ByteString;
use wharf_model::{Error, ErrorKind};

use crate::client::{ClientCodec, ServerMessage};
use crate::{
    client::decode::unreadable,
    json::scanner::{self, MAX_DEPTH},
    versions::revision::Feature,
};

/// Maximum number of messages in a batch.
const MAX_BATCH_MESSAGES: usize = 10_000;

impl ClientCodec {
    pub(super) fn decode_batch(&self, body: &ByteString) -> Result<Vec<ServerMessage>, Error> {
        use ErrorKind::{ContentTooLarge, InvalidRequest, ParseError};
        if !self.revision.has(Feature::Batches) {
            let problem =
                format!("batches exist in revision {} only", Feature::Batches.revisions());
            return Err(unreadable(InvalidRequest, &problem));
        }
        let Ok(spans) = scanner::elements(body, MAX_DEPTH, MAX_BATCH_MESSAGES) else {
            return Err(unreadable(ParseError, "malformed JSON"));
        };
        if spans.len() > MAX_BATCH_MESSAGES {
            return Err(unreadable(ContentTooLarge, "the batch is too long"));
        }
        let each = spans.iter().filter_map(|span| span.of(body));
        // An invalid message must not discard the others.
        let decode =
            |one: &str| self.decode_one(body.slice_ref(one)).unwrap_or(ServerMessage::Ignored);
        Ok(each.map(decode).collect())
    }
}
