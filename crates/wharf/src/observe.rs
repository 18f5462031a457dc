//! Observability: [`Observer`]s receive the calls and the events of a server or a client.
//!
//! Add them with [`Server::observe`](crate::Server::observe) and
//! [`ClientBuilder::observe`](crate::client::ClientBuilder::observe). Every server has [`Tracing`],
//! which writes spans and log lines through the crate `tracing`.

pub use wharf_model::{
    CallEnd, CallErrorType, CallOutcome, CallRole, CallScope, CallStart, CallState, CurrentTrace,
    NetworkProtocolVersion, ObservedEvent, ObservedServer, ObservedSession, ObservedTask,
    ObservedTransport, Observer, Observers, Refusal, RefusalReason, SPAN_ATTRIBUTES,
    SPAN_CONVENTIONS, SPAN_END_ATTRIBUTES, SessionEnd, SpanAttributeFn, TaskChange, TaskEvent,
    TraceContext, UpstreamChange, hashed_id, is_unprintable, printable, random_id,
};
#[cfg(feature = "server")]
pub use wharf_server::Tracing;
#[cfg(feature = "otel")]
pub use wharf_telemetry::OpenTelemetrySpans;
#[cfg(feature = "logs")]
pub use wharf_telemetry::{LogConfigError, LogFormat, Logs};
#[cfg(feature = "metrics")]
pub use wharf_telemetry::{Metrics, MetricsFormat, MetricsOptions};
#[cfg(feature = "otlp")]
pub use wharf_telemetry::{Otlp, OtlpError, Traces};
