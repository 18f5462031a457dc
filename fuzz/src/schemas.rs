//! JSON Schema: compilation and validation.

use serde_json::{Map, Value, json};
use wharf_schema::{client_output_validator::OutputValidator, lenient_json, validate::Schema};

use crate::input::{assert_fast, byte, two_texts};

/// Step budget: small, so that a step that does too much work is found.
const STEPS: usize = 200_000;
/// Longest generated input: a schema that is built from it fits on a page.
const MAX_GENERATED: usize = 64;

/// Input that begins with `{`: the first line is a schema, the rest a value. Other input selects the rules of a small
/// grammar of schemas and values, whose result is compared with `jsonschema`.
pub fn schemas(data: &[u8]) {
    if byte(data).0 == b'{' {
        let Some((schema, value)) = two_texts(data) else { return };
        let Ok(schema) = lenient_json::unambiguous(schema) else { return };
        let value = serde_json::from_str(value).unwrap_or_default();
        check(&schema, &value);
        return;
    }
    let mut source = Source(&data[..data.len().min(MAX_GENERATED)]);
    let (schema, value) = (source.schema(4), source.value(3));
    let Some(found) = check(&schema, &value) else { return };
    let peer = jsonschema::options().offline().build(&schema);
    let peer = peer.unwrap_or_else(|error| panic!("only Wharf compiles {schema}: {error}"));
    assert_eq!(found, peer.is_valid(&value), "{schema} for {value}");
}

/// Returns the result of validation; none if the schema is invalid or the budget exceeded.
fn check(schema: &Value, value: &Value) -> Option<bool> {
    let compiled = assert_fast("compiling", || Schema::compile(schema)).ok()?;
    let found = assert_fast("validating", || compiled.is_valid(value, STEPS));
    let problems = assert_fast("reporting", || compiled.problems(value, STEPS, true));
    // What is decided within few steps is not decided otherwise with more.
    for few in [10, 1000] {
        if let Ok(decided) = compiled.is_valid(value, few) {
            assert_eq!(Ok(decided), found, "{schema} for {value} in {few} steps");
        }
    }
    if let Ok(found) = found {
        let complete = problems.is_empty() || !found;
        assert!(complete, "{value} matches {schema}, with the problems {problems}");
    }
    if let Ok(output) = OutputValidator::new(schema) {
        let _ = output.validate(&value.to_string());
    }
    found.ok()
}

/// Bytes that select rules of the grammar.
struct Source<'a>(&'a [u8]);

const TYPES: [&str; 7] = ["array", "boolean", "integer", "null", "number", "object", "string"];
const NAMES: [&str; 4] = ["a", "b", "ab", "é"];

impl Source<'_> {
    fn next(&mut self, choices: usize) -> usize {
        let (first, rest) = byte(self.0);
        self.0 = rest;
        usize::from(first) % choices
    }

    fn name(&mut self) -> &'static str {
        NAMES[self.next(NAMES.len())]
    }

    fn list<T>(&mut self, least: usize, mut item: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..least + self.next(3)).map(|_| item(self)).collect()
    }

    fn fields(&mut self, depth: usize, of: fn(&mut Self, usize) -> Value) -> Value {
        let fields: Vec<_> = self.list(0, |it| (it.name().to_owned(), of(it, depth)));
        Value::Object(fields.into_iter().collect())
    }

    fn value(&mut self, depth: usize) -> Value {
        let depth = depth.saturating_sub(1);
        match self.next(if depth == 0 { 6 } else { 8 }) {
            0 => Value::Null,
            1 => Value::from(self.next(2) == 1),
            2 => Value::from(self.next(8)),
            3 => Value::from(self.next(16) as f64 / 2.0 - 2.0),
            4 => Value::from(self.name()),
            5 => Value::from(""),
            6 => Value::Array(self.list(0, |it| it.value(depth))),
            _ => self.fields(depth, Source::value),
        }
    }

    fn schema(&mut self, depth: usize) -> Value {
        let depth = depth.saturating_sub(1);
        if depth == 0 {
            return Value::from(self.next(4) != 0);
        }
        let mut schema = Map::new();
        for _ in 0..=self.next(3) {
            let (name, value) = self.keyword(depth);
            schema.insert(name.to_owned(), value);
        }
        Value::Object(schema)
    }

    fn keyword(&mut self, depth: usize) -> (&'static str, Value) {
        let named = |name, value| (name, value);
        match self.next(30) {
            0 | 1 => named("type", TYPES[self.next(TYPES.len())].into()),
            2 => named("enum", self.list(1, |it| it.value(2)).into()),
            3 => named("const", self.value(2)),
            4 => named("minimum", self.next(8).into()),
            5 => named("exclusiveMaximum", self.next(8).into()),
            6 => named("multipleOf", json!((1 + self.next(6)) as f64 / 2.0)),
            7 => named("minLength", self.next(4).into()),
            8 => named("maxLength", self.next(4).into()),
            9 => named("minItems", self.next(4).into()),
            10 => named("maxItems", self.next(4).into()),
            11 => named("uniqueItems", true.into()),
            12 => named("minProperties", self.next(4).into()),
            13 => named("required", self.names().into()),
            14 => named("properties", self.fields(depth, Source::schema)),
            15 => named("additionalProperties", self.schema(depth)),
            16 => named("propertyNames", self.schema(depth)),
            17 => named("dependentSchemas", self.fields(depth, Source::schema)),
            18 => named("items", self.schema(depth)),
            19 => named("prefixItems", self.list(1, |it| it.schema(depth)).into()),
            20 => named("contains", self.schema(depth)),
            21 => named("minContains", self.next(3).into()),
            22 => named("allOf", self.list(1, |it| it.schema(depth)).into()),
            23 => named("anyOf", self.list(1, |it| it.schema(depth)).into()),
            24 => named("oneOf", self.list(1, |it| it.schema(depth)).into()),
            25 => named("not", self.schema(depth)),
            26 => named("if", self.schema(depth)),
            27 => named(["then", "else"][self.next(2)], self.schema(depth)),
            28 => named("unevaluatedProperties", self.schema(depth)),
            _ => named("unevaluatedItems", self.schema(depth)),
        }
    }

    fn names(&mut self) -> Vec<&'static str> {
        let mut names = self.list(0, Source::name);
        names.sort_unstable();
        names.dedup();
        names
    }
}
