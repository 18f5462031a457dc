//! MCP request headers (`MCP-Protocol-Version`, `Mcp-Method`, `Mcp-Name`, `Mcp-Param-*`), which repeat body
//! fields for routing.

use std::borrow::Cow;

use base64::{Engine, engine::general_purpose::STANDARD};
use wharf_model::{Error, HeaderParams, Method};

use crate::{
    Revision, ServerProtocol,
    json::field_spans::MessageField,
    server::{
        legacy_session::LegacyContext,
        message::{Message, RequestRejection, invalid_request, target_field},
        message_source::MessageSource,
    },
    versions::revision::Feature,
};

/// MCP headers of an HTTP request.
#[derive(Debug, Default)]
pub struct McpHeaders<'a> {
    /// `MCP-Protocol-Version`.
    pub version: HeaderField<'a>,
    /// `Mcp-Method`.
    pub method: HeaderField<'a>,
    /// `Mcp-Name`.
    pub name: HeaderField<'a>,
    /// `Mcp-Param-*`: the lower-case name after the prefix, and the value.
    pub params: Vec<(&'a str, &'a [u8])>,
}

/// Value of a header that may occur once.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum HeaderField<'a> {
    /// The header is absent.
    #[default]
    Absent,
    /// The header occurs once, with this value.
    One(&'a [u8]),
    /// The header occurs several times, so two readers could see different values.
    Several,
}

impl<'a> HeaderField<'a> {
    /// Adds an occurrence.
    pub fn add(&mut self, value: &'a [u8]) {
        *self = match self {
            HeaderField::Absent => HeaderField::One(value),
            _ => HeaderField::Several,
        };
    }

    /// Returns the value if there is exactly one.
    #[must_use]
    pub fn one(self) -> Option<&'a [u8]> {
        match self {
            HeaderField::One(value) => Some(value),
            _ => None,
        }
    }
}

pub(crate) const VERSION: &str = "MCP-Protocol-Version";
pub(crate) const METHOD: &str = "Mcp-Method";
pub(crate) const NAME: &str = "Mcp-Name";
const MISSING: &str = "is missing";

impl McpHeaders<'_> {
    /// Returns whether the request may belong to a session: the version header names no revision without
    /// sessions.
    ///
    /// ```
    /// use wharf_wire::{HeaderField, McpHeaders};
    ///
    /// let version = HeaderField::One(b"2026-07-28");
    /// assert!(!McpHeaders { version, ..McpHeaders::default() }.may_have_session());
    /// assert!(McpHeaders::default().may_have_session());
    /// ```
    #[must_use]
    pub fn may_have_session(&self) -> bool {
        self.revision().is_none_or(|revision| revision.has(Feature::Sessions))
    }

    /// Returns whether `wire` supports the version header, if there is one. For requests without a body:
    /// messages are checked when they are read.
    #[must_use]
    pub fn is_supported(&self, wire: &ServerProtocol) -> bool {
        match self.version {
            HeaderField::Absent => true,
            _ => self.revision().is_some_and(|revision| wire.supports(revision)),
        }
    }

    /// Returns the revision in the version header, if it is a known one.
    pub(crate) fn revision(&self) -> Option<Revision> {
        let date = trimmed(self.version.one()?);
        Revision::ALL.into_iter().rev().find(|revision| revision.as_str().as_bytes() == date)
    }

    /// Refuses a request without a version header.
    pub(crate) fn require_version(&self) -> Result<(), Error> {
        match self.version {
            HeaderField::Absent => Err(Error::header_mismatch(VERSION, MISSING)),
            _ => Ok(()),
        }
    }

    /// Compares the headers of a modern request with its body.
    pub(crate) fn check(&self, message: &Message, method: Option<Method>) -> Result<(), Error> {
        let body_field = |field| message.text(field);
        compare(VERSION, self.version, body_field(MessageField::MetaVersion), |it| {
            visible(it).map(Cow::from)
        })?;
        compare(METHOD, self.method, body_field(MessageField::Method), |it| {
            visible(it).map(Cow::from)
        })?;
        match method.and_then(target_field) {
            Some(field) => compare(NAME, self.name, body_field(field), decode),
            None => Ok(()),
        }
    }

    /// Returns the `Mcp-Param-*` values, for comparison with the arguments.
    pub(crate) fn mirrored(&self) -> HeaderParams {
        let read = |&(name, value): &(&str, &[u8])| {
            let text = decode(value).map(Cow::into_owned);
            (name.to_ascii_lowercase(), text.and_then(|text| String::from_utf8(text).ok()))
        };
        self.params.iter().map(read).collect()
    }
}

/// Returns the revision of a legacy HTTP request: the one in its version header, or the one that the specification
/// assumes without the header.
pub(crate) fn legacy_revision(in_header: Option<Revision>) -> Revision {
    in_header.unwrap_or(Revision::HTTP_DEFAULT)
}

