//! Locates the fields of a JSON-RPC message in one validating pass.

use std::borrow::Cow;

use wharf_model::Span;

use crate::json::scanner::{JsonScanner, MalformedJson};

/// Defect of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MessageFault {
    /// The text is not valid JSON.
    Malformed,
    /// A field that this crate reads occurs twice, so two readers could see different values.
    Duplicate(MessageField),
    /// The nesting exceeds the depth limit.
    Deep,
}

/// Field of a message that this crate reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MessageField {
    Jsonrpc,
    Id,
    Method,
    Params,
    Result,
    Error,
    Name,
    Uri,
    Arguments,
    Cursor,
    Limit,
    Meta,
    InputResponses,
    RequestState,
    RequestId,
    Level,
    ProtocolVersion,
    Capabilities,
    ClientInfo,
    Notifications,
    Context,
    TaskId,
    Task,
    Token,
    MetaVersion,
    MetaClient,
    MetaCapabilities,
    MetaLevel,
}

const FIELD_COUNT: usize = MessageField::MetaLevel as usize + 1;

/// JSON object whose fields are read.
trait ObjectLevel {
    /// Nesting depth of the object.
    const DEPTH: u32;

    fn field(key: &[u8]) -> Option<MessageField>;
}

macro_rules! levels {
    ($($name:ident $depth:literal: $($key:literal $field:ident)*;)*) => {
        $(struct $name;

        impl ObjectLevel for $name {
            const DEPTH: u32 = $depth;

            #[inline(always)]
            fn field(key: &[u8]) -> Option<MessageField> {
                Some(match key {
                    $($key => MessageField::$field,)*
                    _ => return None,
                })
            }
        })*
    };
}

levels! {
    RootObject 1:
        b"jsonrpc" Jsonrpc
        b"id" Id
        b"method" Method
        b"params" Params
        b"result" Result
        b"error" Error;
    ParamsObject 2:
        b"name" Name
        b"arguments" Arguments
        b"_meta" Meta
        b"uri" Uri
        b"cursor" Cursor
        b"limit" Limit
        b"inputResponses" InputResponses
        b"requestState" RequestState
        b"requestId" RequestId
        b"level" Level
        b"protocolVersion" ProtocolVersion
        b"capabilities" Capabilities
        b"clientInfo" ClientInfo
        b"notifications" Notifications
        b"context" Context
        b"taskId" TaskId
        b"task" Task;
    MetaObject 3:
        b"progressToken" Token
        b"io.modelcontextprotocol/protocolVersion" MetaVersion
        b"io.modelcontextprotocol/clientInfo" MetaClient
        b"io.modelcontextprotocol/clientCapabilities" MetaCapabilities
        b"io.modelcontextprotocol/logLevel" MetaLevel;
}

/// Positions of the fields of a message.
#[derive(Clone, Debug, Default)]
pub(crate) struct FieldSpans {
    spans: [Span; FIELD_COUNT],
    present: FieldSet,
    nulls: FieldSet,
    strings: FieldSet,
    integers: FieldSet,
    escaped: FieldSet,
    pub(crate) fault: Option<MessageFault>,
}

/// Set of fields.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FieldSet(u32);

impl FieldSet {
    pub(crate) const fn of(fields: &[MessageField]) -> Self {
        let (mut bits, mut index) = (0, 0);
        while index < fields.len() {
            bits |= 1 << fields[index] as u32;
            index += 1;
        }
        FieldSet(bits)
    }

    fn put(&mut self, field: MessageField) {
        self.0 |= 1 << field as u32;
    }

    fn has(self, field: MessageField) -> bool {
        self.0 >> field as u32 & 1 == 1
    }
}

impl FieldSpans {
    /// Scans the single JSON value in `body`; anything but an object has no fields.
    pub(crate) fn find(&mut self, body: &str, depth: u32) {
        let mut scan = JsonScanner::new(body, depth);
        let found = match scan.token() {
            b'{' => self.read::<RootObject>(&mut scan),
            _ => scan.skip(0),
        };
        if found.and_then(|()| scan.end()).is_err() {
            self.fault = Some(MessageFault::Malformed);
        } else if scan.too_deep {
            self.fault.get_or_insert(MessageFault::Deep);
        }
    }

