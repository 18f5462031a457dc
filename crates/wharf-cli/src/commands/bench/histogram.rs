//! Histogram of times in a fixed amount of memory.

/// Each power of two is divided into 2^`BITS` buckets, so none is wider than 1/128 of its values.
const BITS: u32 = 7;
const BUCKETS_PER_POWER: usize = 1 << BITS;
const BUCKETS: usize = (u64::BITS - BITS) as usize * BUCKETS_PER_POWER + BUCKETS_PER_POWER;

/// Minimum width of a range: a narrower one would show the clock's resolution, not the server.
const MIN_RANGE_FACTOR: f64 = 1.05;

/// Counts values by size. The minimum and maximum are exact, all others within 0.4 %.
#[derive(Clone, Debug)]
pub(super) struct Histogram {
    counts: Box<[u64]>,
    count: u64,
    sum: u128,
    min: u64,
    max: u64,
}

/// Number of values from `from` up to but excluding `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HistogramRange {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) count: u64,
}

impl Histogram {
    pub(super) fn new() -> Self {
        let counts = vec![0; BUCKETS].into_boxed_slice();
        Histogram { counts, count: 0, sum: 0, min: u64::MAX, max: 0 }
    }

    pub(super) fn record(&mut self, value: u64) {
        self.counts[bucket(value)] += 1;
        self.count += 1;
        self.sum += u128::from(value);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// Adds all counts of `other`.
    pub(super) fn add(&mut self, other: &Histogram) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.count += other.count;
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn min(&self) -> u64 {
        if self.count == 0 { 0 } else { self.min }
    }

    pub(super) fn max(&self) -> u64 {
        self.max
    }

    pub(super) fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum as f64 / self.count as f64 }
    }

    /// Value that this share of all values does not exceed.
    pub(super) fn quantile(&self, share: f64) -> u64 {
        let rank = ((share * self.count as f64).ceil() as u64).max(1);
        let mut seen = 0;
        for (at, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return middle(at).clamp(self.min(), self.max);
            }
        }
        self.max
    }

    /// At most `most` ranges over all values, each wider than the previous one by the same factor.
    pub(super) fn ranges(&self, most: usize) -> Vec<HistogramRange> {
        let min = self.min().max(1);
        let end = self.max.max(min).saturating_add(1);
        let factor = (end as f64 / min as f64).powf(1.0 / most as f64).max(MIN_RANGE_FACTOR);
        let bound = |row: usize| match row {
            row if row == most => end,
            row => ((min as f64 * factor.powi(row as i32)) as u64).clamp(min, end),
        };
        let mut ranges: Vec<HistogramRange> = (0..most)
            .map(|row| HistogramRange { from: bound(row), to: bound(row + 1), count: 0 })
            .filter(|range| range.from < range.to)
            .collect();
        for (at, count) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let value = middle(at);
            let last = ranges.len().saturating_sub(1);
            let row = ranges.iter().position(|range| value < range.to).unwrap_or(last);
            if let Some(range) = ranges.get_mut(row) {
                range.count += count;
            }
        }
        ranges
    }
}

/// Bucket index of a value. The first 256 values have one each.
fn bucket(value: u64) -> usize {
    let dropped = (u64::BITS - value.leading_zeros()).saturating_sub(BITS + 1);
    dropped as usize * BUCKETS_PER_POWER + (value >> dropped) as usize
}

/// Middle value of a bucket.
fn middle(bucket: usize) -> u64 {
    let dropped = (bucket / BUCKETS_PER_POWER).saturating_sub(1);
    let least = ((bucket - dropped * BUCKETS_PER_POWER) as u64) << dropped;
    least + ((1_u64 << dropped) - 1) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: impl IntoIterator<Item = u64>) -> Histogram {
        let mut histogram = Histogram::new();
        values.into_iter().for_each(|value| histogram.record(value));
        histogram
    }

    #[test]
    fn bucket_values_are_exact_to_half_a_percent() {
        let powers = (0..64).map(|power| 1_u64 << power);
        for value in powers.flat_map(|power| [power - 1, power, power + power / 3]) {
            let back = middle(bucket(value));
            assert!(back.abs_diff(value) as f64 <= value as f64 * 0.004, "{value} became {back}");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn buckets_are_contiguous() {
        let buckets: Vec<usize> = (0..100_000).map(bucket).collect();
        assert!(buckets.windows(2).all(|pair| pair[1] == pair[0] || pair[1] == pair[0] + 1));
    }

    #[test]
    fn quantiles_are_accurate() {
        let histogram = of(1..=10_000);
        for (share, expected) in [(0.5, 5_000.0), (0.9, 9_000.0), (0.99, 9_900.0), (0.999, 9_990.0)]
        {
            let found = histogram.quantile(share) as f64;
            assert!((found - expected).abs() <= expected * 0.005, "{share}: {found}");
        }
        assert_eq!((histogram.min(), histogram.max(), histogram.mean()), (1, 10_000, 5_000.5));
        assert_eq!((histogram.quantile(0.0), histogram.quantile(1.0)), (1, 10_000));
        let one = of([777_777]);
        assert_eq!((one.quantile(0.5), one.quantile(0.999)), (777_777, 777_777));
    }

    #[test]
    fn merged_histograms_equal_the_whole() {
        let mut parts = of(1..=500);
        parts.add(&of(501..=1000));
        parts.add(&Histogram::new());
        let whole = of(1..=1000);
        assert_eq!((parts.count(), parts.min(), parts.max()), (1000, 1, 1000));
        assert_eq!((parts.mean(), parts.quantile(0.9)), (whole.mean(), whole.quantile(0.9)));
    }

    #[test]
    fn ranges_cover_every_value() {
        for values in [vec![0], vec![5], vec![1, 1_000_000], (1..=10_000).collect(), vec![1 << 55]]
        {
            let ranges = of(values.iter().copied()).ranges(16);
            assert!(ranges.len() <= 16, "{ranges:?}");
            let held: u64 = ranges.iter().map(|range| range.count).sum();
            assert_eq!(held, values.len() as u64, "{ranges:?}");
            assert!(ranges.windows(2).all(|pair| pair[0].to == pair[1].from), "{ranges:?}");
        }
        assert!(Histogram::new().ranges(16).iter().all(|range| range.count == 0));
    }

    #[test]
    fn an_empty_histogram_is_zero() {
        let none = Histogram::new();
        assert_eq!((none.count(), none.min(), none.max(), none.quantile(0.5)), (0, 0, 0, 0));
    }
}
