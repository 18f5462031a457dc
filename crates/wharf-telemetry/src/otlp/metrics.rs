//! Metrics as messages of OTLP.

use std::time::SystemTime;

use wharf_model::{SPAN_ATTRIBUTES, SPAN_END_ATTRIBUTES};

use crate::{
    metrics::{
        MetricSink,
        families::{METRIC_FAMILIES, MetricKind},
        histogram::HistogramValues,
        label_text::LabelText,
    },
    otlp::{
        message::{Field, Message, MessageValue, field, fixed, message, messages, text},
        spans::{OVERFLOW, attribute, nanoseconds, resource_field, scope},
    },
};

/// Number of cumulative values, which count from the start of the process.
const CUMULATIVE: u32 = 2;

/// Collects metrics for a request.
pub(crate) struct MetricMessages {
    start: u64,
    now: u64,
    metrics: Vec<Message>,
    family: Option<(&'static str, MetricKind, &'static str, &'static str)>,
    points: Vec<Message>,
}

impl MetricMessages {
    /// Collects values that were counted since `start`.
    pub(crate) fn since(start: SystemTime) -> Self {
        let (start, now) = (nanoseconds(start), nanoseconds(SystemTime::now()));
        MetricMessages { start, now, metrics: Vec::new(), family: None, points: Vec::new() }
    }

    /// Returns the request that exports the metrics.
    pub(crate) fn export_request(mut self, resource: &[(String, String)]) -> Message {
        self.end_family();
        let scope_metrics =
            vec![message(1, "scope", scope()), messages(2, "metrics", self.metrics)];
        let resource_metrics =
            vec![resource_field(resource), messages(2, "scopeMetrics", vec![scope_metrics])];
        vec![messages(1, "resourceMetrics", vec![resource_metrics])]
    }

    fn end_family(&mut self) {
        let points = std::mem::take(&mut self.points);
        let Some((name, kind, unit, help)) = self.family.take().filter(|_| !points.is_empty())
        else {
            return;
        };
        let points = messages(1, "dataPoints", points);
        let temporality = || field(2, "aggregationTemporality", MessageValue::Number(CUMULATIVE));
        let data = match kind {
            MetricKind::Gauge => message(5, "gauge", vec![points]),
            MetricKind::Counter => {
                let monotonic = field(3, "isMonotonic", MessageValue::Boolean(true));
                message(7, "sum", vec![points, temporality(), monotonic])
            }
            MetricKind::Histogram => message(9, "histogram", vec![points, temporality()]),
        };
        let unit = match unit {
            "seconds" => "s",
            "bytes" => "By",
            other => other,
        };
        self.metrics.push(vec![
            text(1, "name", otlp_name(name)),
            text(2, "description", help),
            text(3, "unit", unit),
            data,
        ]);
    }

    fn times(&self) -> [Field; 2] {
        [fixed(2, "startTimeUnixNano", self.start), fixed(3, "timeUnixNano", self.now)]
    }
}

impl MetricSink for MetricMessages {
    fn family(&mut self, name: &str) {
        self.end_family();
        self.family = METRIC_FAMILIES.iter().find(|it| it.0 == name).copied();
    }

    fn sample(&mut self, _: &str, labels: &LabelText, value: f64) {
        let mut point: Message = self.times().into();
        point.push(field(4, "asDouble", MessageValue::Double(value)));
        point.push(messages(7, "attributes", attributes(labels)));
        self.points.push(point);
    }

    fn histogram(&mut self, _: &str, labels: &LabelText, values: &HistogramValues) {
        if values.count == 0 {
            return;
        }
        let mut before = 0;
        let up_to = values.buckets.iter().map(|it| it.1).chain([values.count]);
        let counts = up_to.map(|count| count - std::mem::replace(&mut before, count)).collect();
        let bounds = values.buckets.iter().map(|it| it.0).collect();
        let mut point: Message = self.times().into();
        point.extend([
            fixed(4, "count", values.count),
            field(5, "sum", MessageValue::Double(values.seconds)),
            field(6, "bucketCounts", MessageValue::FixedList(counts)),
            field(7, "explicitBounds", MessageValue::DoubleList(bounds)),
            messages(9, "attributes", attributes(labels)),
        ]);
        self.points.push(point);
    }
}

/// Returns the OpenTelemetry name of a metric. Names of the conventions (`mcp_`) get dots and lose their unit; Wharf's own
/// names stay.
fn otlp_name(name: &str) -> String {
    match name.strip_prefix("mcp_") {
        Some(_) => name.strip_suffix("_seconds").unwrap_or(name).replace('_', "."),
        None => name.to_owned(),
    }
}

fn attributes(labels: &LabelText) -> Vec<Message> {
    labels
        .parse()
        .into_iter()
        .map(|(name, value)| attribute(&attribute_name(&name), value))
        .collect()
}

/// Returns the OpenTelemetry attribute for a Prometheus label.
fn attribute_name(label: &str) -> String {
    let names = SPAN_ATTRIBUTES.iter().map(|it| it.0);
    let mut names = names.chain(SPAN_END_ATTRIBUTES).chain([OVERFLOW]);
    names.find(|name| name.replace('.', "_") == label).unwrap_or(label).to_owned()
}
