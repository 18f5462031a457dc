//! Sets of characters.

/// What is special about a character.
#[derive(Clone, Copy, Debug)]
pub(super) enum Trait {
    Ranges(&'static [(char, char)]),
    Property(Has),
}

impl Trait {
    fn is(self, other: Trait) -> bool {
        match (self, other) {
            (Trait::Ranges(one), Trait::Ranges(other)) => one == other,
            (Trait::Property(one), Trait::Property(other)) => std::ptr::fn_addr_eq(one, other),
            _ => false,
        }
    }
}

pub(super) const DIGIT: Trait = Trait::Ranges(&[('0', '9')]);
pub(super) const WORD: Trait = Trait::Ranges(&[('0', '9'), ('A', 'Z'), ('_', '_'), ('a', 'z')]);
pub(super) const LINE_END: Trait =
    Trait::Ranges(&[('\n', '\n'), ('\r', '\r'), ('\u{2028}', '\u{2029}')]);
pub(super) const SPACE: Trait = Trait::Ranges(&[
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

/// Whether a character has a property.
type Has = fn(char) -> bool;

/// The properties that the standard library knows: `\p{L}` and `\p{Nd}` take a few characters
/// more than Unicode says.
const PROPERTIES: [(&[&str], Has); 8] = [
    (&["L", "Letter", "Alphabetic", "Alpha"], char::is_alphabetic),
    (&["Lu", "Uppercase_Letter", "Uppercase"], char::is_uppercase),
    (&["Ll", "Lowercase_Letter", "Lowercase"], char::is_lowercase),
    (&["N", "Number", "Nd", "Decimal_Number", "digit"], char::is_numeric),
    (&["White_Space", "space"], char::is_whitespace),
    (&["Z", "Separator", "Zs", "Space_Separator"], |it| it.is_whitespace() && !it.is_control()),
    (&["Cc", "Control"], char::is_control),
    (&["ASCII"], |it| it.is_ascii()),
];

/// The property with this name.
pub(super) fn property(name: &str) -> Option<Trait> {
    let prefixes = ["gc=", "General_Category="];
    let bare = prefixes.iter().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(name);
    let found = PROPERTIES.iter().find(|(names, _)| names.contains(&bare));
    found.map(|(_, has)| Trait::Property(*has))
}

pub(super) fn is_word(char: char) -> bool {
    char.is_ascii_alphanumeric() || char == '_'
}

/// A set of characters.
#[derive(Clone, Debug, Default)]
pub(super) struct Set {
    /// Sorted, none within another.
    pub(super) ranges: Vec<(char, char)>,
    /// With whether those that have it are meant, or those that do not.
    pub(super) traits: Vec<(Trait, bool)>,
    /// Whether all but these are meant.
    pub(super) is_negated: bool,
    pub(super) ignores_case: bool,
}

impl Set {
    pub(super) fn new(mut ranges: Vec<(char, char)>, all: Vec<(Trait, bool)>) -> Self {
        let mut traits: Vec<(Trait, bool)> = Vec::new();
        for (one, has) in all {
            if !traits.iter().any(|it| it.1 == has && it.0.is(one)) {
                traits.push((one, has));
            }
        }
        ranges.sort_unstable();
        ranges.dedup_by(|next, kept| {
            let overlaps = next.0 <= kept.1;
            if overlaps {
                kept.1 = kept.1.max(next.1);
            }
            overlaps
        });
        Set { ranges, traits, ..Set::default() }
    }

    /// Those that have a trait, or those that do not.
    pub(super) fn of(one: Trait, has: bool) -> Self {
        Set { traits: vec![(one, has)], ..Set::default() }
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
        let is_so = |(one, wanted): &(Trait, bool)| match one {
            Trait::Ranges(ranges) => within(ranges) == *wanted,
            Trait::Property(has) => has(char) == *wanted,
        };
        within(&self.ranges) || self.traits.iter().any(is_so)
    }
}
