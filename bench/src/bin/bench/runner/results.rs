//! Results of the rounds, and their medians and ratios.

use bench::load::Sample;

use super::figures::Figure;

/// Results of one workload.
pub(crate) struct Outcome {
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) figures: &'static [Figure],
    pub(crate) entries: Vec<Entry>,
}

/// Results of one server for one workload.
pub(crate) struct Entry {
    pub(crate) server: &'static str,
    pub(crate) rounds: Vec<Sample>,
    /// Error, if there is no result.
    pub(crate) error: Option<String>,
}

impl Entry {
    pub(crate) fn new(server: &'static str) -> Self {
        Entry { server, rounds: Vec::new(), error: None }
    }

    pub(crate) fn failed(self, why: String) -> Self {
        Entry { error: Some(why), ..self }
    }

    /// Median of a figure over the rounds.
    pub(crate) fn median(&self, key: &str) -> Option<f64> {
        if self.error.is_some() {
            return None;
        }
        median(self.rounds.iter().filter_map(|round| round.get(key).copied()))
    }

    /// Share of its core that the server used.
    pub(crate) fn share(&self) -> Option<f64> {
        let microseconds = self.median("cpu_us")? * self.median("calls_per_second")?;
        Some(microseconds / 1e6)
    }

    /// Medians of all figures.
    pub(crate) fn medians(&self) -> impl Iterator<Item = (&'static str, f64)> {
        let keys = self.rounds.first().into_iter().flat_map(Sample::keys);
        keys.filter_map(|key| Some((*key, self.median(key)?)))
    }
}

impl Outcome {
    pub(crate) fn entry(&self, server: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.server == server)
    }

    pub(crate) fn median(&self, figure: Figure, server: &str) -> Option<f64> {
        self.entry(server)?.median(figure.key())
    }

    /// Ratio of a figure between two servers: the median of the ratios of each round, because the noise of a
    /// round affects both servers.
    pub(crate) fn ratio(&self, figure: Figure, server: &str, other: &str) -> Option<f64> {
        let (server, other) = (self.entry(server)?, self.entry(other)?);
        if server.error.is_some() || other.error.is_some() {
            return None;
        }
        let pairs = server.rounds.iter().zip(&other.rounds);
        let ratios = pairs.filter_map(|(one, two)| {
            let ratio = one.get(figure.key())? / two.get(figure.key())?;
            ratio.is_finite().then_some(ratio)
        });
        median(ratios)
    }
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let (last, middle) = (values.len().checked_sub(1)?, values.len() / 2);
    Some((values[last / 2] + values[middle]) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_lies_between_the_two_in_the_middle() {
        assert_eq!(median([3.0, 1.0, 2.0].into_iter()), Some(2.0));
        assert_eq!(median([4.0, 1.0, 2.0, 3.0].into_iter()), Some(2.5));
        assert_eq!(median([].into_iter()), None);
    }
}
