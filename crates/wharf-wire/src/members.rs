//! One validating pass over a message, which notes where the members we read lie.

use std::borrow::Cow;

use wharf_model::Span;

use crate::scan::{Malformed, Scan};

/// What is wrong with a message that is JSON nonetheless.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A member that we read is there twice, so that two readers might read two things.
    Duplicate(Slot),
    /// It is nested too deep.
    Deep,
}

/// A member that we read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
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
    Token,
    MetaVersion,
    MetaClient,
    MetaCapabilities,
    MetaLevel,
}

const SLOTS: usize = Slot::MetaLevel as usize + 1;

/// The objects whose members we read, by how deep they lie.
#[derive(Clone, Copy, Debug)]
enum Level {
    Message = 1,
    Params = 2,
    Meta = 3,
}

impl Level {
    fn slot(self, key: &[u8]) -> Option<Slot> {
        Some(match self {
            Level::Message => match key {
                b"jsonrpc" => Slot::Jsonrpc,
                b"id" => Slot::Id,
                b"method" => Slot::Method,
                b"params" => Slot::Params,
                b"result" => Slot::Result,
                b"error" => Slot::Error,
                _ => return None,
            },
            Level::Params => match key {
                b"name" => Slot::Name,
                b"arguments" => Slot::Arguments,
                b"_meta" => Slot::Meta,
                b"uri" => Slot::Uri,
                b"cursor" => Slot::Cursor,
                b"limit" => Slot::Limit,
                b"inputResponses" => Slot::InputResponses,
                b"requestState" => Slot::RequestState,
                b"requestId" => Slot::RequestId,
                b"level" => Slot::Level,
                b"protocolVersion" => Slot::ProtocolVersion,
                b"capabilities" => Slot::Capabilities,
                b"clientInfo" => Slot::ClientInfo,
                b"notifications" => Slot::Notifications,
                b"context" => Slot::Context,
                _ => return None,
            },
            Level::Meta => match key {
                b"progressToken" => Slot::Token,
                b"io.modelcontextprotocol/protocolVersion" => Slot::MetaVersion,
                b"io.modelcontextprotocol/clientInfo" => Slot::MetaClient,
                b"io.modelcontextprotocol/clientCapabilities" => Slot::MetaCapabilities,
                b"io.modelcontextprotocol/logLevel" => Slot::MetaLevel,
                _ => return None,
            },
        })
    }
}

/// Where the members of a message lie.
#[derive(Clone, Debug, Default)]
pub(crate) struct Members {
    spans: [Span; SLOTS],
    /// One bit a slot: whether its value is a string with escapes.
    escaped: u32,
    pub(crate) fault: Option<Fault>,
}

impl Members {
    /// Reads the one JSON value in `body`; anything but an object has no members.
    pub(crate) fn of(body: &str, depth: u32) -> Result<Members, Malformed> {
        let mut scan = Scan::new(body, depth);
        let mut members = Members::default();
        match scan.token() {
            b'{' => members.read(Level::Message, &mut scan)?,
            _ => scan.skip(0)?,
        }
        scan.end()?;
        members.fault = members.fault.or(scan.deep.then_some(Fault::Deep));
        Ok(members)
    }

    fn read(&mut self, level: Level, scan: &mut Scan<'_>) -> Result<(), Malformed> {
        let mut more = scan.enter(b'{')?;
        while more {
            let slot = match scan.key()? {
                (key, false) => level.slot(&key[1..key.len() - 1]),
                // A key spelt with escapes must not hide a duplicate.
                (key, true) => {
                    let key = serde_json::from_slice::<String>(key).unwrap_or_default();
                    level.slot(key.as_bytes())
                }
            };
            let start = scan.at();
            match (slot, scan.peek()) {
                (Some(Slot::Params), b'{') => self.read(Level::Params, scan)?,
                (Some(Slot::Meta), b'{') => self.read(Level::Meta, scan)?,
                (Some(slot), b'"') => self.escaped |= u32::from(scan.string()?) << slot as u32,
                _ => scan.skip(level as u32)?,
            }
            if let Some(slot) = slot {
                match self.fault {
                    _ if !self.has(slot) => {}
                    // The first fault counts, but for one that leaves no id to answer under.
                    Some(_) if slot != Slot::Id => {}
                    _ => self.fault = Some(Fault::Duplicate(slot)),
                }
                self.spans[slot as usize] = scan.since(start);
            }
            more = scan.more(b'}')?;
        }
        Ok(())
    }

