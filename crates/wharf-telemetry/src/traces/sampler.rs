//! Samplers: which traces are recorded (`OTEL_TRACES_SAMPLER`).

use wharf_model::TraceContext;

/// Decision about a trace that begins here.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sampler {
    /// Traces are recorded if the lower half of their id, without its last bit, is below this.
    bound: u64,
    /// The decision of the caller is followed, if it made one.
    follows_parent: bool,
}

/// Names, with the ratio if it is not the argument.
const NAMES: [(&str, Option<f64>, bool); 6] = [
    ("always_on", Some(1.0), false),
    ("always_off", Some(0.0), false),
    ("traceidratio", None, false),
    ("parentbased_always_on", Some(1.0), true),
    ("parentbased_always_off", Some(0.0), true),
    ("parentbased_traceidratio", None, true),
];

impl Sampler {
    /// Records this share of the traces that begin here, and those that the caller records.
    pub(crate) fn ratio(ratio: f64) -> Sampler {
        Sampler { bound: bound(ratio), follows_parent: true }
    }

    /// Returns the sampler with this name, or all names.
    pub(crate) fn named(name: &str, argument: f64) -> Result<Sampler, String> {
        match NAMES.iter().find(|it| it.0 == name) {
            Some((_, ratio, follows_parent)) => Ok(Sampler {
                bound: bound(ratio.unwrap_or(argument)),
                follows_parent: *follows_parent,
            }),
            None => Err(NAMES.map(|it| it.0).join(", ")),
        }
    }

    /// Decides about a call within a trace of its caller.
    pub(crate) fn samples_child(self, parent: &TraceContext) -> bool {
        match self.follows_parent {
            true => parent.is_sampled(),
            false => self.samples(parent.trace_id() as u64),
        }
    }

    /// Returns whether callers may have more traces recorded than the ratio that was set.
    pub(crate) fn lets_callers_exceed_the_ratio(self) -> bool {
        self.follows_parent && self.bound < bound(1.0)
    }

    /// Decides by the lower half of a trace id.
    pub(crate) fn samples(self, random: u64) -> bool {
        random >> 1 < self.bound
    }
}

fn bound(ratio: f64) -> u64 {
    (ratio.clamp(0.0, 1.0) * (1_u64 << 63) as f64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_records_its_share_and_the_caller_decides_first() {
        let named = |name| Sampler::named(name, 0.25).unwrap();
        let ids = (0..1000).map(|it: u64| it * (u64::MAX / 1000));
        assert_eq!(ids.clone().filter(|id| named("traceidratio").samples(*id)).count(), 251);
        assert_eq!(ids.clone().filter(|id| named("always_on").samples(*id)).count(), 1000);
        assert_eq!(ids.filter(|id| named("parentbased_always_off").samples(*id)).count(), 0);
        let parent = |is_sampled| TraceContext::new(u128::from(u64::MAX), 1, is_sampled);
        for (name, of_sampled, of_others) in [
            ("parentbased_traceidratio", true, false),
            ("parentbased_always_off", true, false),
            ("traceidratio", false, false),
            ("always_on", true, true),
            ("always_off", false, false),
        ] {
            let decisions = [true, false].map(|it| named(name).samples_child(&parent(it)));
            assert_eq!(decisions, [of_sampled, of_others], "{name}");
            let is_open = name.starts_with("parentbased_");
            assert_eq!(named(name).lets_callers_exceed_the_ratio(), is_open, "{name}");
        }
    }
}
