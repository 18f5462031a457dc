//! Observer that makes a `tracing` span of each call, and writes one log line at its end.

use std::{borrow::Cow, error::Error as _, time::Duration};

use tracing::{Level, Span, field::Empty};
use wharf_model::{
    CallEnd, CallOutcome, CallScope, CallStart, CallState, CurrentTrace, Error, ErrorKind,
    LogThrottle, Method, ObservedEvent, Observer, Request, TraceContext, printable,
};

use crate::{call_facts::CallFacts, event_log, handler::tool_error::with_sources};

/// Makes one `tracing` span of each call, by the OpenTelemetry conventions for MCP, and writes one log line at its end.
/// Neither has arguments. Nothing is allocated while no `tracing` subscriber is installed. Every `Server` has this
/// observer, behind all others; add it to a client with `ClientBuilder::observe`.
///
/// The fields of the span are read by `tracing-opentelemetry`: `otel.name`, `otel.kind`, `otel.status_code`, and the
/// attributes of [`SPAN_ATTRIBUTES`](wharf_model::SPAN_ATTRIBUTES).
///
/// The line has the fields `method`, `name`, `id`, `revision`, `transport`, `principal`, `session` (hashed), `ms`,
/// `outcome`, `error`, `trace_id` and `span_id`. Its level is `INFO`; `WARN` after a timeout, and at most every ten
/// seconds if the caller lacks a scope or the rate limit was reached; and `ERROR` if the handler panicked, or failed with an
/// [`Error`](wharf_model::Error) that has a source. `error` is the text of the source or the panic, which the client does
/// not receive, or else that of the error or of the tool's result. The run of a task has a line only if it failed, with
/// the hash of the task's id as `task`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tracing;

/// Errors of calls that hint at an attack, at a wrong configuration or at limits that are too low. Any client can cause
/// them, so that their lines are limited; the others are at `INFO`. Each limit that overloads the server has a line of its
/// own.
static WARNED_ERRORS: [(ErrorKind, LogThrottle); 3] = [
    (ErrorKind::InsufficientScope, LogThrottle::new()),
    (ErrorKind::Forbidden, LogThrottle::new()),
    (ErrorKind::RateLimited, LogThrottle::new()),
];

impl Observer for Tracing {
    fn is_active(&self) -> bool {
        // Panics are logged at this level even where spans and other ends are not.
        tracing::enabled!(Level::ERROR)
    }

    fn logs_panics(&self) -> bool {
        true
    }

    fn call_started(&self, call: &CallStart<'_>) -> CallState {
        match self.is_active() {
            true => CallState::Scope(Box::new(TracedCall::start(call))),
            false => CallState::Ignored,
        }
    }

    fn event(&self, event: &ObservedEvent<'_>) {
        event_log::log(event);
    }

    fn counts_bytes(&self) -> bool {
        false
    }
}

/// Span of a call, and the facts for its line.
struct TracedCall {
    span: Span,
    trace: CurrentTrace,
    facts: CallFacts,
}

impl TracedCall {
    fn start(call: &CallStart<'_>) -> TracedCall {
        // An observer before this one may have made a span; without one, calls continue the trace of the caller.
        let trace = match CurrentTrace::get() {
            CurrentTrace::None => {
                call.trace_context().map_or(CurrentTrace::None, CurrentTrace::Context)
            }
            known => known,
        };
        TracedCall { span: span(call), trace, facts: CallFacts::of(call) }
    }
}

/// Creates the span. Attributes that the call does not have are absent; none is formatted if spans are off.
fn span(call: &CallStart<'_>) -> Span {
    let value = |name| call.span_attribute(name);
    let port = |name| value(name).and_then(|it| it.parse::<u64>().ok());
    tracing::info_span!(
        "call",
        "otel.name" = call.span_name(),
        "otel.kind" = call.span_kind(),
        "otel.status_code" = Empty,
        "otel.status_description" = Empty,
        "mcp.method.name" = value("mcp.method.name").as_deref(),
        "gen_ai.operation.name" = value("gen_ai.operation.name").as_deref(),
        "gen_ai.tool.name" = value("gen_ai.tool.name").as_deref(),
        "gen_ai.prompt.name" = value("gen_ai.prompt.name").as_deref(),
        "mcp.resource.uri" = value("mcp.resource.uri").as_deref(),
        "jsonrpc.request.id" = value("jsonrpc.request.id").as_deref(),
        "mcp.protocol.version" = value("mcp.protocol.version").as_deref(),
        "mcp.session.id" = value("mcp.session.id").as_deref(),
        "network.transport" = value("network.transport").as_deref(),
        "network.protocol.name" = value("network.protocol.name").as_deref(),
        "network.protocol.version" = value("network.protocol.version").as_deref(),
        "client.address" = value("client.address").as_deref(),
        "client.port" = port("client.port"),
        "server.address" = value("server.address").as_deref(),
        "server.port" = port("server.port"),
        "error.type" = Empty,
        "rpc.response.status_code" = Empty,
    )
}

