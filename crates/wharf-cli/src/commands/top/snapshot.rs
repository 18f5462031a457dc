//! Values of one scrape.

use std::collections::BTreeMap;

use tokio::time::Instant;

use super::exposition::{MetricSample, samples};

/// Side and method of calls, and their target: a tool or a prompt.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CallKey {
    pub(super) role: &'static str,
    pub(super) method: String,
    pub(super) target: String,
}

/// Calls since the start of the server.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct CallTotals {
    pub(super) calls: f64,
    pub(super) errors: f64,
    pub(super) seconds: f64,
    /// Number of calls up to each upper boundary, by the bits of the boundary: they are positive, so their order is that of
    /// the numbers.
    pub(super) buckets: BTreeMap<u64, f64>,
}

impl CallTotals {
    /// Returns the calls since `before`; all of them if the server was started again meanwhile.
    pub(super) fn since(&self, before: Option<&CallTotals>) -> CallTotals {
        let Some(before) = before.filter(|before| before.calls <= self.calls) else {
            return self.clone();
        };
        let earlier = |bound: &u64| before.buckets.get(bound).copied().unwrap_or_default();
        let bucket = |(bound, count): (&u64, &f64)| (*bound, (count - earlier(bound)).max(0.0));
        CallTotals {
            calls: self.calls - before.calls,
            errors: (self.errors - before.errors).max(0.0),
            seconds: (self.seconds - before.seconds).max(0.0),
            buckets: self.buckets.iter().map(bucket).collect(),
        }
    }

    pub(super) fn add(&mut self, other: &CallTotals) {
        self.calls += other.calls;
        self.errors += other.errors;
        self.seconds += other.seconds;
        for (bound, count) in &other.buckets {
            *self.buckets.entry(*bound).or_default() += count;
        }
    }

    /// Returns the upper boundary of the bucket with this share of the calls: infinite in the last one, `None` without
    /// calls.
    pub(super) fn quantile(&self, share: f64) -> Option<f64> {
        let wanted = self.calls * share;
        let mut buckets = self.buckets.iter().map(|(bound, count)| (f64::from_bits(*bound), count));
        buckets.find(|bucket| self.calls > 0.0 && *bucket.1 >= wanted).map(|bucket| bucket.0)
    }

    /// Returns the mean duration in seconds.
    pub(super) fn mean(&self) -> Option<f64> {
        (self.calls > 0.0).then(|| self.seconds / self.calls)
    }
}

/// Values of one scrape.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub(super) taken: Instant,
    pub(super) calls: BTreeMap<CallKey, CallTotals>,
    samples: Vec<MetricSample>,
}

/// Families of calls, with the side that counts them.
const CALL_FAMILIES: [(&str, &str); 2] = [
    ("mcp_server_operation_duration_seconds", "server"),
    ("mcp_client_operation_duration_seconds", "client"),
];

impl Snapshot {
    /// Parses a page; `None` if it is not that of a Wharf server.
    pub(super) fn parse(page: &str, taken: Instant) -> Option<Snapshot> {
        let samples = samples(page);
        samples.iter().find(|it| it.name == "wharf_build_info")?;
        let mut calls = BTreeMap::<CallKey, CallTotals>::new();
        for (family, role) in CALL_FAMILIES {
            for sample in &samples {
                let Some(part) = sample.name.strip_prefix(family) else { continue };
                let totals = calls.entry(key(role, sample)).or_default();
                match part {
                    "_count" => {
                        totals.calls += sample.value;
                        if !sample.label("error_type").is_empty() {
                            totals.errors += sample.value;
                        }
                    }
                    "_sum" => totals.seconds += sample.value,
                    _ => {
                        let bound: f64 = sample.label("le").parse().unwrap_or(f64::INFINITY);
                        *totals.buckets.entry(bound.to_bits()).or_default() += sample.value;
                    }
                }
            }
        }
        Some(Snapshot { taken, calls, samples })
    }

    /// Returns the sum of a family over all labels.
    pub(super) fn sum(&self, name: &str) -> f64 {
        self.samples.iter().filter(|it| it.name == name).map(|it| it.value).sum()
    }

    /// Returns the values of a family by one of its labels.
    pub(super) fn by_label(&self, name: &str, label: &str) -> BTreeMap<String, f64> {
        let family = self.samples.iter().filter(|it| it.name == name);
        family.map(|it| (it.label(label).to_owned(), it.value)).collect()
    }

    /// Returns the version of the server.
    pub(super) fn version(&self) -> String {
        let info = self.samples.iter().find(|it| it.name == "wharf_build_info");
        info.map(|it| it.label("version").to_owned()).unwrap_or_default()
    }
}

fn key(role: &'static str, sample: &MetricSample) -> CallKey {
    let targets = ["gen_ai_tool_name", "gen_ai_prompt_name"].map(|name| sample.label(name));
    let is_overflow = !sample.label("otel_metric_overflow").is_empty();
    let method = if is_overflow { "(other)" } else { sample.label("mcp_method_name") };
    CallKey { role, method: method.to_owned(), target: targets.concat() }
}
