//! Observer that counts calls and events.

mod calls;
pub(crate) mod families;
pub(crate) mod format;
mod gauges;
pub(crate) mod histogram;
pub(crate) mod label_text;
mod process;
mod text;

use std::sync::Arc;

use wharf_model::{
    CallEnd, CallRole, CallStart, CallState, Method, ObservedEvent, Observer, setters,
};

pub(crate) use crate::metrics::text::MetricSink;
use crate::metrics::{
    calls::{CallTable, GroupKey},
    format::MetricsFormat,
    gauges::Gauges,
    histogram::{BOUNDARIES, LOW_BOUNDARIES},
    label_text::LabelText,
    text::TextWriter,
};

/// Metrics of a server or client: add it with `observe`, and render it where Prometheus scrapes. Clones share the
/// values.
///
/// Names of tools, prompts and custom methods become labels only if the server has them, others are `_other`. Each
/// family has at most 500 series; calls beyond them are counted by one series with `otel_metric_overflow="true"`.
///
/// ```
/// # mod wharf { pub mod observe { pub use wharf_telemetry::*; } }
/// use wharf::observe::{Metrics, MetricsFormat};
///
/// let metrics = Metrics::new();
/// let text = metrics.render(MetricsFormat::Prometheus);
/// assert!(text.contains("# TYPE wharf_requests_in_flight gauge\n"));
/// ```
#[derive(Clone, Debug)]
pub struct Metrics(Arc<MetricValues>);

#[derive(Debug)]
struct MetricValues {
    server: CallTable,
    client: CallTable,
    gauges: Gauges,
}

/// Options of [`Metrics`].
///
/// ```
/// # mod wharf { pub mod observe { pub use wharf_telemetry::*; } }
/// use wharf::observe::{Metrics, MetricsOptions};
///
/// let metrics = Metrics::with_options(MetricsOptions::default().low_boundaries(true));
/// # let _ = metrics;
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct MetricsOptions {
    /// Adds four buckets from 100 µs to 5 ms. The boundaries of the conventions begin at 10 ms.
    pub low_boundaries: bool,
    /// Adds the label `mcp_resource_uri`, for resources that the server has. URIs may be confidential.
    pub resource_uris: bool,
}

setters!(MetricsOptions { low_boundaries: bool, resource_uris: bool });

impl Default for Metrics {
    fn default() -> Self {
        Metrics::new()
    }
}

impl Metrics {
    /// Creates metrics with the default options.
    #[must_use]
    pub fn new() -> Self {
        Metrics::with_options(MetricsOptions::default())
    }

    /// Creates metrics with these options.
    #[must_use]
    pub fn with_options(options: MetricsOptions) -> Self {
        let boundaries = if options.low_boundaries { LOW_BOUNDARIES } else { BOUNDARIES };
        let calls = || CallTable::new(boundaries, options.resource_uris);
        let gauges = Gauges::new(boundaries);
        Metrics(Arc::new(MetricValues { server: calls(), client: calls(), gauges }))
    }

    /// Renders all values.
    #[must_use]
    pub fn render(&self, format: MetricsFormat) -> String {
        let mut text = TextWriter::new(format);
        self.collect(&mut text);
        process::render(&mut text);
        text.finish()
    }

    /// Gives all values but those of the process to a format.
    pub(crate) fn collect(&self, sink: &mut dyn MetricSink) {
        let MetricValues { server, client, gauges } = &*self.0;
        server.render("mcp_server_operation_duration_seconds", sink);
        client.render("mcp_client_operation_duration_seconds", sink);
        gauges.render(server.in_flight(), sink);
    }
}

impl Observer for Metrics {
    fn call_started(&self, call: &CallStart<'_>) -> CallState {
        let (number, table) = match call.role() {
            CallRole::Server => (0, &self.0.server),
            CallRole::Client => (CLIENT_BIT, &self.0.client),
            // The call that created the task is counted, and the families of tasks count the task.
            _ => return CallState::Ignored,
        };
        CallState::Token(table.start(call) as u64 | number)
    }

    fn call_ended(&self, token: u64, end: &CallEnd<'_>) {
        let table = if token & CLIENT_BIT == 0 { &self.0.server } else { &self.0.client };
        table.end((token & !CLIENT_BIT) as usize, end);
    }

    fn event(&self, event: &ObservedEvent<'_>) {
        self.0.gauges.count(event);
    }
}

/// Set in the tokens of a client's calls.
const CLIENT_BIT: u64 = 1 << 63;

/// Renders the labels of a call.
fn call_labels(key: &GroupKey<'_>) -> LabelText {
    let mut labels = LabelText::default();
    let method = match key.method {
        Method::Custom => key.target,
        method => key.renamed.unwrap_or_else(|| method.name()),
    };
    labels.add("mcp_method_name", method);
    match key.method {
        Method::CallTool => {
            labels.add("gen_ai_operation_name", "execute_tool");
            labels.add("gen_ai_tool_name", key.target);
        }
        Method::GetPrompt => labels.add("gen_ai_prompt_name", key.target),
        Method::ReadResource => labels.add("mcp_resource_uri", key.target),
        _ => {}
    }
    if let Some(transport) = key.transport {
        labels.add("network_transport", transport.network_transport());
        labels.add("network_protocol_name", transport.network_protocol().unwrap_or_default());
    }
    labels.add("network_protocol_version", key.network_version);
    labels.add("mcp_protocol_version", key.version);
    labels.add("server_address", key.server);
    labels.add("server_port", &key.port.map(|port| port.to_string()).unwrap_or_default());
    labels
}
