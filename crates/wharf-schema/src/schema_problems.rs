//! Walks subschemas and checks a foreign schema's size, dialect and references.

use std::{collections::HashSet, fmt};

use serde_json::{Map, Value};

use crate::validate::{dialect::Draft, document::MAX_URI_BYTES, reference, uri};

/// Form in which a keyword contains subschemas.
enum SubschemaShape {
    One,
    List,
    Named,
    OneOrList,
}

const SUBSCHEMAS: &[(&str, SubschemaShape)] = &[
    ("properties", SubschemaShape::Named),
    ("patternProperties", SubschemaShape::Named),
    ("dependentSchemas", SubschemaShape::Named),
    ("dependencies", SubschemaShape::Named),
    ("$defs", SubschemaShape::Named),
    ("definitions", SubschemaShape::Named),
    ("allOf", SubschemaShape::List),
    ("anyOf", SubschemaShape::List),
    ("oneOf", SubschemaShape::List),
    ("prefixItems", SubschemaShape::List),
    ("items", SubschemaShape::OneOrList),
    ("additionalItems", SubschemaShape::One),
    ("additionalProperties", SubschemaShape::One),
    ("unevaluatedItems", SubschemaShape::One),
    ("unevaluatedProperties", SubschemaShape::One),
    ("contains", SubschemaShape::One),
    ("contentSchema", SubschemaShape::One),
    ("propertyNames", SubschemaShape::One),
    ("not", SubschemaShape::One),
    ("if", SubschemaShape::One),
    ("then", SubschemaShape::One),
    ("else", SubschemaShape::One),
];

/// Direct subschemas of `schema`: keyword, name if any, schema.
pub fn subschemas(
    schema: &Map<String, Value>,
) -> impl Iterator<Item = (&'static str, Option<&str>, &Value)> {
    schema.iter().flat_map(|(key, value)| {
        let mut found: Vec<(&'static str, Option<&str>, &Value)> = Vec::new();
        let known = SUBSCHEMAS.iter().find(|(keyword, _)| keyword == key);
        let Some((keyword, holds)) = known else { return found };
        match (holds, value) {
            (SubschemaShape::Named, Value::Object(map)) => {
                found.extend(map.iter().map(|(name, it)| (*keyword, Some(name.as_str()), it)));
            }
            (SubschemaShape::List | SubschemaShape::OneOrList, Value::Array(list)) => {
                found.extend(list.iter().map(|it| (*keyword, None, it)));
            }
            (SubschemaShape::One | SubschemaShape::OneOrList, one) => {
                found.push((*keyword, None, one))
            }
            _ => {}
        }
        found
    })
}

/// Size limits of a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SchemaLimits {
    /// Maximum nesting depth.
    pub depth: usize,
    /// Maximum number of subschemas.
    pub subschemas: usize,
}

impl SchemaLimits {
    /// Creates limits from the nesting depth and the number of subschemas.
    #[must_use]
    pub const fn new(depth: usize, subschemas: usize) -> Self {
        SchemaLimits { depth, subschemas }
    }
}

/// Reason to reject a schema.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SchemaProblem {
    /// It has more subschemas than this.
    TooManySubschemas(usize),
    /// It is nested deeper than this.
    TooDeep(usize),
    /// A subschema is neither an object nor a boolean.
    NotASchema,
    /// Its `$schema` names this dialect, which is not supported.
    UnsupportedDialect(String),
    /// A URI in it, as written or resolved, has more bytes than this.
    UriTooLong(usize),
    /// It refers to this URI, which would have to be fetched.
    RemoteReference(String),
}

impl fmt::Display for SchemaProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SchemaProblem::TooManySubschemas(most) => {
                write!(f, "the schema has more than {most} subschemas")
            }
            SchemaProblem::TooDeep(most) => write!(f, "the schema is nested more than {most} deep"),
            SchemaProblem::NotASchema => f.write_str("a schema is an object or a boolean"),
            SchemaProblem::UnsupportedDialect(uri) => {
                write!(f, "the dialect `{uri}` is not supported")
            }
            SchemaProblem::UriTooLong(most) => {
                write!(f, "a `$id` (resolved) or a `$ref` is longer than {most} bytes")
            }
            SchemaProblem::RemoteReference(to) => write!(
                f,
                "`$ref` to `{to}` points outside the schema, and remote schemas are not fetched"
            ),
        }
    }
}

