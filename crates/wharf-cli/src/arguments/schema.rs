//! The part of JSON Schema that is needed to convert strings.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// Maximum number of references followed.
const MAX_REFERENCES: usize = 16;

/// Maximum number of alternatives or parts read of one schema, since a server may send any number.
const MAX_SUBSCHEMAS: usize = 32;

/// Schema together with the document that its references point into.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schema<'a> {
    root: &'a Value,
    here: &'a Value,
}

static ANY_SCHEMA: Value = Value::Bool(true);

impl<'a> Schema<'a> {
    pub(crate) fn new(root: &'a Value) -> Self {
        Schema { root, here: root }.resolved()
    }

    fn at(self, here: &'a Value) -> Self {
        Schema { here, ..self }.resolved()
    }

    /// Resolves references within the document. An external reference is never followed and allows
    /// any value.
    fn resolved(mut self) -> Self {
        for _ in 0..MAX_REFERENCES {
            let Some(Value::String(reference)) = self.here.get("$ref") else { return self };
            let target = reference.strip_prefix('#').and_then(|path| self.root.pointer(path));
            self.here = target.unwrap_or(&ANY_SCHEMA);
        }
        Schema { here: &ANY_SCHEMA, ..self }
    }

    fn get(self, keyword: &str) -> Option<&'a Value> {
        self.here.get(keyword)
    }

    pub(crate) fn text(self, keyword: &str) -> Option<&'a str> {
        self.get(keyword)?.as_str()
    }

    pub(crate) fn value(self, keyword: &str) -> Option<&'a Value> {
        self.get(keyword)
    }

    /// Allowed types, in order; empty if the schema has none.
    pub(crate) fn types(self) -> Vec<&'a str> {
        match self.get("type") {
            Some(Value::String(one)) => vec![one],
            Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
            _ if self.get("properties").is_some() => vec!["object"],
            _ if self.get("items").is_some() => vec!["array"],
            _ => Vec::new(),
        }
    }

    /// Allowed values, if the schema lists them.
    pub(crate) fn choices(self) -> Option<Vec<&'a Value>> {
        match (self.get("enum"), self.get("const")) {
            (Some(Value::Array(values)), _) => Some(values.iter().collect()),
            (_, Some(value)) => Some(vec![value]),
            _ => None,
        }
    }

    /// Schemas of `anyOf`, else of `oneOf`, in order.
    pub(crate) fn alternatives(self) -> Vec<Schema<'a>> {
        let of = |keyword| self.get(keyword).and_then(Value::as_array);
        let all = of("anyOf").or_else(|| of("oneOf"));
        all.into_iter().flatten().take(MAX_SUBSCHEMAS).map(|here| self.at(here)).collect()
    }

    /// The schema and, recursively, the schemas of its `allOf`.
    fn whole(self) -> Vec<Schema<'a>> {
        let mut whole = vec![self];
        let mut next = 0;
        while let Some(it) = whole.get(next).copied() {
            let parts = it.get("allOf").and_then(Value::as_array).into_iter().flatten();
            let room = MAX_SUBSCHEMAS.saturating_sub(whole.len());
            whole.extend(parts.take(room).map(|here| it.at(here)));
            next += 1;
        }
        whole
    }

    /// The first of the schema and its parts that has a type, an `enum` or alternatives.
    pub(crate) fn typed_part(self) -> Schema<'a> {
        let says = |it: &Schema<'_>| {
            !it.types().is_empty() || it.choices().is_some() || !it.alternatives().is_empty()
        };
        self.whole().into_iter().find(says).unwrap_or(self)
    }

    /// Schema of the items of an array.
    pub(crate) fn items(self) -> Schema<'a> {
        self.at(self.get("items").unwrap_or(&ANY_SCHEMA))
    }

    /// Fields of an object by name, including those of its parts.
    pub(crate) fn fields(self) -> Vec<(&'a str, Schema<'a>)> {
        let of =
            |it: Schema<'a>| it.get("properties").and_then(Value::as_object).map(|all| (it, all));
        let all = self.whole().into_iter().filter_map(of);
        all.flat_map(|(it, own)| own.iter().map(move |(name, here)| (name.as_str(), it.at(here))))
            .collect()
    }

    pub(crate) fn field(self, name: &str) -> Option<Schema<'a>> {
        // Looked up by key, not searched: a server may send any number of fields.
        let own = |it: Schema<'a>| it.get("properties")?.get(name).map(|here| it.at(here));
        self.whole().into_iter().find_map(own)
    }

    /// Names of the required fields.
    pub(crate) fn required(self) -> BTreeSet<&'a str> {
        let of = |it: Schema<'a>| it.get("required").and_then(Value::as_array);
        self.whole().into_iter().filter_map(of).flatten().filter_map(Value::as_str).collect()
    }

    /// Schema of fields that are not named; `None` if they are not allowed.
    pub(crate) fn additional_fields(self) -> Option<Schema<'a>> {
        match self.get("additionalProperties") {
            Some(Value::Bool(false)) => None,
            Some(here) => Some(self.at(here)),
            // Most schemas that name their fields omit `additionalProperties: false`.
            None if self.fields().is_empty() => Some(self.at(&ANY_SCHEMA)),
            None => None,
        }
    }

    /// True if the schema allows an object.
    pub(crate) fn is_object(self) -> bool {
        let it = self.typed_part();
        it.types().contains(&"object") || it.alternatives().into_iter().any(Schema::takes_fields)
    }

    fn takes_fields(self) -> bool {
        self.types().contains(&"object")
    }

    /// Schema in which the fields of an object are looked up.
    pub(crate) fn as_object(self) -> Schema<'a> {
        let it = self.typed_part();
        if it.types().contains(&"object") {
            return it;
        }
        it.alternatives().into_iter().find(|&one| one.takes_fields()).unwrap_or(it)
    }

    /// Short name of the type: `integer`, `a|b|c`, `string[]`.
    pub(crate) fn kind(self) -> String {
        self.kind_within(2)
    }

    fn kind_within(self, deep: usize) -> String {
        let it = self.typed_part();
        if let Some(choices) = it.choices() {
            return choices.into_iter().map(plain).collect::<Vec<_>>().join("|");
        }
        let types = it.types();
        let mut kinds: Vec<String> = if types.is_empty() && deep > 0 {
            it.alternatives().into_iter().map(|one| one.kind_within(deep - 1)).collect()
        } else {
            types.into_iter().map(str::to_owned).collect()
        };
        for kind in &mut kinds {
            if kind == "array" && deep > 0 {
                *kind = format!("{}[]", it.items().kind_within(deep - 1));
            }
        }
        // `null` is left out if other types are allowed.
        if kinds.iter().any(|kind| kind != "null") {
            kinds.retain(|kind| kind != "null");
        }
        if kinds.is_empty() { "any".to_owned() } else { kinds.join("|") }
    }
}

