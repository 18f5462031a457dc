//! Histogram of durations.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// Bucket boundaries of the conventions, in seconds.
pub(crate) const BOUNDARIES: &[f64] =
    &[0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];

/// The same with boundaries for calls below 10 ms.
pub(crate) const LOW_BOUNDARIES: &[f64] = &[
    0.0001, 0.0005, 0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0,
    120.0, 300.0,
];

#[derive(Debug)]
pub(crate) struct Histogram {
    boundaries: &'static [f64],
    /// One for each boundary, and one for longer durations.
    buckets: Box<[AtomicU64]>,
    nanoseconds: AtomicU64,
}

/// Values of a histogram at one time.
pub(crate) struct HistogramValues {
    /// Boundaries with the number of durations up to each.
    pub(crate) buckets: Vec<(f64, u64)>,
    pub(crate) count: u64,
    pub(crate) seconds: f64,
}

impl Histogram {
    pub(crate) fn new(boundaries: &'static [f64]) -> Self {
        let buckets = (0..=boundaries.len()).map(|_| AtomicU64::new(0)).collect();
        Histogram { boundaries, buckets, nanoseconds: AtomicU64::new(0) }
    }

    pub(crate) fn record(&self, elapsed: Duration) {
        let seconds = elapsed.as_secs_f64();
        // Most calls are in the first buckets.
        let bucket = self.boundaries.iter().position(|boundary| seconds <= *boundary);
        let bucket = bucket.unwrap_or(self.boundaries.len());
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        let nanoseconds = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        self.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
    }

    pub(crate) fn values(&self) -> HistogramValues {
        let mut count = 0;
        let mut up_to = |bucket: &AtomicU64| {
            count += bucket.load(Ordering::Relaxed);
            count
        };
        let buckets: Vec<_> =
            self.boundaries.iter().copied().zip(self.buckets.iter().map(&mut up_to)).collect();
        let longer = self.buckets.last().map_or(0, |bucket| bucket.load(Ordering::Relaxed));
        let count = buckets.last().map_or(0, |it| it.1) + longer;
        let seconds = self.nanoseconds.load(Ordering::Relaxed) as f64 / 1e9;
        HistogramValues { buckets, count, seconds }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_at_a_boundary_is_in_its_bucket() {
        let histogram = Histogram::new(BOUNDARIES);
        for millis in [10, 11, 300_000, 300_001] {
            histogram.record(Duration::from_millis(millis));
        }
        let values = histogram.values();
        assert_eq!(values.buckets[..2], [(0.01, 1), (0.02, 2)]);
        assert_eq!((values.buckets[13], values.count), ((300.0, 3), 4));
        assert!((values.seconds - 600.022).abs() < 1e-9);
    }
}
