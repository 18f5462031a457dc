//! Observer that records spans of calls for export.

pub(crate) mod queue;
pub(crate) mod sampler;

use std::{fmt, sync::Arc, time::SystemTime};

use wharf_model::{
    CallEnd, CallRole, CallScope, CallStart, CallState, CurrentTrace, Observer, TraceContext,
    random_id,
};

use crate::{
    span::{FinishedSpan, end_attributes, start_attributes},
    traces::{queue::SpanQueue, sampler::Sampler},
};

/// Records a span of each call that is sampled, by the OpenTelemetry conventions for MCP, and of each run of a task.
/// [`Otlp`](crate::Otlp) exports them. Clones share the queue.
///
/// The context of the caller is taken from `_meta`; that of the span is current while the handler runs, so that requests
/// of clients within it carry it on. A call that is not sampled costs no allocation.
///
/// ```
/// # mod wharf { pub mod observe { pub use wharf_telemetry::*; } }
/// use wharf::observe::{Otlp, Traces};
///
/// let variable = |name: &str| {
///     (name == "OTEL_EXPORTER_OTLP_ENDPOINT").then(|| "http://127.0.0.1:4318".to_owned())
/// };
/// let otlp = Otlp::from_variables(variable)?.unwrap();
/// let traces: Traces = otlp.traces().unwrap();
/// # let _ = traces;
/// # Ok::<(), wharf::observe::OtlpError>(())
/// ```
#[derive(Clone)]
pub struct Traces(Arc<TraceRecorder>);

struct TraceRecorder {
    sampler: Sampler,
    queue: Arc<SpanQueue>,
}

impl Traces {
    pub(crate) fn new(sampler: Sampler, queue: Arc<SpanQueue>) -> Traces {
        Traces(Arc::new(TraceRecorder { sampler, queue }))
    }

    /// Records this share of the traces, and exports nothing: for measurements of the overhead.
    #[doc(hidden)]
    #[must_use]
    pub fn without_export(ratio: f64) -> Traces {
        let queue = SpanQueue::new(1 << 16, 1 << 16);
        queue.open();
        Traces::new(Sampler::ratio(ratio), Arc::new(queue))
    }
}

impl Observer for Traces {
    fn call_started(&self, call: &CallStart<'_>) -> CallState {
        let TraceRecorder { sampler, queue } = &*self.0;
        if !queue.is_open() {
            return CallState::Ignored;
        }
        let Some(parent) = parent(call) else {
            let random = random_id();
            return match sampler.samples(random) {
                true => record(call, TraceContext::root(random, true), None, queue),
                false => CallState::Scope(Box::new(UnsampledCall)),
            };
        };
        match sampler.samples_child(&parent) {
            true => record(call, parent.child(true), Some(parent.span_id()), queue),
            false => CallState::Scope(Box::new(UnrecordedCall(parent.child(false)))),
        }
    }

    fn is_active(&self) -> bool {
        self.0.queue.is_open()
    }

    fn counts_bytes(&self) -> bool {
        false
    }
}

/// Returns the context of the caller: that of the request, or of the call within which a client makes it.
fn parent(call: &CallStart<'_>) -> Option<TraceContext> {
    match call.role() {
        CallRole::Client => TraceContext::current().or_else(|| call.trace_context()),
        _ => call.trace_context().or_else(TraceContext::current),
    }
}

fn record(
    call: &CallStart<'_>,
    context: TraceContext,
    parent: Option<u64>,
    queue: &Arc<SpanQueue>,
) -> CallState {
    CallState::Scope(Box::new(RecordedCall {
        trace: CurrentTrace::Context(context),
        parent,
        name: call.span_name(),
        kind: call.span_kind(),
        start: SystemTime::now(),
        attributes: start_attributes(call),
        queue: queue.clone(),
    }))
}

/// Call that began a trace which is not recorded. It has no size, so its box is no allocation.
struct UnsampledCall;

impl CallScope for UnsampledCall {
    fn run(&mut self, poll: &mut dyn FnMut()) {
        CurrentTrace::Unsampled.within(poll);
    }
}

/// Call in a trace that is not recorded.
struct UnrecordedCall(TraceContext);

impl CallScope for UnrecordedCall {
    fn run(&mut self, poll: &mut dyn FnMut()) {
        CurrentTrace::Context(self.0.clone()).within(poll);
    }
}

struct RecordedCall {
    trace: CurrentTrace,
    parent: Option<u64>,
    name: String,
    kind: &'static str,
    start: SystemTime,
    attributes: Vec<(&'static str, String)>,
    queue: Arc<SpanQueue>,
}

impl CallScope for RecordedCall {
    fn run(&mut self, poll: &mut dyn FnMut()) {
        self.trace.within(poll);
    }

    fn ended(&mut self, end: &CallEnd<'_>) {
        let CurrentTrace::Context(context) = std::mem::take(&mut self.trace) else { return };
        let mut attributes = std::mem::take(&mut self.attributes);
        attributes.extend(end_attributes(end));
        let is_error = end.error_type().is_some();
        self.queue.push(FinishedSpan {
            context,
            parent: self.parent,
            name: std::mem::take(&mut self.name),
            kind: self.kind,
            start: self.start,
            elapsed: end.elapsed(),
            attributes,
            error: is_error.then(|| end.error_text().unwrap_or_default()),
        });
    }
}

impl fmt::Debug for Traces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Traces").field("sampler", &self.0.sampler).finish_non_exhaustive()
    }
}
