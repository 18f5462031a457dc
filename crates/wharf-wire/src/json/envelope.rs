//! One validating pass over a message, which notes where the members we read lie.

use std::borrow::Cow;

use wharf_model::Span;

use crate::json::scanner::{Malformed, Scan};

/// What is wrong with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It is no JSON at all.
    Malformed,
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
    TaskId,
    Task,
    Token,
    MetaVersion,
    MetaClient,
    MetaCapabilities,
    MetaLevel,
}

const SLOTS: usize = Slot::MetaLevel as usize + 1;

/// An object whose members we read.
trait Level {
    /// How deep it lies.
    const DEPTH: u32;

    fn slot(key: &[u8]) -> Option<Slot>;
}

macro_rules! levels {
    ($($name:ident $depth:literal: $($key:literal $slot:ident)*;)*) => {
        $(struct $name;

        impl Level for $name {
            const DEPTH: u32 = $depth;

            #[inline(always)]
            fn slot(key: &[u8]) -> Option<Slot> {
                Some(match key {
                    $($key => Slot::$slot,)*
                    _ => return None,
                })
            }
        })*
    };
}

levels! {
    Whole 1:
        b"jsonrpc" Jsonrpc
        b"id" Id
        b"method" Method
        b"params" Params
        b"result" Result
        b"error" Error;
    Params 2:
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
    Meta 3:
        b"progressToken" Token
        b"io.modelcontextprotocol/protocolVersion" MetaVersion
        b"io.modelcontextprotocol/clientInfo" MetaClient
        b"io.modelcontextprotocol/clientCapabilities" MetaCapabilities
        b"io.modelcontextprotocol/logLevel" MetaLevel;
}

/// Where the members of a message lie.
#[derive(Clone, Debug, Default)]
pub(crate) struct Members {
    spans: [Span; SLOTS],
    there: Slots,
    nulls: Slots,
    strings: Slots,
    escaped: Slots,
    pub(crate) fault: Option<Fault>,
}

/// A set of slots.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Slots(u32);

impl Slots {
    pub(crate) const fn of(slots: &[Slot]) -> Self {
        let (mut bits, mut index) = (0, 0);
        while index < slots.len() {
            bits |= 1 << slots[index] as u32;
            index += 1;
        }
        Slots(bits)
    }

    fn put(&mut self, slot: Slot) {
        self.0 |= 1 << slot as u32;
    }

    fn has(self, slot: Slot) -> bool {
        self.0 >> slot as u32 & 1 == 1
    }
}

impl Members {
    /// Reads the one JSON value in `body`; anything but an object has no members.
    pub(crate) fn find(&mut self, body: &str, depth: u32) {
        let mut scan = Scan::new(body, depth);
        let found = match scan.token() {
            b'{' => self.read::<Whole>(&mut scan),
            _ => scan.skip(0),
        };
        if found.and_then(|()| scan.end()).is_err() {
            self.fault = Some(Fault::Malformed);
        } else if scan.deep {
            self.fault.get_or_insert(Fault::Deep);
        }
    }

    fn read<L: Level>(&mut self, scan: &mut Scan<'_>) -> Result<(), Malformed> {
        let mut more = scan.enter(b'{')?;
        while more {
            let slot = match scan.key()? {
                (key, false) => L::slot(&key[1..key.len() - 1]),
                // A key spelt with escapes must not hide a duplicate.
                (key, true) => spelt_out::<L>(key),
            };
            match slot {
                Some(slot) => self.read_slot(slot, L::DEPTH, scan)?,
                None => scan.skip(L::DEPTH)?,
            }
            more = scan.more(b'}')?;
        }
        Ok(())
    }

    #[inline]
    fn read_slot(&mut self, slot: Slot, depth: u32, scan: &mut Scan<'_>) -> Result<(), Malformed> {
        let start = scan.at();
        match (scan.peek(), slot) {
            (b'"', _) => {
                if scan.string()? {
                    self.escaped.put(slot);
                }
                self.strings.put(slot);
            }
            (b'{', Slot::Params) => self.read::<Params>(scan)?,
            (b'{', Slot::Meta) => self.read::<Meta>(scan)?,
            (b'n', _) => {
                scan.skip(depth)?;
                self.nulls.put(slot);
            }
            _ => scan.skip(depth)?,
        }
        if self.has(slot) {
            self.repeated(slot);
        }
        self.there.put(slot);
        self.spans[slot as usize] = scan.since(start);
        Ok(())
    }

    /// The first fault counts, but for one that leaves no id to answer under.
    #[cold]
    fn repeated(&mut self, slot: Slot) {
        if self.fault.is_none() || slot == Slot::Id {
            self.fault = Some(Fault::Duplicate(slot));
        }
    }

    /// Where the member lies, be it `null` or not.
    pub(crate) fn span(&self, slot: Slot) -> Span {
        self.spans[slot as usize]
    }

    /// Where the member lies; `null` counts as absent.
    pub(crate) fn value(&self, slot: Slot) -> Span {
        match self.nulls.has(slot) {
            true => Span::default(),
            false => self.span(slot),
        }
    }

    /// Whether the member is there, be it `null` or not.
    pub(crate) fn has(&self, slot: Slot) -> bool {
        self.there.has(slot)
    }

    /// Whether any of these is there, be it `null` or not.
    pub(crate) fn has_any(&self, slots: Slots) -> bool {
        self.there.0 & slots.0 != 0
    }

    /// Whether the member is a string that can be read.
    pub(crate) fn is_text(&self, body: &str, slot: Slot) -> bool {
        self.strings.has(slot) && (!self.escaped.has(slot) || self.text(body, slot).is_some())
    }

    /// Whether the member is an object.
    pub(crate) fn is_object(&self, body: &str, slot: Slot) -> bool {
        let span = self.span(slot);
        span.is_some() && body.as_bytes()[span.range().start] == b'{'
    }

    /// The member's JSON text; `null` counts as absent.
    pub(crate) fn raw<'a>(&self, body: &'a str, slot: Slot) -> Option<&'a str> {
        self.value(slot).of(body)
    }

    /// The member's text, if it is a string.
    pub(crate) fn text<'a>(&self, body: &'a str, slot: Slot) -> Option<Cow<'a, str>> {
        if !self.strings.has(slot) {
            return None;
        }
        let quoted = self.span(slot).range();
        match self.escaped.has(slot) {
            false => body.get(quoted.start + 1..quoted.end - 1).map(Cow::Borrowed),
            true => serde_json::from_str(&body[quoted]).ok().map(Cow::Owned),
        }
    }
}

#[cold]
fn spelt_out<L: Level>(key: &[u8]) -> Option<Slot> {
    L::slot(serde_json::from_slice::<String>(key).unwrap_or_default().as_bytes())
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

    fn members(body: &str) -> Members {
        let mut members = Members::default();
        members.find(body, 128);
        members
    }

    fn fault(body: &str) -> Option<Fault> {
        members(body).fault
    }

    #[test]
    fn finds_members_and_their_spans() {
        let body = r#" { "id" : 7 , "params":{"name":"a\"b","_meta":{"progressToken":[1]},"x":{"name":1}}, "method":null } "#;
        let members = members(body);
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
        assert_eq!(fault(&"[".repeat(100_000)), Some(Fault::Malformed));
        let body = nested(200);
        assert_eq!(members(&body).raw(&body, Slot::Id), Some("5"));
    }
}
