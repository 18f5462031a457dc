//! Parses the headers of a request in one pass.

use http::HeaderMap;
use memchr::memchr;
use wharf_wire::{HeaderField, McpHeaders};

/// The headers that the endpoint uses.
#[derive(Debug, Default)]
pub(crate) struct RequestHeaders<'a> {
    /// Headers that describe the message.
    pub(crate) message: McpHeaders<'a>,
    pub(crate) host: HeaderField<'a>,
    pub(crate) origin: HeaderField<'a>,
    pub(crate) content_type: HeaderField<'a>,
    pub(crate) content_encoding: HeaderField<'a>,
    pub(crate) transfer_encoding: HeaderField<'a>,
    pub(crate) accept: AcceptHeader,
    pub(crate) session: HeaderField<'a>,
    pub(crate) last_event: HeaderField<'a>,
}

impl<'a> RequestHeaders<'a> {
    pub(crate) fn of(headers: &'a HeaderMap) -> Self {
        let mut parsed = RequestHeaders::default();
        let mut accept: Option<MediaRanges> = None;
        for (name, value) in headers {
            parsed.add(name.as_str(), value.as_bytes(), &mut accept);
        }
        parsed.accept = accept.map(AcceptHeader::from).unwrap_or_default();
        parsed
    }

    /// Adds one header. The length is matched first, because comparing all names in turn would cost every
    /// request more.
    #[inline(always)]
    fn add(&mut self, name: &'a str, value: &'a [u8], accept: &mut Option<MediaRanges>) {
        match (name.len(), name) {
            (4, "host") => self.host.add(value),
            (6, "accept") => accept.get_or_insert_default().add(value),
            (6, "origin") => self.origin.add(value),
            (8, "mcp-name") => self.message.name.add(value),
            (10, "mcp-method") => self.message.method.add(value),
            (12, "content-type") => self.content_type.add(value),
            (13, "last-event-id") => self.last_event.add(value.trim_ascii()),
            (14, "mcp-session-id") => self.session.add(value.trim_ascii()),
            (16, "content-encoding") => self.content_encoding.add(value),
            (17, "transfer-encoding") => self.transfer_encoding.add(value),
            (20, "mcp-protocol-version") => self.message.version.add(value),
            _ => {
                if let Some(parameter) = name.strip_prefix("mcp-param-") {
                    self.message.params.push((parameter, value));
                }
            }
        }
    }

    /// Returns true if the content type is JSON.
    pub(crate) fn is_json(&self) -> bool {
        let kind = self.content_type.one().unwrap_or_default().trim_ascii_start();
        if kind == JSON.as_bytes() {
            return true;
        }
        kind.split_at_checked(JSON.len()).is_some_and(|(essence, rest)| {
            let ends = matches!(rest.trim_ascii_start(), [] | [b';', ..]);
            ends && essence.eq_ignore_ascii_case(JSON.as_bytes())
        })
    }
}

impl RequestHeaders<'_> {
    /// Returns true if the body has no content coding, such as compression.
    pub(crate) fn is_plain(&self) -> bool {
        match self.content_encoding {
            HeaderField::Absent => true,
            HeaderField::One(coding) => coding.trim_ascii().eq_ignore_ascii_case(b"identity"),
            HeaderField::Several => false,
        }
    }
}

/// Media types that a client accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AcceptHeader {
    pub(crate) json: bool,
    pub(crate) events: bool,
}

/// Without the header, a client accepts everything.
impl Default for AcceptHeader {
    fn default() -> Self {
        AcceptHeader { json: true, events: true }
    }
}

/// Media ranges that a client lists. The most specific range that matches a type decides.
#[derive(Default)]
struct MediaRanges([Option<bool>; 5]);

const JSON: &str = "application/json";
/// The value of `Accept` that the official SDKs send.
const USUAL_ACCEPT: &[u8] = b"application/json, text/event-stream";

/// The ranges that matter here, most specific first.
static MEDIA_RANGES: [&str; 5] = [JSON, "text/event-stream", "application/*", "text/*", "*/*"];

impl MediaRanges {
    fn add(&mut self, value: &[u8]) {
        if value == USUAL_ACCEPT {
            (self.0[0], self.0[1]) = (Some(true), Some(true));
            return;
        }
        for range in split(value, b',') {
            let mut parts = split(range, b';');
            let name = parts.next().unwrap_or_default();
            let named = MEDIA_RANGES.iter().position(|it| name.eq_ignore_ascii_case(it.as_bytes()));
            if let Some(index) = named {
                self.0[index] = Some(!parts.any(is_refusal));
            }
        }
    }
}

/// Splits at a separator and trims the parts.
fn split(text: &[u8], mark: u8) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let end = memchr(mark, text);
        rest = end.map(|end| &text[end + 1..]);
        Some(text[..end.unwrap_or(text.len())].trim_ascii())
    })
}

impl From<MediaRanges> for AcceptHeader {
    fn from(MediaRanges([json, events, application, text, any]): MediaRanges) -> Self {
        AcceptHeader {
            json: json.or(application).or(any).unwrap_or_default(),
            events: events.or(text).or(any).unwrap_or_default(),
        }
    }
}

/// Returns true for a weight of zero, which excludes a media range: `q=0`, `q=0.00`.
fn is_refusal(parameter: &[u8]) -> bool {
    let weight = parameter.strip_prefix(b"q=").or_else(|| parameter.strip_prefix(b"Q="));
    weight.is_some_and(|it| !it.is_empty() && it.iter().all(|byte| matches!(byte, b'0' | b'.')))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accept(value: &str) -> (bool, bool) {
        let mut ranges = MediaRanges::default();
        ranges.add(value.as_bytes());
        let accept = AcceptHeader::from(ranges);
        (accept.json, accept.events)
    }

    #[test]
    fn accept_header_supports_wildcards_and_weights() {
        for (value, expected) in [
            ("application/json, text/event-stream", (true, true)),
            ("text/event-stream;q=0.5,application/json;charset=utf-8", (true, true)),
            ("*/*", (true, true)),
            ("application/*", (true, false)),
            ("text/*;q=0.1", (false, true)),
            ("Application/JSON", (true, false)),
            ("application/json;q=0, text/event-stream", (false, true)),
            ("application/json;q=0, */*", (false, true)),
            ("*/*, text/event-stream;q=0.0", (true, false)),
            ("text/html", (false, false)),
            ("", (false, false)),
            ("application/jsonp", (false, false)),
        ] {
            assert_eq!(accept(value), expected, "{value}");
        }
    }

    #[test]
    fn content_type_is_compared_without_its_parameters() {
        for (value, expected) in [
            ("application/json", true),
            ("application/json; charset=utf-8", true),
            ("APPLICATION/JSON", true),
            ("application/json-patch+json", false),
            ("text/plain", false),
            ("", false),
        ] {
            let parsed = RequestHeaders {
                content_type: HeaderField::One(value.as_bytes()),
                ..RequestHeaders::default()
            };
            assert_eq!(parsed.is_json(), expected, "{value}");
        }
        assert!(!RequestHeaders::default().is_json());
    }
}
