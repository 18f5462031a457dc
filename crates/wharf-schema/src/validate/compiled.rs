//! Compiled form of a schema.

use std::collections::BTreeSet;

use serde_json::{Number, Value};

use crate::validate::{content::Content, format::Format, pattern::Pattern};

/// Index of a compiled schema.
pub(super) type SchemaId = usize;

/// Lists of names, without and with a value for each.
pub(super) type NameList = Box<[Box<str>]>;
pub(super) type NamedList<T> = Box<[(Box<str>, T)]>;

/// Ids of the schemas `false` and `true`.
pub(super) const NEVER: SchemaId = 0;
pub(super) const ANY: SchemaId = 1;

/// A single schema: all its rules must hold.
#[derive(Debug, Default)]
pub(super) struct SchemaNode {
    /// Schema resource that it belongs to.
    pub(super) resource: usize,
    /// Types that `type` allows; checked before the rules.
    pub(super) types: TypeSet,
    pub(super) rules: Box<[Rule]>,
    /// True if no rule contains a schema.
    pub(super) is_flat: bool,
    /// Types that suffice if the only rule is an `anyOf`: alternatives allow them without rules.
    pub(super) sufficient: Option<TypeSet>,
    /// Target if the schema is only a reference and its target does not depend on the dynamic scope.
    pub(super) alias: Option<SchemaId>,
    /// True if its last rules are `unevaluated…` keywords, which need the marks of the other rules.
    pub(super) needs_marks: bool,
}

/// Rule of a keyword, or of several keywords that belong together.
#[derive(Debug)]
pub(super) enum Rule {
    Never,
    Enum(Box<[Value]>),
    Const(Value),
    Bound(BoundKeyword, Number),
    MultipleOf(Number),
    Count(CountKeyword, usize),
    Pattern(Pattern),
    Format(&'static Format),
    Content(Content),
    UniqueItems,
    Required(RequiredNames),
    DependentRequired(NamedList<NameList>),
    Properties(Box<Properties>),
    PropertyNames(SchemaId),
    DependentSchemas(NamedList<SchemaId>),
    Items {
        prefix: Box<[SchemaId]>,
        rest: Option<SchemaId>,
    },
    Contains(Contains),
    AllOf(Box<[SchemaId]>),
    AnyOf(Box<[SchemaId]>),
    OneOf(Box<[SchemaId]>),
    /// With the schema's JSON for the message.
    Not(SchemaId, Box<str>),
    If {
        condition: SchemaId,
        then: SchemaId,
        otherwise: SchemaId,
    },
    Reference(SchemaId),
    /// Refers to the outermost schema with this anchor, or else to the given schema.
    DynamicReference(SchemaId, Box<str>),
    UnevaluatedItems(SchemaId),
    UnevaluatedProperties(SchemaId),
}

/// Schemas of an object's properties.
#[derive(Debug)]
pub(super) struct Properties {
    pub(super) named: NamedProperties,
    pub(super) patterns: Box<[(Pattern, SchemaId)]>,
    /// For all other properties; `None` if they are unrestricted.
    pub(super) rest: Option<SchemaId>,
}

/// Required property names.
#[derive(Debug)]
pub(super) struct RequiredNames {
    pub(super) names: NameList,
    /// True if the rule of the properties counts them as well, so that it suffices where no
    /// problems are collected.
    pub(super) is_counted: bool,
}

/// Number of properties among which one is looked for before the others.
const NEAR: usize = 3;

/// A property with its schema.
#[derive(Debug)]
pub(super) struct NamedProperty {
    name: Box<str>,
    pub(super) schema: SchemaId,
    pub(super) is_required: bool,
}

/// Properties, sorted by name.
#[derive(Debug)]
pub(super) struct NamedProperties {
    /// First bytes of each name: comparing numbers is faster than comparing texts.
    prefixes: Box<[u64]>,
    all: Box<[NamedProperty]>,
    /// Number of required properties among them.
    pub(super) required: usize,
}

impl Rule {
    /// True if the rule looks at the value alone, with no schema for its parts.
    pub(super) fn is_flat(&self) -> bool {
        use Rule::{Bound, Const, Content, Count, Enum, Format, MultipleOf, Never, Pattern};
        matches!(
            self,
            Never
                | Enum(_)
                | Const(_)
                | Bound(..)
                | MultipleOf(_)
                | Count(..)
                | Pattern(_)
                | Format(_)
                | Content(_)
                | Rule::UniqueItems
        )
    }
}

impl NamedProperties {
    /// `required`: names that are counted, if all of them are among the properties.
    pub(super) fn new(mut named: Vec<(Box<str>, SchemaId)>, required: &[Box<str>]) -> Self {
        named.sort_unstable();
        let required: BTreeSet<&str> = required.iter().map(|name| &**name).collect();
        let property = |(name, schema): (Box<str>, SchemaId)| {
            let is_required = required.contains(&*name);
            NamedProperty { name, schema, is_required }
        };
        let mut all: Box<[NamedProperty]> = named.into_iter().map(property).collect();
        let mut found = all.iter().filter(|it| it.is_required).count();
        if found < required.len() {
            found = 0;
            all.iter_mut().for_each(|it| it.is_required = false);
        }
        let prefixes = all.iter().map(|it| prefix(&it.name)).collect();
        NamedProperties { prefixes, all, required: found }
    }

