//! Derives JSON Schemas from types.

use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::{Map, Value};
use wharf_schema::schema_problems::subschemas;

use crate::schema::ArgumentSchema;

/// Derives the schema of arguments that deserialize as `T`.
pub(crate) fn input<T: JsonSchema>() -> ArgumentSchema {
    let settings = SchemaSettings::draft2020_12().with(|it| it.meta_schema = None);
    let root = settings.for_deserialize().into_generator().into_root_schema_for::<T>();
    let mut schema = match tidy(root.to_value()) {
        Value::Object(schema) => schema,
        // `true`: a type that accepts any JSON.
        _ => Map::new(),
    };
    // The protocol requires `"type": "object"`, which schemas of tagged enums do not contain at the
    // top level.
    schema.entry("type").or_insert_with(|| "object".into());
    drop_null_from_headers(&mut schema);
    let stricter_than_type = stricter_than_type(&schema);
    let mut schema = Value::Object(schema);
    drop_number_formats(&mut schema);
    ArgumentSchema { schema, stricter_than_type }
}

/// Derives the schema of structured content that serializes from `T`; `None` if it would be empty.
pub(crate) fn output<T: JsonSchema>() -> Option<Value> {
    let settings = SchemaSettings::draft2020_12().with(|it| it.meta_schema = None);
    let root = settings.for_serialize().into_generator().into_root_schema_for::<T>();
    let mut schema = tidy(root.to_value());
    drop_number_formats(&mut schema);
    schema.as_object().is_some_and(|it| !it.is_empty()).then_some(schema)
}

/// Removes titles that only repeat the name of a Rust type, and inlines a root that is a reference.
fn tidy(root: Value) -> Value {
    let Value::Object(mut root) = root else { return root };
    root.shift_remove("title");
    root.shift_remove("$schema");
    let target =
        root.get("$ref").and_then(Value::as_str).and_then(|to| to.strip_prefix("#/$defs/"));
    if let Some(target) = target.map(str::to_owned) {
        let found = root.get("$defs").and_then(|defs| defs.get(&target)).cloned();
        if let Some(Value::Object(found)) = found {
            root.shift_remove("$ref");
            for (key, value) in found {
                root.entry(key).or_insert(value);
            }
            root.shift_remove("title");
        }
    }
    Value::Object(root)
}

/// Removes formats such as `uint32`: they are not standard formats, and validators complain about
/// them.
fn drop_number_formats(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            if map.get("format").and_then(Value::as_str).is_some_and(is_number_format) {
                map.shift_remove("format");
            }
            map.values_mut().for_each(drop_number_formats);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_number_formats),
        _ => {}
    }
}

/// Removes `null` from the types of header parameters (`x-mcp-header`): clients send plain types
/// only, and omit an optional parameter.
fn drop_null_from_headers(schema: &mut Map<String, Value>) {
    let Some(Value::Object(properties)) = schema.get_mut("properties") else { return };
    for property in properties.values_mut().filter_map(Value::as_object_mut) {
        drop_null_from_headers(property);
        let Some(Value::Array(types)) = property.get("type") else { continue };
        let plain: Vec<&Value> = types.iter().filter(|it| *it != "null").collect();
        if let ([only], true) = (plain.as_slice(), property.contains_key("x-mcp-header")) {
            let only = (*only).clone();
            property.insert("type".into(), only);
        }
    }
}

fn is_number_format(format: &str) -> bool {
    let width = format.strip_prefix("uint").or_else(|| format.strip_prefix("int"));
    matches!(format, "float" | "double")
        || width.is_some_and(|width| width.is_empty() || width.parse::<u16>().is_ok())
}

/// Keywords that deserialization of the type does not enforce.
const STRICTER_KEYWORDS: &[&str] = &[
    "const",
    "contains",
    "dependentRequired",
    "dependentSchemas",
    "dependencies",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "if",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "not",
    "pattern",
    "patternProperties",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
    "uniqueItems",
];

/// Returns whether a derived schema is stricter than deserializing its type.
fn stricter_than_type(schema: &Map<String, Value>) -> bool {
    let here = |(keyword, value): (&String, &Value)| match keyword.as_str() {
        "format" => !value.as_str().is_some_and(is_number_format),
        "minimum" | "maximum" => !is_bound_of_type(schema, keyword, value),
        "additionalProperties" => value == &Value::Bool(false),
        other => STRICTER_KEYWORDS.contains(&other),
    };
    schema.iter().any(here)
        || subschemas(schema).any(|(_, _, inner)| inner.as_object().is_some_and(stricter_than_type))
}

/// Returns whether `bound` is the bound of the integer type itself.
fn is_bound_of_type(schema: &Map<String, Value>, keyword: &str, bound: &Value) -> bool {
    let Some(format) = schema.get("format").and_then(Value::as_str) else { return false };
    let bounds: (i64, i64) = match format {
        "int8" => (i8::MIN.into(), i8::MAX.into()),
        "int16" => (i16::MIN.into(), i16::MAX.into()),
        "int32" => (i32::MIN.into(), i32::MAX.into()),
        "uint8" => (0, u8::MAX.into()),
        "uint16" => (0, u16::MAX.into()),
        "uint32" => (0, u32::MAX.into()),
        "uint" | "uint64" | "uint128" => (0, -1),
        _ => return false,
    };
    bound.as_i64() == Some(if keyword == "minimum" { bounds.0 } else { bounds.1 })
}
