//! Seeded random numbers.

use std::{ops::Range, time::Duration};

/// Random numbers from a seed (splitmix64).
#[derive(Clone, Debug)]
pub struct SeededRandom(u64);

impl SeededRandom {
    /// The numbers of this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        SeededRandom(seed)
    }

    /// Separate numbers from the same seed, for this name.
    #[must_use]
    pub fn of(seed: u64, name: &str) -> Self {
        let mixed = name.bytes().fold(seed, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3).rotate_left(29)
        });
        SeededRandom(mixed)
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, which must not be 0.
    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.number() % end as u64).unwrap_or(0)
    }

    /// True with this probability in percent.
    pub fn percent(&mut self, chance: usize) -> bool {
        self.below(100) < chance
    }

    /// A random item.
    pub fn pick<'a, T>(&mut self, among: &'a [T]) -> &'a T {
        &among[self.below(among.len())]
    }

    /// A random number of milliseconds.
    pub fn millis(&mut self, range: Range<u64>) -> Duration {
        Duration::from_millis(range.start + self.number() % (range.end - range.start).max(1))
    }

    /// A number from 0 to 1.
    pub fn fraction(&mut self) -> f64 {
        f64::from(u32::try_from(self.number() >> 32).unwrap_or(0)) / f64::from(u32::MAX)
    }
}