    /// Property with this name. `next`: where it probably is, which is behind the last one found if
    /// the names of the value are sorted as well.
    #[inline(always)]
    pub(super) fn get(&self, name: &str, next: &mut usize) -> Option<&NamedProperty> {
        let near = self.all.get(*next..).unwrap_or_default().iter().take(NEAR);
        for (after, property) in near.enumerate() {
            if is_same(&property.name, name) {
                *next += after + 1;
                return Some(property);
            }
        }
        let at = self.search(name)?;
        *next = at + 1;
        self.all.get(at)
    }

    #[inline(never)]
    fn search(&self, name: &str) -> Option<usize> {
        let wanted = prefix(name);
        let first = self.prefixes.partition_point(|it| *it < wanted);
        match self.prefixes.get(first..first + 2) {
            Some([_, second]) if *second == wanted => {
                self.all.binary_search_by(|it| (*it.name).cmp(name)).ok()
            }
            _ => self.all.get(first).is_some_and(|it| *it.name == *name).then_some(first),
        }
    }
}

/// True if the texts are equal. Names are short: comparing them as numbers is faster than a call.
#[inline(always)]
fn is_same(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    if one.len() != other.len() {
        return false;
    }
    match one.len() {
        0..4 => one.iter().eq(other),
        4..8 => {
            one.first_chunk::<4>() == other.first_chunk()
                && one.last_chunk::<4>() == other.last_chunk()
        }
        8..=16 => {
            one.first_chunk::<8>() == other.first_chunk()
                && one.last_chunk::<8>() == other.last_chunk()
        }
        _ => one == other,
    }
}

/// First eight bytes of a text as a number: texts are in the order of these numbers.
#[inline]
fn prefix(text: &str) -> u64 {
    let bytes = text.as_bytes();
    if let Some(first) = bytes.first_chunk() {
        return u64::from_be_bytes(*first);
    }
    let unused = 64 - 8 * bytes.len() as u32;
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let (first, last) = (u32::from_be_bytes(*first), u32::from_be_bytes(*last));
        return u64::from(first) << 32 | u64::from(last) << unused;
    }
    let few = bytes.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    few.checked_shl(unused).unwrap_or(0)
}

/// Minimum and maximum number of items that match a schema.
#[derive(Debug)]
pub(super) struct Contains {
    pub(super) schema: SchemaId,
    pub(super) least: usize,
    pub(super) most: usize,
    /// True if matching items count as evaluated.
    pub(super) marks: bool,
}

/// Keyword of a numeric bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BoundKeyword {
    Minimum,
    ExclusiveMinimum,
    Maximum,
    ExclusiveMaximum,
}

