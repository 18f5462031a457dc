//! Messages of OTLP: one description, written as JSON or as Protocol Buffers.

use serde_json::{Map, Value};

/// Message: its fields with numbers and JSON names.
pub(crate) type Message = Vec<Field>;

pub(crate) struct Field {
    number: u32,
    name: &'static str,
    value: MessageValue,
}

pub(crate) enum MessageValue {
    Text(String),
    /// Id of a trace or span, which JSON has in hexadecimal form.
    Id(Vec<u8>),
    Integer(i64),
    /// Enumeration or flags.
    Number(u32),
    /// Flags of a span, which have a fixed length.
    Flags(u32),
    Boolean(bool),
    Double(f64),
    Fixed(u64),
    FixedList(Vec<u64>),
    DoubleList(Vec<f64>),
    Message(Message),
    Messages(Vec<Message>),
}

pub(crate) fn field(number: u32, name: &'static str, value: MessageValue) -> Field {
    Field { number, name, value }
}

pub(crate) fn text(number: u32, name: &'static str, value: impl Into<String>) -> Field {
    field(number, name, MessageValue::Text(value.into()))
}

/// Field of a time: nanoseconds since 1970.
pub(crate) fn fixed(number: u32, name: &'static str, value: u64) -> Field {
    field(number, name, MessageValue::Fixed(value))
}

pub(crate) fn message(number: u32, name: &'static str, value: Message) -> Field {
    field(number, name, MessageValue::Message(value))
}

pub(crate) fn messages(number: u32, name: &'static str, value: Vec<Message>) -> Field {
    field(number, name, MessageValue::Messages(value))
}

/// Writes the JSON form: ids in hexadecimal form, 64-bit integers as strings, enumerations as numbers.
pub(crate) fn json(message: &Message) -> Value {
    let fields = message.iter().map(|it| (it.name.to_owned(), json_value(&it.value)));
    Value::Object(fields.collect::<Map<_, _>>())
}

fn json_value(value: &MessageValue) -> Value {
    match value {
        MessageValue::Text(text) => Value::from(text.as_str()),
        MessageValue::Id(bytes) => {
            bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into()
        }
        MessageValue::Integer(number) => number.to_string().into(),
        MessageValue::Number(number) | MessageValue::Flags(number) => (*number).into(),
        MessageValue::Boolean(value) => (*value).into(),
        MessageValue::Double(number) => (*number).into(),
        MessageValue::Fixed(number) => number.to_string().into(),
        MessageValue::FixedList(list) => list.iter().map(u64::to_string).collect::<Vec<_>>().into(),
        MessageValue::DoubleList(list) => list.clone().into(),
        MessageValue::Message(inner) => json(inner),
        MessageValue::Messages(list) => list.iter().map(json).collect::<Vec<_>>().into(),
    }
}

/// Wire types of Protocol Buffers.
const VARINT: u32 = 0;
const FIXED64: u32 = 1;
const LENGTH: u32 = 2;
const FIXED32: u32 = 5;

/// Writes the form of Protocol Buffers.
pub(crate) fn protobuf(message: &Message) -> Vec<u8> {
    let mut out = Vec::new();
    for Field { number, value, .. } in message {
        let number = *number;
        match value {
            MessageValue::Text(text) => bytes(number, text.as_bytes(), &mut out),
            MessageValue::Id(id) => bytes(number, id, &mut out),
            MessageValue::Integer(value) => integer(number, value.cast_unsigned(), &mut out),
            MessageValue::Number(value) => integer(number, u64::from(*value), &mut out),
            MessageValue::Boolean(value) => integer(number, u64::from(*value), &mut out),
            MessageValue::Flags(value) => {
                varint(u64::from(number << 3 | FIXED32), &mut out);
                out.extend(value.to_le_bytes());
            }
            MessageValue::Double(value) => eight(number, value.to_le_bytes(), &mut out),
            MessageValue::Fixed(value) => eight(number, value.to_le_bytes(), &mut out),
            MessageValue::FixedList(list) => {
                bytes(
                    number,
                    &list.iter().flat_map(|it| it.to_le_bytes()).collect::<Vec<_>>(),
                    &mut out,
                );
            }
            MessageValue::DoubleList(list) => {
                bytes(
                    number,
                    &list.iter().flat_map(|it| it.to_le_bytes()).collect::<Vec<_>>(),
                    &mut out,
                );
            }
            MessageValue::Message(inner) => bytes(number, &protobuf(inner), &mut out),
            MessageValue::Messages(list) => {
                list.iter().for_each(|inner| bytes(number, &protobuf(inner), &mut out));
            }
        }
    }
    out
}

fn integer(number: u32, value: u64, out: &mut Vec<u8>) {
    varint(u64::from(number << 3 | VARINT), out);
    varint(value, out);
}

fn eight(number: u32, value: [u8; 8], out: &mut Vec<u8>) {
    varint(u64::from(number << 3 | FIXED64), out);
    out.extend(value);
}

fn bytes(number: u32, value: &[u8], out: &mut Vec<u8>) {
    varint(u64::from(number << 3 | LENGTH), out);
    varint(value.len() as u64, out);
    out.extend(value);
}

fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_a_message() {
        let inner = vec![text(1, "key", "k"), field(3, "intValue", MessageValue::Integer(300))];
        let outer = vec![
            field(1, "traceId", MessageValue::Id(vec![0xab, 1])),
            fixed(7, "startTimeUnixNano", 2),
            message(9, "attributes", inner),
        ];
        let expected = r#"{"attributes":{"intValue":"300","key":"k"},"startTimeUnixNano":"2","traceId":"ab01"}"#;
        let value: Value = serde_json::from_str(expected).unwrap();
        assert_eq!(json(&outer), value);
        let expected =
            [0x0a, 2, 0xab, 1, 0x39, 2, 0, 0, 0, 0, 0, 0, 0, 0x4a, 6, 0x0a, 1, b'k', 0x18, 0xac, 2];
        assert_eq!(protobuf(&outer), expected);
    }
}
