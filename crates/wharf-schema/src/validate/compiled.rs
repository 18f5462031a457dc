//! A schema, compiled.

use serde_json::{Number, Value};

use crate::validate::{content::Content, format::Format, pattern::Pattern};

/// Where a compiled schema is in the list of all.
pub(super) type Id = usize;

/// Names, and what belongs to each.
pub(super) type Names = Box<[Box<str>]>;
pub(super) type Named<T> = Box<[(Box<str>, T)]>;

/// The schemas `false` and `true`.
pub(super) const NEVER: Id = 0;
pub(super) const ANY: Id = 1;

/// One schema: all of its rules must hold.
#[derive(Debug, Default)]
pub(super) struct Node {
    /// The resource that it belongs to.
    pub(super) resource: usize,
    pub(super) rules: Box<[Rule]>,
    /// Whether its last rules are about what the others did not look at.
    pub(super) wants_marks: bool,
}

/// One rule, of one keyword or of some that belong together.
#[derive(Debug)]
pub(super) enum Rule {
    Never,
    Type(Types),
    Enum(Box<[Value]>),
    Const(Value),
    Bound(Bound, Number),
    MultipleOf(Number),
    Count(Count, usize),
    Pattern(Pattern),
    Format(&'static Format),
    Content(Content),
    UniqueItems,
    Required(Names),
    DependentRequired(Named<Names>),
    Properties(Box<Properties>),
    PropertyNames(Id),
    DependentSchemas(Named<Id>),
    Items {
        prefix: Box<[Id]>,
        rest: Option<Id>,
    },
    Contains(Contains),
    AllOf(Box<[Id]>),
    AnyOf(Box<[Id]>),
    OneOf(Box<[Id]>),
    /// With the schema as it was written, to be told.
    Not(Id, Box<str>),
    If {
        condition: Id,
        then: Id,
        otherwise: Id,
    },
    Reference(Id),
    /// To the outermost schema with this anchor; the first is the one that the text names.
    DynamicReference(Id, Box<str>),
    UnevaluatedItems(Id),
    UnevaluatedProperties(Id),
}

/// Which schema is for which property.
#[derive(Debug)]
pub(super) struct Properties {
    /// Sorted by name.
    pub(super) named: Named<Id>,
    pub(super) patterns: Box<[(Pattern, Id)]>,
    /// For those that have none; without it, they are not looked at.
    pub(super) rest: Option<Id>,
}

impl Properties {
    pub(super) fn named(&self, name: &str) -> Option<Id> {
        let at = self.named.binary_search_by(|(known, _)| (**known).cmp(name)).ok()?;
        Some(self.named[at].1)
    }
}

/// How many items must fit a schema.
#[derive(Debug)]
pub(super) struct Contains {
    pub(super) schema: Id,
    pub(super) least: usize,
    pub(super) most: usize,
    /// Whether the items that fit count as evaluated.
    pub(super) marks: bool,
}

/// What a number may not go beyond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bound {
    Minimum,
    ExclusiveMinimum,
    Maximum,
    ExclusiveMaximum,
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Count {
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
pub(super) struct Types(u8);

impl Types {
    /// The type with this name.
    pub(super) fn named(name: &str) -> Option<Self> {
        TYPES.iter().position(|it| *it == name).map(|at| Types(1 << at))
    }

    pub(super) fn and(self, other: Types) -> Types {
        Types(self.0 | other.0)
    }

    /// The types that a value has.
    pub(super) fn of(value: &Value) -> Self {
        let at = match value {
            Value::Array(_) => 0,
            Value::Bool(_) => 1,
            Value::Number(number) if crate::validate::number::is_whole(number) => {
                return Types(0b1_0100);
            }
            Value::Null => 3,
            Value::Number(_) => 4,
            Value::Object(_) => 5,
            Value::String(_) => 6,
        };
        Types(1 << at)
    }

    pub(super) fn meet(self, other: Types) -> bool {
        self.0 & other.0 != 0
    }

    pub(super) fn names(self) -> impl Iterator<Item = &'static str> {
        TYPES.iter().enumerate().filter(move |(at, _)| self.0 >> at & 1 == 1).map(|(_, name)| *name)
    }
}
