//! Attributes of the span of a call, and its finished form.

use std::borrow::Cow;

use wharf_model::{CallEnd, CallStart, SPAN_ATTRIBUTES, SpanAttributeFn};

/// Span of a call, with the attributes of the OpenTelemetry conventions for MCP.
#[cfg(feature = "otlp")]
#[derive(Debug)]
pub(crate) struct FinishedSpan {
    pub(crate) context: wharf_model::TraceContext,
    pub(crate) parent: Option<u64>,
    pub(crate) name: String,
    /// `server`, `client` or `internal`.
    pub(crate) kind: &'static str,
    pub(crate) start: std::time::SystemTime,
    pub(crate) elapsed: std::time::Duration,
    pub(crate) attributes: Vec<(&'static str, String)>,
    /// Text of the error of a span with error status.
    pub(crate) error: Option<String>,
}

/// Returns the attributes that are known at the start of a call.
pub(crate) fn start_attributes(call: &CallStart<'_>) -> Vec<(&'static str, String)> {
    let owned = |(name, value): &(&'static str, SpanAttributeFn)| {
        value(call).map(|value| (*name, Cow::into_owned(value)))
    };
    SPAN_ATTRIBUTES.iter().filter_map(owned).collect()
}

/// Returns the attributes that are known at the end of a call; `error.type` gives the span its error status.
pub(crate) fn end_attributes(end: &CallEnd<'_>) -> impl Iterator<Item = (&'static str, String)> {
    let error = end.error_type().map(|it| ("error.type", it.name().into_owned()));
    let code = end.error_code().map(|it| ("rpc.response.status_code", it.to_string()));
    error.into_iter().chain(code)
}

/// Returns whether the attribute is an integer.
pub(crate) fn is_integer(name: &str) -> bool {
    matches!(name, "client.port" | "server.port")
}
