//! Trace context (W3C Trace Context and Baggage) in the metadata of a request.

use serde::Deserialize;

/// Trace context of a caller: the members `traceparent`, `tracestate` and `baggage` of `_meta`.
///
/// ```
/// # mod wharf { pub use wharf_model::*; pub mod observe { pub use super::*; } }
/// use wharf::observe::TraceContext;
///
/// let meta = r#"{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}"#;
/// let context = TraceContext::from_meta(meta).unwrap();
/// assert_eq!(context.trace_id(), "0af7651916cd43dd8448eb211c80319c");
/// assert_eq!(context.parent_id(), "b7ad6b7169203331");
/// assert!(context.is_sampled());
/// assert_eq!(TraceContext::from_meta(r#"{"traceparent":"nonsense"}"#), None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "ContextFields")]
#[non_exhaustive]
pub struct TraceContext {
    /// The header `traceparent`, which is valid.
    pub traceparent: String,
    /// The header `tracestate`, if it has at most 512 visible characters.
    pub tracestate: Option<String>,
    /// The header `baggage`, if it has at most 8,192 visible characters.
    pub baggage: Option<String>,
}

const MAX_TRACESTATE: usize = 512;
const MAX_BAGGAGE: usize = 8192;

#[derive(Deserialize)]
struct ContextFields {
    traceparent: Option<serde_json::Value>,
    tracestate: Option<serde_json::Value>,
    baggage: Option<serde_json::Value>,
}

impl TryFrom<ContextFields> for TraceContext {
    type Error = &'static str;

    fn try_from(fields: ContextFields) -> Result<Self, &'static str> {
        let text = |value: Option<serde_json::Value>, limit: usize| match value {
            Some(serde_json::Value::String(text)) if is_header_value(&text, limit) => Some(text),
            _ => None,
        };
        let traceparent = text(fields.traceparent, usize::MAX).filter(|it| is_traceparent(it));
        Ok(TraceContext {
            traceparent: traceparent.ok_or("no valid traceparent")?,
            tracestate: text(fields.tracestate, MAX_TRACESTATE),
            baggage: text(fields.baggage, MAX_BAGGAGE),
        })
    }
}

impl TraceContext {
    /// Parses the context in `_meta`; `None` if it has no valid `traceparent`.
    #[must_use]
    pub fn from_meta(json: &str) -> Option<TraceContext> {
        // Most metadata has no context: then nothing is parsed.
        json.contains("\"traceparent\"").then(|| serde_json::from_str(json).ok()).flatten()
    }

    /// Returns the trace id: 32 hexadecimal digits.
    #[must_use]
    pub fn trace_id(&self) -> &str {
        self.traceparent.get(3..35).unwrap_or_default()
    }

    /// Returns the id of the caller's span: 16 hexadecimal digits.
    #[must_use]
    pub fn parent_id(&self) -> &str {
        self.traceparent.get(36..52).unwrap_or_default()
    }

    /// Returns whether the caller samples the trace.
    #[must_use]
    pub fn is_sampled(&self) -> bool {
        let flags = self.traceparent.get(53..55).and_then(|it| u8::from_str_radix(it, 16).ok());
        flags.is_some_and(|flags| flags & 1 == 1)
    }
}

fn is_header_value(text: &str, limit: usize) -> bool {
    text.len() <= limit && text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

/// Validates the header of version 00. Later versions may append fields after another `-`.
fn is_traceparent(text: &str) -> bool {
    let mut fields = text.splitn(5, '-');
    let mut next = |length: usize| {
        let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        fields.next().filter(|field| field.len() == length && field.bytes().all(is_hex))
    };
    let (version, trace, parent, flags) = (next(2), next(32), next(16), next(2));
    let is_nonzero = |field: Option<&str>| field.is_some_and(|it| it.bytes().any(|b| b != b'0'));
    version.is_some_and(|version| version != "ff")
        && (version != Some("00") || text.len() == 55)
        && is_nonzero(trace)
        && is_nonzero(parent)
        && flags.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_valid_traceparent_is_a_context() {
        let (trace, parent) = ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331");
        let cases = [
            (format!("00-{trace}-{parent}-01"), true),
            (format!("00-{trace}-{parent}-01-more"), false),
            (format!("01-{trace}-{parent}-01-more"), true),
            (format!("ff-{trace}-{parent}-01"), false),
            (format!("00-{}-{parent}-01", "0".repeat(32)), false),
            (format!("00-{trace}-{}-01", "0".repeat(16)), false),
            (format!("00-{}-{parent}-01", trace.to_uppercase()), false),
            (format!("00-{trace}-{parent}"), false),
        ];
        for (traceparent, is_valid) in cases {
            let meta = serde_json::json!({ "traceparent": traceparent }).to_string();
            assert_eq!(TraceContext::from_meta(&meta).is_some(), is_valid, "{traceparent}");
        }
    }

    #[test]
    fn an_oversized_or_unprintable_companion_is_dropped() {
        let traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";
        let meta = serde_json::json!({
            "traceparent": traceparent, "tracestate": "a".repeat(513), "baggage": "a=1\r\nb=2",
        });
        let context = TraceContext::from_meta(&meta.to_string()).unwrap();
        assert_eq!((&context.tracestate, &context.baggage), (&None, &None));
        assert!(!context.is_sampled());
    }
}
