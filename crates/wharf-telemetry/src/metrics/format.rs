//! Text formats of metrics, and their choice by `Accept`.

/// Text format of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MetricsFormat {
    /// Prometheus text format 0.0.4.
    Prometheus,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

/// Media types with the versions that are written, and their formats. Without a version any is welcome.
const MEDIA_TYPES: [(&str, &str, MetricsFormat); 4] = [
    ("application/openmetrics-text", "1.0.0", MetricsFormat::OpenMetrics),
    ("text/plain", "0.0.4", MetricsFormat::Prometheus),
    ("text/*", "", MetricsFormat::Prometheus),
    ("*/*", "", MetricsFormat::Prometheus),
];

impl MetricsFormat {
    /// Chooses the format that the header `Accept` prefers, or the Prometheus text format. Several headers are one,
    /// joined by commas.
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
        let ranges = accept.split(',').filter_map(accepted_range);
        // Of equal weights the first one counts.
        let best = ranges.reduce(|best, next| if next.0 > best.0 { next } else { best });
        best.map_or(MetricsFormat::Prometheus, |it| it.1)
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

/// Returns weight and format of a media range; `None` if it is not written here, or not acceptable.
fn accepted_range(range: &str) -> Option<(f32, MetricsFormat)> {
    let mut parts = range.split(';').map(str::trim);
    let media_type = parts.next()?;
    let (_, written, format) =
        MEDIA_TYPES.iter().find(|it| it.0.eq_ignore_ascii_case(media_type))?;
    let (mut weight, mut version) = (1.0, *written);
    for (name, value) in parts.filter_map(|parameter| parameter.split_once('=')) {
        match name.trim().to_ascii_lowercase().as_str() {
            "q" => weight = value.trim().parse().ok()?,
            "version" => version = value.trim().trim_matches('"'),
            _ => {}
        }
    }
    (weight > 0.0 && version == *written).then_some((weight, *format))
}

#[cfg(test)]
mod tests {
    use super::MetricsFormat::{self, OpenMetrics, Prometheus};

    #[test]
    fn the_preferred_format_is_chosen() {
        let prometheus_3 = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
             application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;q=0.4,\
             text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        for (accept, expected) in [
            ("", Prometheus),
            ("application/json", Prometheus),
            (prometheus_3, OpenMetrics),
            ("application/openmetrics-text", OpenMetrics),
            ("Application/OpenMetrics-Text; Version=\"1.0.0\"", OpenMetrics),
            ("application/openmetrics-text; version=0.0.1", Prometheus),
            ("application/openmetrics-text;q=0", Prometheus),
            ("application/openmetrics-text;q=0.4, text/plain;q=0.5", Prometheus),
            ("text/plain;q=0.4, application/openmetrics-text;q=0.5", OpenMetrics),
            ("text/plain;version=1.0.0, application/openmetrics-text;q=0.1", OpenMetrics),
            ("*/*, application/openmetrics-text;q=0.9", Prometheus),
            ("application/openmetrics-text;q=x", Prometheus),
        ] {
            assert_eq!(MetricsFormat::accepted(accept), expected, "{accept}");
        }
    }
}