fn compare(
    header: &str,
    field: HeaderField<'_>,
    body: Option<Cow<'_, str>>,
    read: fn(&[u8]) -> Option<Cow<'_, [u8]>>,
) -> Result<(), Error> {
    let problem = match (field, body) {
        // A field that is missing in the body is refused as an invalid parameter.
        (HeaderField::Absent, None) => return Ok(()),
        (HeaderField::Absent, Some(_)) => MISSING,
        (HeaderField::Several, _) => "occurs more than once",
        (HeaderField::One(value), body) => match read(value) {
            None => "is malformed",
            Some(value) if body.is_some_and(|body| *value == *body.as_bytes()) => return Ok(()),
            Some(_) => "does not match the body",
        },
    };
    Err(Error::header_mismatch(header, problem))
}

/// Returns the header value as text without surrounding white space; none if it has characters that HTTP does
/// not allow.
pub(crate) fn plain(value: &[u8]) -> Option<&str> {
    std::str::from_utf8(visible(value)?).ok()
}

fn visible(value: &[u8]) -> Option<&[u8]> {
    let text = trimmed(value);
    text.iter().all(|byte| matches!(byte, b'\t' | b' '..=b'~')).then_some(text)
}

/// Removes surrounding spaces and tabs.
fn trimmed(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}

const BASE64_PREFIX: &str = "=?base64?";
const BASE64_SUFFIX: &str = "?=";

/// Decodes a header value: plain text, or base64 between `=?base64?` and `?=`.
fn decode(value: &[u8]) -> Option<Cow<'_, [u8]>> {
    let text = visible(value)?;
    let marked = text.strip_prefix(BASE64_PREFIX.as_bytes());
    match marked.and_then(|rest| rest.strip_suffix(BASE64_SUFFIX.as_bytes())) {
        None => Some(Cow::Borrowed(text)),
        Some(encoded) => {
            let bytes = STANDARD.decode(encoded).ok()?;
            String::from_utf8(bytes).ok().map(|text| Cow::Owned(text.into_bytes()))
        }
    }
}

/// Encodes `text` as the value of `Mcp-Name` or `Mcp-Param-*`.
///
/// ```
/// use wharf_wire::encode_header;
///
/// assert_eq!(encode_header("us-west1"), "us-west1");
/// assert_eq!(encode_header("Hello, 世界"), "=?base64?SGVsbG8sIOS4lueVjA==?=");
/// ```
#[must_use]
pub fn encode_header(text: &str) -> Cow<'_, str> {
    let marked = text.starts_with(BASE64_PREFIX) && text.ends_with(BASE64_SUFFIX);
    match plain(text.as_bytes()) {
        Some(trimmed) if trimmed == text && !marked => Cow::Borrowed(text),
        _ => Cow::Owned(format!("{BASE64_PREFIX}{}{BASE64_SUFFIX}", STANDARD.encode(text))),
    }
}

impl MessageSource<'_> {
    /// Refuses a version header that the server does not support.
    pub(crate) fn check_version(&self, wire: &ServerProtocol) -> Result<(), RequestRejection> {
        let Some(headers) = self.headers else { return Ok(()) };
        let value = match headers.version {
            HeaderField::Absent => return Ok(()),
            HeaderField::One(value) => value,
            HeaderField::Several => {
                let error = invalid_request(
                    "Invalid request: `MCP-Protocol-Version` occurs more than once",
                );
                return Err(RequestRejection::new(error, Revision::NEWEST));
            }
        };
        match headers.revision().is_some_and(|revision| wire.supports(revision)) {
            true => Ok(()),
            false => Err(wire.unsupported_header(plain(value).unwrap_or_default())),
        }
    }

    /// Refuses a message that needs a session if none is open on HTTP.
    pub(crate) fn check_session(&self, wire: &ServerProtocol) -> Result<(), RequestRejection> {
        match (&self.legacy, self.headers) {
            (LegacyContext::Session(None), Some(_)) if !self.is_modern() => {
                Err(RequestRejection::new(no_session(wire), Revision::NEWEST))
            }
            _ => Ok(()),
        }
    }
}

/// Error for a message without `Mcp-Session-Id`.
fn no_session(wire: &ServerProtocol) -> Error {
    let (legacy, modern) = (Revision::NEWEST_LEGACY, Revision::NEWEST);
    let hint = match wire.supports(modern) {
        false => String::new(),
        true => format!(
            " ({legacy} and older); a request of {modern} needs none, but an \
             `MCP-Protocol-Version` header with that version"
        ),
    };
    invalid_request(format!(
        "Invalid request: missing `Mcp-Session-Id` header, which the response to `initialize` \
         carries{hint}"
    ))
}
