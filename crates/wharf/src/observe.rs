//! Observability: [`Observer`]s receive the calls and the events of a server or a client.
//!
//! Add them with [`Server::observe`](crate::Server::observe) and
//! [`ClientBuilder::observe`](crate::client::ClientBuilder::observe). Every server has [`Tracing`],
//! which writes spans and log lines through the crate `tracing`.

pub use wharf_model::{
    CallEnd, CallErrorType, CallOutcome, CallRole, CallScope, CallStart, CallState,
    NetworkProtocolVersion, ObservedEvent, ObservedServer, ObservedSession, ObservedTask,
    ObservedTransport, Observer, Observers, Refusal, RefusalReason, SessionEnd, TaskChange,
    TaskEvent, TraceContext, UpstreamChange,
};
#[cfg(feature = "server")]
pub use wharf_server::Tracing;
#[cfg(feature = "logs")]
pub use wharf_telemetry::{LogConfigError, LogFormat, Logs};
#[cfg(feature = "metrics")]
pub use wharf_telemetry::{Metrics, MetricsFormat, MetricsOptions};
