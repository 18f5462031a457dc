//! Writes the text formats.

use std::fmt::Write as _;

use crate::{
    MetricsFormat,
    metrics::{
        families::{METRIC_FAMILIES, MetricKind},
        histogram::HistogramValues,
        label_text::LabelText,
    },
};

/// Receives the values of all metrics: a text format, or the messages of OTLP.
pub(crate) trait MetricSink {
    /// Begins the family `name` of the table. One without samples is omitted.
    fn family(&mut self, name: &str);
    /// Receives a value of a counter or gauge.
    fn sample(&mut self, name: &str, labels: &LabelText, value: f64);
    /// Receives a histogram. One without durations is omitted.
    fn histogram(&mut self, name: &str, labels: &LabelText, values: &HistogramValues);
}

pub(crate) struct TextWriter {
    format: MetricsFormat,
    out: String,
    /// Family without samples so far.
    begun: Option<String>,
}

impl TextWriter {
    pub(crate) fn new(format: MetricsFormat) -> Self {
        TextWriter { format, out: String::new(), begun: None }
    }
}

impl MetricSink for TextWriter {
    fn family(&mut self, name: &str) {
        self.begun = Some(name.to_owned());
    }

    fn sample(&mut self, name: &str, labels: &LabelText, value: f64) {
        self.line(name, "", &labels.0, "", value);
    }

    fn histogram(&mut self, name: &str, labels: &LabelText, values: &HistogramValues) {
        if values.count == 0 {
            return;
        }
        for (boundary, count) in &values.buckets {
            let boundary = match self.format {
                MetricsFormat::Prometheus => format!("le=\"{boundary}\""),
                MetricsFormat::OpenMetrics => format!("le=\"{boundary:?}\""),
            };
            self.line(name, "_bucket", &labels.0, &boundary, *count as f64);
        }
        self.line(name, "_bucket", &labels.0, "le=\"+Inf\"", values.count as f64);
        self.line(name, "_sum", &labels.0, "", values.seconds);
        self.line(name, "_count", &labels.0, "", values.count as f64);
    }
}

impl TextWriter {
    fn header(&mut self, name: &str) {
        let Some((_, kind, unit, help)) = METRIC_FAMILIES.iter().find(|it| it.0 == name) else {
            debug_assert!(false, "{name} is not in the table");
            return;
        };
        let is_open = self.format == MetricsFormat::OpenMetrics;
        // OpenMetrics names the family, which the suffix of a counter's samples is no part of.
        let family = match (is_open, kind) {
            (true, MetricKind::Counter) => name.strip_suffix("_total").unwrap_or(name),
            _ => name,
        };
        let _ = writeln!(self.out, "# HELP {family} {help}");
        let _ = writeln!(self.out, "# TYPE {family} {}", kind.name());
        if is_open && !unit.is_empty() {
            let _ = writeln!(self.out, "# UNIT {family} {unit}");
        }
    }

    fn line(&mut self, name: &str, suffix: &str, labels: &str, more: &str, value: f64) {
        if let Some(family) = self.begun.take() {
            self.header(&family);
        }
        let _ = write!(self.out, "{name}{suffix}");
        let comma = if labels.is_empty() || more.is_empty() { "" } else { "," };
        if !labels.is_empty() || !more.is_empty() {
            let _ = write!(self.out, "{{{labels}{comma}{more}}}");
        }
        let _ = writeln!(self.out, " {value}");
    }

    pub(crate) fn finish(mut self) -> String {
        if self.format == MetricsFormat::OpenMetrics {
            self.out.push_str("# EOF\n");
        }
        self.out
    }
}