/// Value as text; a string has no quotes.
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Sets `path` within `object` and creates the objects in between.
pub(crate) fn insert_at(object: &mut Map<String, Value>, path: &[&str], value: Value) {
    let Some((last, between)) = path.split_last() else { return };
    let mut place = object;
    for &name in between {
        let inner = place.entry(name).or_insert_with(|| Value::Object(Map::new()));
        if !inner.is_object() {
            *inner = Value::Object(Map::new());
        }
        let Value::Object(inner) = inner else { return };
        place = inner;
    }
    place.insert((*last).to_owned(), value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn type_names_are_readable() {
        for (schema, kind) in [
            (json!({"type": "integer"}), "integer"),
            (json!({"type": ["string", "null"]}), "string"),
            (json!({"enum": ["a", "b", 3]}), "a|b|3"),
            (json!({"type": "array", "items": {"type": "string"}}), "string[]"),
            (json!({"anyOf": [{"type": "integer"}, {"type": "null"}]}), "integer"),
            (
                json!({"allOf": [{"$ref": "#/$defs/n"}], "$defs": {"n": {"type": "number"}}}),
                "number",
            ),
            (json!(true), "any"),
            (json!({"$ref": "https://elsewhere.test/schema"}), "any"),
            (json!({"$ref": "#"}), "any"),
        ] {
            assert_eq!(Schema::new(&schema).kind(), kind, "{schema}");
        }
    }

    #[test]
    fn fields_are_found_in_parts_too() {
        let schema = json!({"properties": {"a": {"type": "string"}}, "required": ["a"],
            "allOf": [{"properties": {"b": {"type": "integer"}}, "required": ["b"]}]});
        let schema = Schema::new(&schema);
        assert_eq!(schema.required(), BTreeSet::from(["a", "b"]));
        assert_eq!(schema.field("b").unwrap().kind(), "integer");
        assert!(schema.additional_fields().is_none());
    }

    #[test]
    fn cyclic_schemas_terminate() {
        let schema = json!({"allOf": [{"$ref": "#"}, {"$ref": "#"}], "properties": {"a": {"$ref": "#/properties/a"}}});
        let schema = Schema::new(&schema);
        assert!(schema.field("a").is_some());
        assert_eq!(schema.kind(), "object");
    }
}
