//! Event of a stream as the store keeps it.

use serde_json::value::RawValue;
use wharf_model::{Error, ErrorKind};
use wharf_wire::Connection;

/// One stored event. Its writer numbers it, so that a reader recognizes an event that was stored twice. Events
/// of a call stream are numbered in order, as clients see them. Events of the session's stream carry a ticket
/// here, and clients see the number that the store gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EventRecord<'a> {
    pub(crate) kind: EventKind,
    /// Node number of the process that wrote the event.
    pub(crate) node: u32,
    pub(crate) number: u64,
    /// Id of the call whose reply ends the stream, as JSON; for a batch an array of ids.
    pub(crate) reply_ids: &'a str,
    /// Empty if there is none.
    pub(crate) message: &'a [u8],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventKind {
    /// Start of the stream, without a message.
    Open,
    Message,
    /// End of the stream. Later events come from a process that the others took for dead, and are ignored.
    End,
}

/// Byte that encodes each kind.
const KINDS: [(u8, EventKind); 3] =
    [(b'o', EventKind::Open), (b's', EventKind::Message), (b'e', EventKind::End)];

impl<'a> EventRecord<'a> {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let letter = KINDS.iter().find(|(_, kind)| *kind == self.kind).map_or(b's', |it| it.0);
        let mut bytes = Vec::with_capacity(17 + self.reply_ids.len() + self.message.len());
        bytes.push(letter);
        bytes.extend_from_slice(&self.node.to_be_bytes());
        bytes.extend_from_slice(&self.number.to_be_bytes());
        bytes.extend_from_slice(&(self.reply_ids.len() as u32).to_be_bytes());
        bytes.extend_from_slice(self.reply_ids.as_bytes());
        bytes.extend_from_slice(self.message);
        bytes
    }

    /// Decodes an event. None if the bytes have another format.
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (letter, rest) = bytes.split_first()?;
        let (node, rest) = rest.split_first_chunk()?;
        let (number, rest) = rest.split_first_chunk()?;
        let (length, rest) = rest.split_first_chunk()?;
        let (reply_ids, message) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
        Some(EventRecord {
            kind: KINDS.iter().find(|it| it.0 == *letter)?.1,
            node: u32::from_be_bytes(*node),
            number: u64::from_be_bytes(*number),
            reply_ids: std::str::from_utf8(reply_ids).ok()?,
            message,
        })
    }
}

/// Returns error replies for the calls of a process that died.
pub(crate) fn lost_call_replies(connection: &Connection, reply_ids: &str) -> Vec<u8> {
    let error = Error::new(ErrorKind::InternalError).with_message(
        "The process that ran this call has died: it is not known if the call completed",
    );
    let mut replies = Vec::new();
    if !reply_ids.starts_with('[') {
        connection.fail(reply_ids, &error, &mut replies);
        return replies;
    }
    let ids: Vec<&RawValue> = serde_json::from_str(reply_ids).unwrap_or_default();
    for id in ids {
        replies.push(if replies.is_empty() { b'[' } else { b',' });
        connection.fail(id.get(), &error, &mut replies);
    }
    replies.push(b']');
    replies
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_records_are_decoded_unchanged() {
        for (_, kind) in KINDS {
            for message in [&b""[..], b"{}", &[0; 300]] {
                let record = EventRecord {
                    kind,
                    node: 7,
                    number: u64::MAX,
                    reply_ids: r#"[1,"a"]"#,
                    message,
                };
                let bytes = record.to_bytes();
                assert_eq!(EventRecord::parse(&bytes), Some(record));
                for end in 0..bytes.len() - message.len() {
                    assert_eq!(EventRecord::parse(&bytes[..end]), None);
                }
            }
        }
        assert_eq!(EventRecord::parse(b"x0000000000000000"), None);
    }
}
