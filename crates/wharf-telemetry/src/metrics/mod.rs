//! Observer that counts calls and events.

mod calls;
pub(crate) mod families;
mod gauges;
pub(crate) mod histogram;
pub(crate) mod labels;
mod process;
mod text;

use std::sync::Arc;

use wharf_model::{CallEnd, CallRole, CallStart, CallState, ObservedEvent, Observer};

pub(crate) use crate::metrics::text::MetricSink;
use crate::metrics::{
    calls::{CallTable, GroupKey},
    gauges::Gauges,
    histogram::{BOUNDARIES, LOW_BOUNDARIES},
    labels::LabelText,
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

/// Text format of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricsFormat {
    /// Prometheus text format 0.0.4.
    Prometheus,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl MetricsFormat {
    /// Chooses the format by the header `Accept`.
    ///
    /// ```
    /// # mod wharf { pub mod observe { pub use wharf_telemetry::*; } }
    /// use wharf::observe::MetricsFormat;
    ///
    /// let accept = "application/openmetrics-text;version=1.0.0,text/plain;q=0.5";
    /// assert_eq!(MetricsFormat::accepted(accept), MetricsFormat::OpenMetrics);
    /// assert_eq!(MetricsFormat::accepted("*/*"), MetricsFormat::Prometheus);
    /// ```
    #[must_use]
    pub fn accepted(accept: &str) -> MetricsFormat {
        let is_open = |range: &str| {
            let mut parts = range.split(';').map(str::trim);
            let named = parts
                .next()
                .is_some_and(|it| it.eq_ignore_ascii_case("application/openmetrics-text"));
            named
                && parts.all(|parameter| match parameter.split_once('=') {
                    Some(("q", weight)) => weight.parse().is_ok_and(|weight: f32| weight > 0.0),
                    Some(("version", version)) => matches!(version, "1.0.0" | "0.0.1"),
                    _ => true,
                })
        };
        match accept.split(',').any(is_open) {
            true => MetricsFormat::OpenMetrics,
            false => MetricsFormat::Prometheus,
        }
    }

    /// Returns the header `Content-Type`.
    #[must_use]
    pub fn content_type(self) -> &'static str {
        match self {
            MetricsFormat::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            MetricsFormat::OpenMetrics => {
                "application/openmetrics-text; version=1.0.0; charset=utf-8"
            }
        }
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Metrics::new()
    }
}

impl Metrics {
    /// Creates metrics with the bucket boundaries of the conventions, which begin at 10 ms.
    #[must_use]
    pub fn new() -> Self {
        Metrics::with_boundaries(BOUNDARIES)
    }

    /// Creates metrics whose histograms have four more buckets, from 100 µs to 5 ms.
    #[must_use]
    pub fn with_low_boundaries() -> Self {
        Metrics::with_boundaries(LOW_BOUNDARIES)
    }

    fn with_boundaries(boundaries: &'static [f64]) -> Self {
        Metrics(Arc::new(MetricValues {
            server: CallTable::new(boundaries),
            client: CallTable::new(boundaries),
            gauges: Gauges::new(boundaries),
        }))
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
            // Tasks have metrics of their own.
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
    let method = key.method.name();
    let is_known_method = key.method != wharf_model::Method::Custom;
    labels
        .add("mcp_method_name", if is_known_method { key.method_name(method) } else { key.target });
    let target = match key.method {
        wharf_model::Method::CallTool => "gen_ai_tool_name",
        wharf_model::Method::GetPrompt => "gen_ai_prompt_name",
        _ => "",
    };
    if !target.is_empty() {
        labels.add(target, key.target);
    }
    if let Some(transport) = key.transport {
        labels.add("network_transport", transport.network_transport());
        labels.add("network_protocol_name", transport.network_protocol().unwrap_or_default());
    }
    labels.add("mcp_protocol_version", key.version);
    labels.add("server_address", key.server);
    labels
}
