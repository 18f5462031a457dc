//! Spans as messages of OTLP.

use std::time::{Duration, SystemTime};

use wharf_model::SPAN_CONVENTIONS;

use crate::{
    otlp::message::{Field, Message, MessageValue, field, fixed, message, messages, text},
    span::{FinishedSpan, is_integer},
};

/// Numbers of the kinds of spans.
const KINDS: [(&str, u32); 3] = [("internal", 1), ("server", 2), ("client", 3)];
/// Number of the error status.
const STATUS_ERROR: u32 = 2;
/// Flags of each span. The optional flags about a parent in another process are not set.
const SAMPLED: u32 = 1;

/// Attribute of the metrics SDK's specification for the series beyond a limit.
pub(crate) const OVERFLOW: &str = "otel.metric.overflow";

/// Returns a request that exports spans.
pub(crate) fn export_request(resource: &[(String, String)], spans: Vec<FinishedSpan>) -> Message {
    let spans = spans.into_iter().map(span).collect();
    let scope_spans = vec![message(1, "scope", scope()), messages(2, "spans", spans)];
    let resource_spans =
        vec![resource_field(resource), messages(2, "scopeSpans", vec![scope_spans])];
    vec![messages(1, "resourceSpans", vec![resource_spans])]
}

/// Returns the field `resource`.
pub(crate) fn resource_field(resource: &[(String, String)]) -> Field {
    let attributes = resource.iter().map(|(key, value)| attribute(key, value.clone())).collect();
    message(1, "resource", vec![messages(1, "attributes", attributes)])
}

/// Returns name and version of the instrumentation.
pub(crate) fn scope() -> Message {
    let conventions = attribute("wharf.conventions", SPAN_CONVENTIONS.to_owned());
    vec![
        text(1, "name", "wharf"),
        text(2, "version", env!("CARGO_PKG_VERSION")),
        messages(3, "attributes", vec![conventions]),
    ]
}

/// Returns an attribute: an integer or a Boolean value if the conventions have it as one.
pub(crate) fn attribute(key: &str, value: String) -> Message {
    let value = match value.parse().ok().filter(|_| is_integer(key)) {
        Some(number) => field(3, "intValue", MessageValue::Integer(number)),
        None if key == OVERFLOW => field(2, "boolValue", MessageValue::Boolean(value == "true")),
        None => text(1, "stringValue", value),
    };
    vec![text(1, "key", key), message(2, "value", vec![value])]
}

/// Returns nanoseconds since 1970.
pub(crate) fn nanoseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

fn span(span: FinishedSpan) -> Message {
    let FinishedSpan { context, parent, name, kind, start, elapsed, attributes, error } = span;
    let kind = KINDS.iter().find(|it| it.0 == kind).map_or(0, |it| it.1);
    let attributes = attributes.into_iter().map(|(key, value)| attribute(key, value)).collect();
    let id = |bytes: &[u8]| MessageValue::Id(bytes.to_vec());
    let mut fields = vec![
        field(1, "traceId", id(&context.trace_id().to_be_bytes())),
        field(2, "spanId", id(&context.span_id().to_be_bytes())),
    ];
    if let Some(tracestate) = context.tracestate() {
        fields.push(text(3, "traceState", tracestate));
    }
    if let Some(parent) = parent {
        fields.push(field(4, "parentSpanId", id(&parent.to_be_bytes())));
    }
    fields.extend([
        text(5, "name", name),
        field(6, "kind", MessageValue::Number(kind)),
        fixed(7, "startTimeUnixNano", nanoseconds(start)),
        fixed(8, "endTimeUnixNano", nanoseconds(start + elapsed)),
        messages(9, "attributes", attributes),
    ]);
    if let Some(error) = error {
        let status =
            vec![text(2, "message", error), field(3, "code", MessageValue::Number(STATUS_ERROR))];
        fields.push(message(15, "status", status));
    }
    fields.push(field(16, "flags", MessageValue::Flags(SAMPLED)));
    fields
}