    fn read<L: ObjectLevel>(&mut self, scan: &mut JsonScanner<'_>) -> Result<(), MalformedJson> {
        let mut more = scan.enter(b'{')?;
        while more {
            let field = match scan.key()? {
                (key, false) => L::field(&key[1..key.len() - 1]),
                // Escapes in a key must not hide a duplicate.
                (key, true) => field_of_escaped_key::<L>(key),
            };
            match field {
                Some(field) => self.read_field(field, L::DEPTH, scan)?,
                None => scan.skip(L::DEPTH)?,
            }
            more = scan.more(b'}')?;
        }
        Ok(())
    }

    #[inline]
    fn read_field(
        &mut self,
        field: MessageField,
        depth: u32,
        scan: &mut JsonScanner<'_>,
    ) -> Result<(), MalformedJson> {
        let start = scan.at();
        match (scan.peek(), field) {
            (b'"', _) => {
                if scan.string()? {
                    self.escaped.put(field);
                }
                self.strings.put(field);
            }
            (b'{', MessageField::Params) => self.read::<ParamsObject>(scan)?,
            (b'{', MessageField::Meta) => self.read::<MetaObject>(scan)?,
            (b'0'..=b'9' | b'-', _) => {
                if scan.number()? {
                    self.integers.put(field);
                }
            }
            (b'n', _) => {
                scan.skip(depth)?;
                self.nulls.put(field);
            }
            _ => scan.skip(depth)?,
        }
        if self.has(field) {
            self.record_duplicate(field);
        }
        self.present.put(field);
        self.spans[field as usize] = scan.since(start);
        Ok(())
    }

    /// Records a duplicate. The first fault is kept, except that a duplicate id overrides it: then no id is
    /// left to reply to.
    #[cold]
    fn record_duplicate(&mut self, field: MessageField) {
        if self.fault.is_none() || field == MessageField::Id {
            self.fault = Some(MessageFault::Duplicate(field));
        }
    }

    /// Returns the position of the field, including `null`.
    pub(crate) fn span(&self, field: MessageField) -> Span {
        self.spans[field as usize]
    }

    /// Returns the position of the field; `null` counts as absent.
    pub(crate) fn value(&self, field: MessageField) -> Span {
        match self.nulls.has(field) {
            true => Span::default(),
            false => self.span(field),
        }
    }

    /// Returns whether the field is present, including `null`.
    pub(crate) fn has(&self, field: MessageField) -> bool {
        self.present.has(field)
    }

    /// Returns whether any of the fields is present, including `null`.
    pub(crate) fn has_any(&self, fields: FieldSet) -> bool {
        self.present.0 & fields.0 != 0
    }

    /// Returns whether the field is a string that can be decoded.
    pub(crate) fn is_string(&self, body: &str, field: MessageField) -> bool {
        self.strings.has(field) && (!self.escaped.has(field) || self.text(body, field).is_some())
    }

    /// Returns whether the field is an integer or a string that can be decoded, of at most `limit` bytes as JSON.
    pub(crate) fn is_id(&self, body: &str, field: MessageField, limit: usize) -> bool {
        self.span(field).range().len() <= limit
            && (self.integers.has(field) || self.is_string(body, field))
    }

    /// Returns whether the field is an object.
    pub(crate) fn is_object(&self, body: &str, field: MessageField) -> bool {
        let span = self.span(field);
        span.is_some() && body.as_bytes()[span.range().start] == b'{'
    }

