//! Wraps structured output of any type as `{"result": …}` for revisions that allow only objects, as the
//! official SDKs do.
//!
//! Objects are never wrapped, other values always are. The translated schema therefore accepts exactly the
//! translated values.

use serde_json::{Map, Value, json};

use crate::versions::translate::SCHEMA_MAP_KEYWORDS;

/// Property that holds the wrapped value.
pub(crate) const KEY: &str = "result";

/// Maximum depth at which `$ref` and combinators are followed to find the allowed types.
const MAX_SCHEMA_DEPTH: usize = 8;

/// Keywords whose values are not schemas.
const NON_SCHEMA_KEYWORDS: [&str; 4] = ["const", "enum", "default", "examples"];

/// Types that a schema allows.
#[derive(Clone, Copy)]
struct AllowedTypes {
    objects: bool,
    others: bool,
}

impl AllowedTypes {
    const ALL: AllowedTypes = AllowedTypes { objects: true, others: true };
    const NONE: AllowedTypes = AllowedTypes { objects: false, others: false };

    fn and(self, other: AllowedTypes) -> AllowedTypes {
        AllowedTypes { objects: self.objects && other.objects, others: self.others && other.others }
    }

    fn or(self, other: AllowedTypes) -> AllowedTypes {
        AllowedTypes { objects: self.objects || other.objects, others: self.others || other.others }
    }

    fn of_values<'v>(values: impl IntoIterator<Item = &'v Value>) -> AllowedTypes {
        let one = |it: &Value| AllowedTypes { objects: it.is_object(), others: !it.is_object() };
        values.into_iter().map(one).fold(AllowedTypes::NONE, AllowedTypes::or)
    }

    fn of_types(types: &Value) -> AllowedTypes {
        let one = |it: &Value| AllowedTypes { objects: it == "object", others: it != "object" };
        match types {
            Value::Array(all) => all.iter().map(one).fold(AllowedTypes::NONE, AllowedTypes::or),
            type_name => one(type_name),
        }
    }

    /// Determines the types that `schema` in `root` allows; types that it does not restrict are allowed.
    fn of(schema: &Value, root: &Value, depth: usize) -> AllowedTypes {
        let keywords = match schema {
            Value::Object(keywords) if depth > 0 => keywords,
            Value::Bool(false) => return AllowedTypes::NONE,
            _ => return AllowedTypes::ALL,
        };
        let within = |schema: &Value| AllowedTypes::of(schema, root, depth - 1);
        let all = keywords.iter().map(|(keyword, value)| match (keyword.as_str(), value) {
            ("type", types) => AllowedTypes::of_types(types),
            ("const", value) => AllowedTypes::of_values([value]),
            ("enum", Value::Array(values)) => AllowedTypes::of_values(values),
            ("allOf", Value::Array(all)) => {
                all.iter().map(within).fold(AllowedTypes::ALL, AllowedTypes::and)
            }
            ("anyOf" | "oneOf", Value::Array(all)) => {
                all.iter().map(within).fold(AllowedTypes::NONE, AllowedTypes::or)
            }
            ("$ref", Value::String(to)) => {
                let target = to.strip_prefix('#').and_then(|pointer| root.pointer(pointer));
                target.map_or(AllowedTypes::ALL, within)
            }
            _ => AllowedTypes::ALL,
        });
        all.fold(AllowedTypes::ALL, AllowedTypes::and)
    }
}

/// Turns an output schema into a schema of objects; values that are not objects are wrapped.
pub(crate) fn schema(schema: &mut Value) {
    if schema.get("type").is_some_and(|it| it == "object") {
        return;
    }
    let allows = AllowedTypes::of(schema, schema, MAX_SCHEMA_DEPTH);
    let dialect = schema.get("$schema").cloned();
    let required = json!([KEY]);
    let mut wrapped = match (allows.objects, schema.take()) {
        (true, Value::Object(mut keywords)) if !allows.others => {
            keywords.insert("type".into(), "object".into());
            keywords.into()
        }
        (true, natural) => {
            let natural = rebase(natural, "#/anyOf/0");
            let wrapper = json!({"properties": {KEY: {"$ref": "#/anyOf/0"}}, "required": required});
            json!({"type": "object", "anyOf": [natural, wrapper]})
        }
        (false, natural) => {
            let natural = rebase(natural, "#/properties/result");
            json!({"type": "object", "properties": {KEY: natural}, "required": required})
        }
    };
    if let Some(dialect) = dialect {
        wrapped["$schema"] = dialect;
    }
    *schema = wrapped;
}

/// Returns the schema with its local references adjusted to its new position.
fn rebase(mut schema: Value, to: &str) -> Value {
    if let Value::Object(keywords) = &mut schema {
        keywords.remove("$schema");
        rebase_references(keywords, to);
    }
    schema
}

fn rebase_references(keywords: &mut Map<String, Value>, to: &str) {
    // Local references within a schema that has an `$id` are relative to that schema, so they stay.
    if keywords.get("$id").and_then(Value::as_str).is_some_and(|id| !id.starts_with('#')) {
        return;
    }
    for (keyword, value) in keywords {
        match value {
            Value::String(reference) if matches!(&**keyword, "$ref" | "$dynamicRef") => {
                if let Some(pointer) = reference.strip_prefix('#')
                    && (pointer.is_empty() || pointer.starts_with('/'))
                {
                    *reference = format!("{to}{pointer}");
                }
            }
            _ if NON_SCHEMA_KEYWORDS.contains(&&**keyword) => {}
            Value::Object(named) if SCHEMA_MAP_KEYWORDS.contains(&&**keyword) => {
                let schemas = named.values_mut().filter_map(Value::as_object_mut);
                schemas.for_each(|schema| rebase_references(schema, to));
            }
            Value::Object(schema) => rebase_references(schema, to),
            Value::Array(list) => {
                let schemas = list.iter_mut().filter_map(Value::as_object_mut);
                schemas.for_each(|schema| rebase_references(schema, to));
            }
            _ => {}
        }
    }
}
