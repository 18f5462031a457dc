//! Compiled form of a schema.

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
    pub(super) rules: Box<[Rule]>,
    /// True if its last rules are `unevaluated…` keywords, which need the marks of the other rules.
    pub(super) needs_marks: bool,
}

/// Rule of a keyword, or of several keywords that belong together.
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
    /// Sorted by name.
    pub(super) named: NamedList<SchemaId>,
    pub(super) patterns: Box<[(Pattern, SchemaId)]>,
    /// For all other properties; `None` if they are unrestricted.
    pub(super) rest: Option<SchemaId>,
}

impl Properties {
    pub(super) fn named(&self, name: &str) -> Option<SchemaId> {
        let at = self.named.binary_search_by(|(known, _)| (**known).cmp(name)).ok()?;
        Some(self.named[at].1)
    }
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TypeSet(u8);

impl TypeSet {
    /// Type with this name.
    pub(super) fn named(name: &str) -> Option<Self> {
        TYPES.iter().position(|it| *it == name).map(|at| TypeSet(1 << at))
    }

    pub(super) fn and(self, other: TypeSet) -> TypeSet {
        TypeSet(self.0 | other.0)
    }

    /// Types of a value.
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
