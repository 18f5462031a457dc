//! Sets of characters.

use super::property::Property;

/// A class of characters, by ranges or by Unicode property.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CharClass {
    Ranges(&'static [(char, char)]),
    Property(Property),
}

pub(super) const DIGIT: CharClass = CharClass::Ranges(&[('0', '9')]);
pub(super) const WORD: CharClass =
    CharClass::Ranges(&[('0', '9'), ('A', 'Z'), ('_', '_'), ('a', 'z')]);
pub(super) const LINE_END: CharClass =
    CharClass::Ranges(&[('\n', '\n'), ('\r', '\r'), ('\u{2028}', '\u{2029}')]);
pub(super) const SPACE: CharClass = CharClass::Ranges(&[
    ('\t', '\r'),
    (' ', ' '),
    ('\u{A0}', '\u{A0}'),
    ('\u{1680}', '\u{1680}'),
    ('\u{2000}', '\u{200A}'),
    ('\u{2028}', '\u{2029}'),
    ('\u{202F}', '\u{202F}'),
    ('\u{205F}', '\u{205F}'),
    ('\u{3000}', '\u{3000}'),
    ('\u{FEFF}', '\u{FEFF}'),
]);

pub(super) fn is_word(char: char) -> bool {
    char.is_ascii_alphanumeric() || char == '_'
}

/// Number of classes that are tested in one step.
const CLASSES_PER_STEP: usize = 4;

/// A set of characters.
#[derive(Clone, Debug, Default)]
pub(super) struct CharSet {
    /// Sorted, without overlaps.
    pub(super) ranges: Vec<(char, char)>,
    /// Classes; false selects the characters outside of the class.
    pub(super) classes: Vec<(CharClass, bool)>,
    /// True if the set is complemented.
    pub(super) is_negated: bool,
    pub(super) ignores_case: bool,
}

impl CharSet {
    pub(super) fn new(mut ranges: Vec<(char, char)>, mut classes: Vec<(CharClass, bool)>) -> Self {
        classes.sort_unstable();
        classes.dedup();
        ranges.sort_unstable();
        ranges.dedup_by(|next, kept| {
            let overlaps = next.0 <= kept.1;
            if overlaps {
                kept.1 = kept.1.max(next.1);
            }
            overlaps
        });
        CharSet { ranges, classes, ..CharSet::default() }
    }

    /// Characters in a class, or outside of it.
    pub(super) fn of(one: CharClass, has: bool) -> Self {
        CharSet { classes: vec![(one, has)], ..CharSet::default() }
    }

    /// Additional steps for testing a character.
    pub(super) fn cost(&self) -> usize {
        let looks = if self.ignores_case { 3 } else { 1 };
        self.classes.len() * looks / CLASSES_PER_STEP
    }

    /// ASCII characters in the set, as bits; `None` if finding them needs many lookups.
    pub(super) fn ascii(&self) -> Option<u128> {
        if self.ignores_case {
            return None;
        }
        let mut found = ascii_in(&self.ranges);
        for (class, has) in &self.classes {
            let CharClass::Ranges(ranges) = class else { return None };
            let inside = ascii_in(ranges);
            found |= if *has { inside } else { !inside };
        }
        Some(if self.is_negated { !found } else { found })
    }

    pub(super) fn has(&self, char: char) -> bool {
        let is_listed = |char| self.lists(char);
        let listed = is_listed(char)
            || (self.ignores_case
                && (char.to_lowercase().any(is_listed) || char.to_uppercase().any(is_listed)));
        listed != self.is_negated
    }

    fn lists(&self, char: char) -> bool {
        let within = |ranges: &[(char, char)]| {
            let after = ranges.partition_point(|(first, _)| *first <= char);
            after > 0 && char <= ranges[after - 1].1
        };
        let is_so = |(one, wanted): &(CharClass, bool)| match one {
            CharClass::Ranges(ranges) => within(ranges) == *wanted,
            CharClass::Property(property) => property.has(char) == *wanted,
        };
        within(&self.ranges) || self.classes.iter().any(is_so)
    }
}

/// ASCII characters in sorted ranges, as bits.
fn ascii_in(ranges: &[(char, char)]) -> u128 {
    let range = |(first, last): &(char, char)| {
        let (first, last) = (*first as u32, (*last as u32).min(127));
        u128::MAX >> (127 - last) & u128::MAX << first
    };
    ranges.iter().take_while(|(first, _)| first.is_ascii()).map(range).fold(0, |sum, it| sum | it)
}
