//! A schema, compiled.

use serde_json::{Number, Value};

use crate::validate::{content::Content, format::Format, pattern::Pattern};

/// Where a compiled schema is in the list of all.
pub(super) type SchemaId = usize;

/// Names, and what belongs to each.
pub(super) type NameList = Box<[Box<str>]>;
pub(super) type NamedList<T> = Box<[(Box<str>, T)]>;

/// The schemas `false` and `true`.
pub(super) const NEVER: SchemaId = 0;
pub(super) const ANY: SchemaId = 1;

/// One schema: all of its rules must hold.
#[derive(Debug, Default)]
pub(super) struct SchemaNode {
    /// The resource that it belongs to.
    pub(super) resource: usize,
    pub(super) rules: Box<[Rule]>,
    /// Whether its last rules are about what the others did not look at.
    pub(super) needs_marks: bool,
}

/// One rule, of one keyword or of some that belong together.
#[derive(Debug)]
pub(super) enum Rule {
    Never,
    Type(TypeSet),
    Enum(Box<[Value]>),
    Const(Value),
    Bound(BoundKeyword, Number),
    MultipleOf(Number),
    Count(CountKeyword, usize),
    Pattern(Pattern),
    Format(&'static Format),
    Content(Content),
    UniqueItems,
    Required(NameList),
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
    /// With the schema as it was written, to be told.
    Not(SchemaId, Box<str>),
    If {
        condition: SchemaId,
        then: SchemaId,
        otherwise: SchemaId,
    },
    Reference(SchemaId),
    /// To the outermost schema with this anchor; the first is the one that the text names.
    DynamicReference(SchemaId, Box<str>),
    UnevaluatedItems(SchemaId),
    UnevaluatedProperties(SchemaId),
}

/// Which schema is for which property.
#[derive(Debug)]
pub(super) struct Properties {
    /// Sorted by name.
    pub(super) named: NamedList<SchemaId>,
    pub(super) patterns: Box<[(Pattern, SchemaId)]>,
    /// For those that have none; without it, they are not looked at.
    pub(super) rest: Option<SchemaId>,
}

impl Properties {
    pub(super) fn named(&self, name: &str) -> Option<SchemaId> {
        let at = self.named.binary_search_by(|(known, _)| (**known).cmp(name)).ok()?;
        Some(self.named[at].1)
    }
}

/// How many items must fit a schema.
#[derive(Debug)]
pub(super) struct Contains {
    pub(super) schema: SchemaId,
    pub(super) least: usize,
    pub(super) most: usize,
    /// Whether the items that fit count as evaluated.
    pub(super) marks: bool,
}

/// What a number may not go beyond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BoundKeyword {
    Minimum,
    ExclusiveMinimum,
    Maximum,
    ExclusiveMaximum,
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CountKeyword {
    MinLength,
    MaxLength,
    MinItems,
    MaxItems,
    MinProperties,
    MaxProperties,
}

/// The types of JSON; a whole number is of two.
const TYPES: [&str; 7] = ["array", "boolean", "integer", "null", "number", "object", "string"];

/// A set of types.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TypeSet(u8);

impl TypeSet {
    /// The type with this name.
    pub(super) fn named(name: &str) -> Option<Self> {
        TYPES.iter().position(|it| *it == name).map(|at| TypeSet(1 << at))
    }

    pub(super) fn and(self, other: TypeSet) -> TypeSet {
        TypeSet(self.0 | other.0)
    }

    /// The types that a value has.
    pub(super) fn of(value: &Value) -> Self {
        let at = match value {
            Value::Array(_) => 0,
            Value::Bool(_) => 1,
            Value::Number(number) if crate::validate::number::is_whole(number) => {
                return TypeSet(0b1_0100);
            }
            Value::Null => 3,
            Value::Number(_) => 4,
            Value::Object(_) => 5,
            Value::String(_) => 6,
        };
        TypeSet(1 << at)
    }

    pub(super) fn meet(self, other: TypeSet) -> bool {
        self.0 & other.0 != 0
    }

    pub(super) fn names(self) -> impl Iterator<Item = &'static str> {
        TYPES.iter().enumerate().filter(move |(at, _)| self.0 >> at & 1 == 1).map(|(_, name)| *name)
    }
}