    /// Where the member lies, be it `null` or not.
    pub(crate) fn span(&self, slot: Slot) -> Span {
        self.spans[slot as usize]
    }

    /// Whether the member is there, be it `null` or not.
    pub(crate) fn has(&self, slot: Slot) -> bool {
        self.span(slot).is_some()
    }

    /// The member's JSON text; `null` counts as absent.
    pub(crate) fn raw<'a>(&self, body: &'a str, slot: Slot) -> Option<&'a str> {
        self.span(slot).of(body).filter(|json| *json != "null")
    }

    /// The member's text, if it is a string.
    pub(crate) fn text<'a>(&self, body: &'a str, slot: Slot) -> Option<Cow<'a, str>> {
        let json = self.span(slot).of(body)?;
        let inside = json.strip_prefix('"')?.strip_suffix('"')?;
        match self.escaped >> slot as u32 & 1 {
            0 => Some(Cow::Borrowed(inside)),
            _ => serde_json::from_str(json).ok().map(Cow::Owned),
        }
    }
}

/// The text of a JSON string.
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

    fn fault(body: &str) -> Option<Fault> {
        Members::of(body, 128).unwrap().fault
    }

    #[test]
    fn finds_members_and_their_spans() {
        let body = r#" { "id" : 7 , "params":{"name":"a\"b","_meta":{"progressToken":[1]},"x":{"name":1}}, "method":null } "#;
        let members = Members::of(body, 128).unwrap();
        assert_eq!(members.raw(body, Slot::Id), Some("7"));
        assert_eq!(members.text(body, Slot::Name).unwrap(), "a\"b");
        assert_eq!(members.raw(body, Slot::Token), Some("[1]"));
        assert!(members.has(Slot::Method) && members.raw(body, Slot::Method).is_none());
        assert_eq!(members.fault, None);
    }

    #[test]
    fn duplicates_are_found_however_they_are_spelt() {
        assert_eq!(fault(r#"{"id":1,"id":1}"#), Some(Fault::Duplicate(Slot::Id)));
        assert_eq!(
            fault(r#"{"method":"a","m\u0065thod":"b"}"#),
            Some(Fault::Duplicate(Slot::Method))
        );
        assert_eq!(
            fault(r#"{"params":{"name":"a","name":"b"}}"#),
            Some(Fault::Duplicate(Slot::Name))
        );
        assert_eq!(
            fault(r#"{"params":{"_meta":{},"_meta":{}}}"#),
            Some(Fault::Duplicate(Slot::Meta))
        );
        assert_eq!(fault(r#"{"params":{"arguments":{"a":1,"a":2}}}"#), None);
    }

    #[test]
    fn depth_is_counted_from_the_outside() {
        let nested = |levels: usize| {
            format!("{{\"params\":{}{},\"id\":5}}", "[".repeat(levels), "]".repeat(levels))
        };
        assert_eq!(fault(&nested(127)), None);
        assert_eq!(fault(&nested(128)), Some(Fault::Deep));
        assert_eq!(fault(&nested(100_000)), Some(Fault::Deep));
        assert!(Members::of(&"[".repeat(100_000), 128).is_err());
        let body = nested(200);
        assert_eq!(Members::of(&body, 128).unwrap().raw(&body, Slot::Id), Some("5"));
    }
}