impl CallScope for TracedCall {
    fn run(&mut self, poll: &mut dyn FnMut()) {
        match (self.span.is_disabled(), &self.trace) {
            (true, CurrentTrace::None) => poll(),
            (true, trace) => trace.within(poll),
            (false, trace) => self.span.in_scope(|| trace.within(poll)),
        }
    }

    fn ended(&mut self, end: &CallEnd<'_>) {
        if !self.span.is_disabled() {
            self.record_end(end);
        }
        self.write_line(end);
    }
}

impl TracedCall {
    fn record_end(&self, end: &CallEnd<'_>) {
        if let Some(code) = end.error_code() {
            self.span.record("rpc.response.status_code", code.to_string());
        }
        if let Some(class) = end.error_type() {
            self.span.record("error.type", &*class.name());
            self.span.record("otel.status_code", "ERROR");
            if let Some(text) = end.error_text() {
                self.span.record("otel.status_description", text);
            }
        }
    }

    fn trace_context(&self) -> Option<&TraceContext> {
        match &self.trace {
            CurrentTrace::Context(context) => Some(context),
            CurrentTrace::None | CurrentTrace::Unsampled => None,
        }
    }

    /// Writes the line outside of the span, whose fields it would repeat.
    fn write_line(&self, end: &CallEnd<'_>) {
        let facts = &self.facts;
        macro_rules! line {
            ($level:ident, $suppressed:expr) => {
                // The fields are formatted only if the line is written.
                tracing::event!(
                    parent: None,
                    Level::$level,
                    role = facts.role_name(),
                    method = &*facts.method_name(),
                    name = facts.target(),
                    task = facts.task(),
                    id = facts.request_id(),
                    revision = facts.revision(),
                    transport = facts.transport(),
                    principal = facts.principal(),
                    session = facts.session(),
                    ms = milliseconds(end.elapsed()),
                    outcome = end.name(),
                    error = end.error_text(),
                    trace_id = self.trace_context().map(|it| format!("{:032x}", it.trace_id())),
                    span_id = self.trace_context().map(|it| format!("{:016x}", it.span_id())),
                    suppressed = $suppressed,
                    "call finished"
                )
            };
        }
        let none = None::<u64>;
        match end.outcome() {
            CallOutcome::Panicked(_) => line!(ERROR, none),
            _ if end.error().is_some_and(|it| it.source().is_some()) => line!(ERROR, none),
            CallOutcome::TimedOut => line!(WARN, none),
            // The start and the end of a task are events, and so is the reason for which a run is dropped.
            outcome if facts.is_task() && is_quiet_end(outcome, end) => {}
            _ => match warning(end) {
                Some(suppressed) => line!(WARN, Some(suppressed)),
                None => line!(INFO, none),
            },
        }
    }
}

/// Returns whether the run of a task ended without a failure of its own.
fn is_quiet_end(outcome: CallOutcome<'_>, end: &CallEnd<'_>) -> bool {
    matches!(outcome, CallOutcome::Cancelled) || end.error_type().is_none()
}

/// Returns the number of suppressed warnings if the call ended with an error of [`WARNED_ERRORS`] and its line is due.
fn warning(end: &CallEnd<'_>) -> Option<u64> {
    let kind = end.error()?.kind;
    WARNED_ERRORS.iter().find(|(warned, _)| *warned == kind)?.1.due()
}

/// Returns milliseconds with three decimals.
fn milliseconds(elapsed: Duration) -> f64 {
    (elapsed.as_secs_f64() * 1e6).round() / 1e3
}

/// Returns the text of the source of an error, for the log only: it may contain confidential data.
/// None if the error has no source.
pub(crate) fn cause(error: &Error) -> Option<String> {
    error.source().map(|source| printable(&with_sources(source)))
}

/// Returns the name of the method for the log; that of a custom method is from the caller.
pub(crate) fn method_name(request: &Request) -> Cow<'static, str> {
    match request.method {
        Method::Custom => Cow::Owned(printable(&request.method_name())),
        method => Cow::Borrowed(method.name()),
    }
}