/// Keyword of a length or size bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CountKeyword {
    MinLength,
    MaxLength,
    MinItems,
    MaxItems,
    MinProperties,
    MaxProperties,
}

/// JSON types; a whole number has two of them.
const TYPES: [&str; 7] = ["array", "boolean", "integer", "null", "number", "object", "string"];

/// Set of JSON types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TypeSet(u8);

/// All types.
impl Default for TypeSet {
    fn default() -> Self {
        TypeSet(0x7F)
    }
}

impl TypeSet {
    /// Type with this name.
    pub(super) fn named(name: &str) -> Option<Self> {
        TYPES.iter().position(|it| *it == name).map(|at| TypeSet(1 << at))
    }

    pub(super) const NONE: TypeSet = TypeSet(0);

    pub(super) fn and(self, other: TypeSet) -> TypeSet {
        TypeSet(self.0 | other.0)
    }

    /// True if the value has one of the types.
    #[inline]
    pub(super) fn allow(self, value: &Value) -> bool {
        let at = match value {
            Value::Array(_) => 0,
            Value::Bool(_) => 1,
            Value::Null => 3,
            Value::Number(number) => return self.allows_number(number),
            Value::Object(_) => 5,
            Value::String(_) => 6,
        };
        self.0 >> at & 1 == 1
    }

    fn allows_number(self, number: &Number) -> bool {
        const INTEGER: u8 = 1 << 2;
        const NUMBER: u8 = 1 << 4;
        self.0 & NUMBER != 0 || self.0 & INTEGER != 0 && crate::validate::number::is_whole(number)
    }

    pub(super) fn names(self) -> impl Iterator<Item = &'static str> {
        TYPES.iter().enumerate().filter(move |(at, _)| self.0 >> at & 1 == 1).map(|(_, name)| *name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_are_found_wherever_the_search_begins() {
        let names = [
            "",
            "\0",
            "a",
            "a\0",
            "ab",
            "abc",
            "abcd",
            "abcde",
            "abcdefg",
            "abcdefgh",
            "abcdefgh1",
            "abcdefgh2",
            "abcdefgh3",
            "abcdefghi",
            "b",
            "é",
            "ü",
        ];
        let named = names.iter().enumerate().map(|(id, name)| (Box::from(*name), id)).collect();
        let properties = NamedProperties::new(named, &[]);
        let unknown = ["\0\0", "aa", "abcdefgh0", "abcdefgh4", "abcdefghij", "z", "zzzzzzzzz"];
        for start in 0..=names.len() {
            for (id, name) in names.iter().enumerate() {
                let found = properties.get(name, &mut start.clone());
                assert_eq!(found.map(|it| it.schema), Some(id), "{name:?} from {start}");
            }
            for name in unknown {
                assert!(properties.get(name, &mut start.clone()).is_none(), "{name:?}");
            }
        }
    }

    #[test]
    fn short_texts_are_compared_whole() {
        let text = "abcdefghijklmnopqrstuvwxyz";
        for length in 0..text.len() {
            let one = &text[..length];
            assert!(is_same(one, one) && !is_same(one, &text[..=length]));
            for at in 0..length {
                let other = format!("{}_{}", &one[..at], &one[at + 1..]);
                assert!(!is_same(one, &other), "{one} {other}");
            }
        }
    }

    #[test]
    fn required_names_are_counted_if_all_of_them_are_properties() {
        let named = || vec![("a".into(), 1), ("b".into(), 2)];
        for (required, counted) in
            [(&["a"][..], 1), (&["b", "a", "b"], 2), (&["a", "c"], 0), (&[], 0)]
        {
            let required: Vec<Box<str>> = required.iter().map(|name| Box::from(*name)).collect();
            let properties = NamedProperties::new(named(), &required);
            assert_eq!(properties.required, counted, "{required:?}");
            assert_eq!(properties.all.iter().filter(|it| it.is_required).count(), counted);
        }
    }
}
