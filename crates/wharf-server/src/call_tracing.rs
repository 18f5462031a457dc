//! Observer that makes a `tracing` span of each call, and writes one log line at its end.

use std::{borrow::Cow, time::Duration};

use tracing::{Level, Span, field::Empty};
use wharf_model::{
    CallEnd, CallOutcome, CallRole, CallScope, CallStart, CallState, CurrentTrace, Error, Method,
    ObservedEvent, Observer, Request, hashed_id, printable,
};

use crate::{event_log, handler::tool_error::with_sources};

/// Makes one `tracing` span of each call, by the OpenTelemetry conventions for MCP, and writes one log line at its end.
/// Neither has arguments. Nothing is allocated while no `tracing` subscriber is installed. Every `Server` has this
/// observer, behind all others; add it to a client with `ClientBuilder::observe`.
///
/// The fields of the span are read by `tracing-opentelemetry`: `otel.name`, `otel.kind`, `otel.status_code`, and the
/// attributes of [`SPAN_ATTRIBUTES`](wharf_model::SPAN_ATTRIBUTES).
///
/// The line has the fields `method`, `name`, `id`, `revision`, `transport`, `principal`, `session` (hashed), `ms`,
/// `outcome`, `error`, `trace_id` and `span_id`. Its level is `INFO`, `WARN` after a timeout, and `ERROR` if the handler
/// panicked, or failed with an [`Error`](wharf_model::Error) that has a source. `error` is the text of the source or the
/// panic, which the client does not receive, or else that of the error or of the tool's result.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tracing;

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

/// Span of a call, and the fields of its line.
struct TracedCall {
    span: Span,
    trace: CurrentTrace,
    role: CallRole,
    method: Cow<'static, str>,
    name: Option<String>,
    id: Option<String>,
    revision: Option<String>,
    transport: Option<&'static str>,
    principal: Option<String>,
    session: Option<String>,
}

impl TracedCall {
    fn start(call: &CallStart<'_>) -> TracedCall {
        let request = call.request();
        let owned = |text: Cow<'_, str>| text.into_owned();
        // An observer before this one may have made a span; without one, calls continue the trace of the caller.
        let trace = match CurrentTrace::get() {
            CurrentTrace::None => {
                call.trace_context().map_or(CurrentTrace::None, CurrentTrace::Context)
            }
            known => known,
        };
        TracedCall {
            span: span(call),
            trace,
            role: call.role(),
            method: match (request.method, call.role()) {
                (Method::Custom, _) => Cow::Owned(printable(&call.method_name())),
                (_, CallRole::Task) => "task".into(),
                (Method::Discover, _) => Cow::Owned(call.method_name().into_owned()),
                (method, _) => method.name().into(),
            },
            name: Some(printable(&request.target()))
                .filter(|it| !it.is_empty() && request.method != Method::Custom),
            id: call.span_attribute("jsonrpc.request.id").map(owned),
            revision: call.protocol_version().map(str::to_owned),
            transport: call.transport().map(|it| it.name()),
            principal: call.principal().map(|it| printable(it.id())),
            session: call.session_id().map(hashed_id),
        }
    }
}

/// Creates the span. Attributes that the call does not have are absent.
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
        self.span.in_scope(|| self.trace.within(poll));
    }

    fn ended(&mut self, end: &CallEnd<'_>) {
        self.record_end(end);
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

    /// Writes the line outside of the span, whose fields it would repeat.
    fn write_line(&self, end: &CallEnd<'_>) {
        let context = match &self.trace {
            CurrentTrace::Context(context) => Some(context),
            CurrentTrace::None | CurrentTrace::Unsampled => None,
        };
        let ids =
            context.map(|it| (format!("{:032x}", it.trace_id()), format!("{:016x}", it.span_id())));
        let (trace_id, span_id) = ids.unzip();
        macro_rules! line {
            ($level:ident) => {
                tracing::event!(
                    parent: None,
                    Level::$level,
                    role = role_name(self.role),
                    method = &*self.method,
                    name = self.name,
                    id = self.id,
                    revision = self.revision,
                    transport = self.transport,
                    principal = self.principal,
                    session = self.session,
                    ms = milliseconds(end.elapsed()),
                    outcome = end.name(),
                    error = end.error_text(),
                    trace_id,
                    span_id,
                    "call finished"
                )
            };
        }
        match end.outcome() {
            CallOutcome::Panicked(_) => line!(ERROR),
            _ if end.error().is_some_and(|it| cause(it).is_some()) => line!(ERROR),
            // Start and end of a task are events of their own, without the cause of its failure.
            _ if self.role == CallRole::Task => {}
            CallOutcome::TimedOut => line!(WARN),
            _ => line!(INFO),
        }
    }
}

/// Returns the value of `role`: only a client's lines have it.
fn role_name(role: CallRole) -> Option<&'static str> {
    (role == CallRole::Client).then_some("client")
}

/// Returns milliseconds with three decimals.
fn milliseconds(elapsed: Duration) -> f64 {
    (elapsed.as_secs_f64() * 1e6).round() / 1e3
}

/// Returns the text of the source of an error, for the log only: it may contain confidential data.
/// None if the error has no source.
pub(crate) fn cause(error: &Error) -> Option<String> {
    use std::error::Error as _;
    error.source().map(|source| printable(&with_sources(source)))
}

/// Returns the name of the method for the log; that of a custom method is from the caller.
pub(crate) fn method_name(request: &Request) -> Cow<'static, str> {
    match request.method {
        Method::Custom => Cow::Owned(printable(&request.method_name())),
        method => Cow::Borrowed(method.name()),
    }
}