/// Checks a foreign schema against `limits`; never fetches a reference.
#[must_use]
pub fn problems(schema: &Value, limits: SchemaLimits) -> Vec<SchemaProblem> {
    let mut check =
        LimitCheck { limits, count: 0, ids: HashSet::new(), refs: Vec::new(), found: vec![] };
    check.visit(schema, "", 1);
    let LimitCheck { ids, refs, mut found, .. } = check;
    let outside = refs.into_iter().filter(|(address, _)| reference::is_remote(address, &ids));
    found.extend(outside.map(|(_, to)| SchemaProblem::RemoteReference(to.to_owned())));
    found
}

/// True if a name in the schema is longer than `most` bytes: a key of any object, also in `enum`
/// and `const`, a required property, or an anchor. Validation looks each of them up repeatedly.
/// Patterns have their own limit.
#[must_use]
pub(crate) fn has_longer_name(schema: &Value, most: usize) -> bool {
    let is_long = |it: &Value| it.as_str().is_some_and(|it| it.len() > most);
    let map = match schema {
        Value::Object(map) => map,
        Value::Array(items) => return items.iter().any(|it| has_longer_name(it, most)),
        _ => return false,
    };
    map.iter().any(|(key, value)| {
        let names_long = match (key.as_str(), value) {
            ("$anchor" | "$dynamicAnchor", anchor) => is_long(anchor),
            ("required", Value::Array(names)) => names.iter().any(is_long),
            ("dependentRequired" | "dependencies", Value::Object(all)) => {
                all.values().filter_map(Value::as_array).flatten().any(is_long)
            }
            ("patternProperties", Value::Object(all)) => {
                return all.values().any(|it| has_longer_name(it, most));
            }
            _ => false,
        };
        names_long || key.len() > most || has_longer_name(value, most)
    })
}

struct LimitCheck<'a> {
    limits: SchemaLimits,
    count: usize,
    ids: HashSet<String>,
    /// Reference targets: resolved, and as written.
    refs: Vec<(String, &'a str)>,
    found: Vec<SchemaProblem>,
}

impl<'a> LimitCheck<'a> {
    fn visit(&mut self, schema: &'a Value, base: &str, depth: usize) {
        self.count += 1;
        // Reported once, at the first schema beyond the limit.
        if self.count == self.limits.subschemas + 1 {
            self.found.push(SchemaProblem::TooManySubschemas(self.limits.subschemas));
        }
        if depth == self.limits.depth + 1 {
            self.found.push(SchemaProblem::TooDeep(self.limits.depth));
        }
        if depth > self.limits.depth || self.count > self.limits.subschemas {
            return;
        }
        let map = match schema {
            Value::Object(map) => map,
            // `dependencies` may list property names instead of schemas.
            Value::Bool(_) | Value::Array(_) => return,
            _ => return self.found.push(SchemaProblem::NotASchema),
        };
        let text = |keyword| map.get(keyword).and_then(Value::as_str);
        let mut addresses = ["$id", "id", "$ref", "$dynamicRef"].into_iter().filter_map(text);
        if addresses.any(|it| it.len() > MAX_URI_BYTES) {
            return self.found.push(SchemaProblem::UriTooLong(MAX_URI_BYTES));
        }
        if let Some(dialect) = text("$schema").filter(|it| Draft::at(it).is_none()) {
            self.found.push(SchemaProblem::UnsupportedDialect(dialect.to_owned()));
        }
        let whole = |to: &str| uri::resolve(base, uri::split(to).0);
        let base = text("$id").or_else(|| text("id")).map_or_else(|| base.to_owned(), whole);
        if base.len() > MAX_URI_BYTES {
            return self.found.push(SchemaProblem::UriTooLong(MAX_URI_BYTES));
        }
        let refs = text("$ref").into_iter().chain(text("$dynamicRef"));
        self.refs.extend(refs.map(|to| (uri::resolve(&base, uri::split(to).0), to)));
        self.ids.insert(base.clone());
        for (_, _, inner) in subschemas(map) {
            self.visit(inner, &base, depth + 1);
        }
    }
}
