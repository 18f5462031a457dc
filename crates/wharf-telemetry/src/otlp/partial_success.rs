//! Responses of receivers that accept a request only in part.

use serde_json::Value;
use wharf_model::printable;

use crate::otlp::settings::OtlpProtocol;

/// What a receiver rejected of a request that it answered with success.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct PartialSuccess {
    /// Number of rejected spans or data points.
    pub(crate) rejected: u64,
    /// Reason for operators; a receiver may also send one without a rejection, as a warning.
    pub(crate) message: String,
}

impl PartialSuccess {
    /// Reads the body of a response; one that is not understood rejects nothing.
    pub(crate) fn parse(protocol: OtlpProtocol, body: &[u8]) -> PartialSuccess {
        let parsed = match protocol {
            OtlpProtocol::Json => of_json(body),
            OtlpProtocol::Protobuf => of_protobuf(body),
        };
        parsed.unwrap_or_default()
    }
}

fn of_json(body: &[u8]) -> Option<PartialSuccess> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let partial = body.get("partialSuccess")?;
    let number = |name: &str| match partial.get(name)? {
        // The JSON form of 64-bit integers is a string.
        Value::String(text) => text.parse().ok(),
        number => number.as_u64(),
    };
    let rejected = number("rejectedSpans").or_else(|| number("rejectedDataPoints"));
    let message = partial.get("errorMessage").and_then(Value::as_str).unwrap_or_default();
    Some(PartialSuccess { rejected: rejected.unwrap_or(0), message: printable(message) })
}

/// Reads field 1, a message whose field 1 is the number and whose field 2 is the reason.
fn of_protobuf(body: &[u8]) -> Option<PartialSuccess> {
    let mut partial = PartialSuccess::default();
    for_each_field(body, |number, field| {
        let (1, WireValue::Bytes(inner)) = (number, field) else { return Some(()) };
        for_each_field(inner, |number, field| {
            match (number, field) {
                (1, WireValue::Integer(rejected)) => partial.rejected = rejected,
                (2, WireValue::Bytes(text)) => {
                    partial.message = printable(&String::from_utf8_lossy(text));
                }
                _ => {}
            }
            Some(())
        })
    })?;
    Some(partial)
}

enum WireValue<'a> {
    Integer(u64),
    Bytes(&'a [u8]),
}

/// Calls `take` for each field; `None` if the message is cut off or has another wire type.
fn for_each_field<'a>(
    mut message: &'a [u8],
    mut take: impl FnMut(u64, WireValue<'a>) -> Option<()>,
) -> Option<()> {
    while !message.is_empty() {
        let key = varint(&mut message)?;
        let value = match key & 7 {
            0 => WireValue::Integer(varint(&mut message)?),
            2 => {
                let length = usize::try_from(varint(&mut message)?).ok()?;
                let (value, rest) = message.split_at_checked(length)?;
                message = rest;
                WireValue::Bytes(value)
            }
            _ => return None,
        };
        take(key >> 3, value)?;
    }
    Some(())
}

fn varint(message: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = message.split_first()?;
        *message = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_a_partial_success_are_read() {
        let rejected = PartialSuccess { rejected: 300, message: "too old".into() };
        let json = br#"{"partialSuccess":{"rejectedSpans":"300","errorMessage":"too old"}}"#;
        let protobuf = b"\x0a\x0c\x08\xac\x02\x12\x07too old";
        assert_eq!(PartialSuccess::parse(OtlpProtocol::Json, json), rejected);
        assert_eq!(PartialSuccess::parse(OtlpProtocol::Protobuf, protobuf), rejected);
        let points = br#"{"partialSuccess":{"rejectedDataPoints":7}}"#;
        assert_eq!(PartialSuccess::parse(OtlpProtocol::Json, points).rejected, 7);
    }

    #[test]
    fn other_bodies_reject_nothing() {
        for body in [&b""[..], b"{}", b"<html>", b"\x0a\xff", b"\x0a\x05\x08", b"\x0d1234"] {
            for protocol in [OtlpProtocol::Json, OtlpProtocol::Protobuf] {
                assert_eq!(PartialSuccess::parse(protocol, body), PartialSuccess::default());
            }
        }
    }
}