    /// Returns the JSON text of the field; `null` counts as absent.
    pub(crate) fn raw<'a>(&self, body: &'a str, field: MessageField) -> Option<&'a str> {
        self.value(field).of(body)
    }

    /// Returns the decoded string of the field, if it is a string.
    pub(crate) fn text<'a>(&self, body: &'a str, field: MessageField) -> Option<Cow<'a, str>> {
        if !self.strings.has(field) {
            return None;
        }
        let quoted = self.span(field).range();
        match self.escaped.has(field) {
            false => body.get(quoted.start + 1..quoted.end - 1).map(Cow::Borrowed),
            true => serde_json::from_str(&body[quoted]).ok().map(Cow::Owned),
        }
    }
}

#[cold]
fn field_of_escaped_key<L: ObjectLevel>(key: &[u8]) -> Option<MessageField> {
    L::field(serde_json::from_slice::<String>(key).unwrap_or_default().as_bytes())
}

/// Decodes a JSON string.
pub(crate) fn unquote(json: &str) -> Option<Cow<'_, str>> {
    let inside = json.strip_prefix('"')?.strip_suffix('"')?;
    if inside.contains('\\') {
        serde_json::from_str(json).ok().map(Cow::Owned)
    } else {
        Some(Cow::Borrowed(inside))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(body: &str) -> FieldSpans {
        let mut members = FieldSpans::default();
        members.find(body, 128);
        members
    }

    fn fault(body: &str) -> Option<MessageFault> {
        members(body).fault
    }

    #[test]
    fn finds_members_and_their_spans() {
        let body = r#" { "id" : 7 , "params":{"name":"a\"b","_meta":{"progressToken":[1]},"x":{"name":1}}, "method":null } "#;
        let members = members(body);
        assert_eq!(members.raw(body, MessageField::Id), Some("7"));
        assert_eq!(members.text(body, MessageField::Name).unwrap(), "a\"b");
        assert_eq!(members.raw(body, MessageField::Token), Some("[1]"));
        assert!(
            members.has(MessageField::Method) && members.raw(body, MessageField::Method).is_none()
        );
        assert_eq!(members.fault, None);
    }

    #[test]
    fn duplicates_are_found_however_they_are_spelt() {
        assert_eq!(fault(r#"{"id":1,"id":1}"#), Some(MessageFault::Duplicate(MessageField::Id)));
        assert_eq!(
            fault(r#"{"method":"a","m\u0065thod":"b"}"#),
            Some(MessageFault::Duplicate(MessageField::Method))
        );
        assert_eq!(
            fault(r#"{"params":{"name":"a","name":"b"}}"#),
            Some(MessageFault::Duplicate(MessageField::Name))
        );
        assert_eq!(
            fault(r#"{"params":{"_meta":{},"_meta":{}}}"#),
            Some(MessageFault::Duplicate(MessageField::Meta))
        );
        assert_eq!(fault(r#"{"params":{"arguments":{"a":1,"a":2}}}"#), None);
    }

    #[test]
    fn ids_are_integers_and_strings() {
        let is_id = |id: &str| {
            let body = format!("{{\"id\":{id}}}");
            members(&body).is_id(&body, MessageField::Id, 8)
        };
        for id in ["0", "-7", "12345678", r#""""#, r#""a\"b""#, r#""\u0041""#] {
            assert!(is_id(id), "{id}");
        }
        for id in ["1.0", "1e3", "123456789", r#""1234567""#, "null", "true", "{}", "[1]"] {
            assert!(!is_id(id), "{id}");
        }
        assert!(!members("{}").is_id("{}", MessageField::Id, 8));
    }

    #[test]
    fn depth_is_counted_from_the_outside() {
        let nested = |levels: usize| {
            format!("{{\"params\":{}{},\"id\":5}}", "[".repeat(levels), "]".repeat(levels))
        };
        assert_eq!(fault(&nested(127)), None);
        assert_eq!(fault(&nested(128)), Some(MessageFault::Deep));
        assert_eq!(fault(&nested(100_000)), Some(MessageFault::Deep));
        assert_eq!(fault(&"[".repeat(100_000)), Some(MessageFault::Malformed));
        let body = nested(200);
        assert_eq!(members(&body).raw(&body, MessageField::Id), Some("5"));
    }
}
