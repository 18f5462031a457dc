//! Structured output of any type, for revisions that carry only objects: `{"result": …}`, as the
//! official SDKs write it.
//!
//! A result is wrapped by what it is: objects never are, anything else always. So the schema says
//! the same about each value that it allows.

use serde_json::{Map, Value, json};

use crate::versions::translate::MAPS;

/// The property that holds what is wrapped.
pub(crate) const KEY: &str = "result";

/// How deep references and combinations are followed to find out what a schema allows.
const DEPTH: usize = 8;

/// Keywords whose values are no schemas.
const DATA: [&str; 4] = ["const", "enum", "default", "examples"];

/// What a schema allows.
#[derive(Clone, Copy)]
struct Allows {
    objects: bool,
    others: bool,
}

impl Allows {
    const ALL: Allows = Allows { objects: true, others: true };
    const NONE: Allows = Allows { objects: false, others: false };

    fn and(self, other: Allows) -> Allows {
        Allows { objects: self.objects && other.objects, others: self.others && other.others }
    }

    fn or(self, other: Allows) -> Allows {
        Allows { objects: self.objects || other.objects, others: self.others || other.others }
    }

    fn of_values<'v>(values: impl IntoIterator<Item = &'v Value>) -> Allows {
        let one = |it: &Value| Allows { objects: it.is_object(), others: !it.is_object() };
        values.into_iter().map(one).fold(Allows::NONE, Allows::or)
    }

    fn of_types(types: &Value) -> Allows {
        let one = |it: &Value| Allows { objects: it == "object", others: it != "object" };
        match types {
            Value::Array(all) => all.iter().map(one).fold(Allows::NONE, Allows::or),
            type_name => one(type_name),
        }
    }

    /// What `schema` in `root` allows, as far as its types say; what they do not say is allowed.
    fn of(schema: &Value, root: &Value, depth: usize) -> Allows {
        let keywords = match schema {
            Value::Object(keywords) if depth > 0 => keywords,
            Value::Bool(false) => return Allows::NONE,
            _ => return Allows::ALL,
        };
        let within = |schema: &Value| Allows::of(schema, root, depth - 1);
        let all = keywords.iter().map(|(keyword, value)| match (keyword.as_str(), value) {
            ("type", types) => Allows::of_types(types),
            ("const", value) => Allows::of_values([value]),
            ("enum", Value::Array(values)) => Allows::of_values(values),
            ("allOf", Value::Array(all)) => all.iter().map(within).fold(Allows::ALL, Allows::and),
            ("anyOf" | "oneOf", Value::Array(all)) => {
                all.iter().map(within).fold(Allows::NONE, Allows::or)
            }
            ("$ref", Value::String(to)) => {
                let target = to.strip_prefix('#').and_then(|pointer| root.pointer(pointer));
                target.map_or(Allows::ALL, within)
            }
            _ => Allows::ALL,
        });
        all.fold(Allows::ALL, Allows::and)
    }
}

/// Makes an output schema one of objects, for values that are wrapped if they are none.
pub(crate) fn schema(schema: &mut Value) {
    if schema.get("type").is_some_and(|it| it == "object") {
        return;
    }
    let allows = Allows::of(schema, schema, DEPTH);
    let dialect = schema.get("$schema").cloned();
    let required = json!([KEY]);
    let mut wrapped = match (allows.objects, schema.take()) {
        (true, Value::Object(mut keywords)) if !allows.others => {
            keywords.insert("type".into(), "object".into());
            keywords.into()
        }
        (true, natural) => {
            let natural = moved(natural, "#/anyOf/0");
            let wrapper = json!({"properties": {KEY: {"$ref": "#/anyOf/0"}}, "required": required});
            json!({"type": "object", "anyOf": [natural, wrapper]})
        }
        (false, natural) => {
            let natural = moved(natural, "#/properties/result");
            json!({"type": "object", "properties": {KEY: natural}, "required": required})
        }
    };
    if let Some(dialect) = dialect {
        wrapped["$schema"] = dialect;
    }
    *schema = wrapped;
}

/// A schema whose pointers to itself lead to where it stands now.
fn moved(mut schema: Value, to: &str) -> Value {
    if let Value::Object(keywords) = &mut schema {
        keywords.remove("$schema");
        move_references(keywords, to);
    }
    schema
}

fn move_references(keywords: &mut Map<String, Value>, to: &str) {
    // What has an address of its own is where its pointers lead.
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
            _ if DATA.contains(&&**keyword) => {}
            Value::Object(named) if MAPS.contains(&&**keyword) => {
                let schemas = named.values_mut().filter_map(Value::as_object_mut);
                schemas.for_each(|schema| move_references(schema, to));
            }
            Value::Object(schema) => move_references(schema, to),
            Value::Array(list) => {
                let schemas = list.iter_mut().filter_map(Value::as_object_mut);
                schemas.for_each(|schema| move_references(schema, to));
            }
            _ => {}
        }
    }
}
