//! Observer that makes spans with the OpenTelemetry SDK of the application.
//!
//! It uses the crate `opentelemetry`, which is the API alone (one crate), and not the fields of `tracing` spans: with
//! those, `tracing-opentelemetry` cannot learn the context of the caller, so that every call would begin a trace.

use std::sync::Arc;

use opentelemetry::{
    Context, InstrumentationScope, KeyValue,
    global::{self, BoxedTracer},
    trace::{
        Link, SpanContext, SpanId, SpanKind, Status, TraceContextExt as _, TraceFlags, TraceId,
        TraceState, Tracer as _,
    },
};
use wharf_model::{
    CallEnd, CallRole, CallScope, CallStart, CallState, CurrentTrace, Observer, TraceContext,
};

use crate::span::{end_attributes, is_integer, start_attributes};

/// Makes a span of each call with the tracer provider that the application installed, by the OpenTelemetry conventions
/// for MCP. Its context is the current one of OpenTelemetry, too, while the handler runs.
///
/// The context of the caller is taken from `_meta`. A span that is current where the call arrives, such as one of an HTTP
/// server, is a link.
///
/// ```
/// # mod wharf { pub mod observe { pub use wharf_telemetry::*; } }
/// use wharf::observe::OpenTelemetrySpans;
///
/// // After `opentelemetry::global::set_tracer_provider`: add it with `Server::observe` and `ClientBuilder::observe`.
/// let spans = OpenTelemetrySpans::new();
/// # let _ = spans;
/// ```
#[derive(Clone, Debug)]
pub struct OpenTelemetrySpans(Arc<BoxedTracer>);

impl Default for OpenTelemetrySpans {
    fn default() -> Self {
        OpenTelemetrySpans::new()
    }
}

impl OpenTelemetrySpans {
    /// Uses the global tracer provider, which must be installed before.
    #[must_use]
    pub fn new() -> Self {
        let scope = InstrumentationScope::builder("wharf").with_version(env!("CARGO_PKG_VERSION"));
        OpenTelemetrySpans(Arc::new(global::tracer_with_scope(scope.build())))
    }
}

impl Observer for OpenTelemetrySpans {
    fn call_started(&self, call: &CallStart<'_>) -> CallState {
        let here = Context::current();
        let local = here.span().span_context().clone();
        // A client's call is within the current span; one that was received is within that of its caller.
        let remote = match call.role() {
            CallRole::Client if local.is_valid() => None,
            _ => call.trace_context().or_else(TraceContext::current),
        };
        let parent = match &remote {
            Some(remote) => here.with_remote_span_context(span_context(remote)),
            None => here,
        };
        let is_other = remote.as_ref().is_some_and(|it| it.span_id() != id(&local));
        let links = (is_other && local.is_valid()).then(|| Link::with_context(local));
        let span = self
            .0
            .span_builder(call.span_name())
            .with_kind(kind(call.role()))
            .with_attributes(start_attributes(call).into_iter().map(key_value))
            .with_links(links.into_iter().collect());
        let context = parent.with_span(self.0.build_with_context(span, &parent));
        let own = context.span().span_context().clone();
        let (span_id, is_sampled) = (id(&own), own.is_sampled());
        let trace = match (own.is_valid(), remote) {
            (false, _) => CurrentTrace::get(),
            (true, Some(remote)) => CurrentTrace::Context(remote.with_span(span_id, is_sampled)),
            (true, None) => {
                let trace_id = u128::from_be_bytes(own.trace_id().to_bytes());
                CurrentTrace::Context(TraceContext::new(trace_id, span_id, is_sampled))
            }
        };
        CallState::Scope(Box::new(SpanScope { context, trace }))
    }

    fn counts_bytes(&self) -> bool {
        false
    }
}

struct SpanScope {
    context: Context,
    trace: CurrentTrace,
}

impl CallScope for SpanScope {
    fn run(&mut self, poll: &mut dyn FnMut()) {
        let _current = self.context.clone().attach();
        self.trace.within(poll);
    }

    fn ended(&mut self, end: &CallEnd<'_>) {
        let span = self.context.span();
        span.set_attributes(end_attributes(end).map(key_value));
        if end.error_type().is_some() {
            span.set_status(Status::error(end.error_text().unwrap_or_default()));
        }
        span.end();
    }
}

fn kind(role: CallRole) -> SpanKind {
    match role {
        CallRole::Server => SpanKind::Server,
        CallRole::Client => SpanKind::Client,
        _ => SpanKind::Internal,
    }
}

fn key_value((name, value): (&'static str, String)) -> KeyValue {
    match value.parse::<i64>().ok().filter(|_| is_integer(name)) {
        Some(number) => KeyValue::new(name, number),
        None => KeyValue::new(name, value),
    }
}

fn id(context: &SpanContext) -> u64 {
    u64::from_be_bytes(context.span_id().to_bytes())
}

fn span_context(context: &TraceContext) -> SpanContext {
    let pairs = context.tracestate().unwrap_or_default().split(',');
    let pairs = pairs.filter_map(|pair| pair.trim().split_once('='));
    SpanContext::new(
        TraceId::from(context.trace_id()),
        SpanId::from(context.span_id()),
        TraceFlags::default().with_sampled(context.is_sampled()),
        true,
        TraceState::from_key_value(pairs).unwrap_or_default(),
    )
}
