//! Value types of argument schemas, and lint of mistakes in them.

use serde_json::Value;
use wharf_schema::{
    problem_report,
    schema_problems::subschemas,
    validate::{MAX_REPORT_STEPS, Schema},
};

use crate::schema::properties;

/// Maximum number of `$ref`s that are followed to find the type of an argument.
const MAX_REF_HOPS: usize = 8;

/// Maximum number of enum values in a description.
const MAX_DESCRIBED_VALUES: usize = 12;

const BOUNDS: [&str; 4] = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"];

/// Returns the schemas reachable from `schema` that have a type of their own.
pub(crate) fn leaves<'s>(root: &'s Value, schema: &'s Value) -> Vec<&'s Value> {
    leaves_within(root, schema, MAX_REF_HOPS)
}

fn leaves_within<'s>(root: &'s Value, schema: &'s Value, hops: usize) -> Vec<&'s Value> {
    let list = |keyword| schema.get(keyword).and_then(Value::as_array).into_iter().flatten();
    let pointer = schema.get("$ref").and_then(Value::as_str).and_then(|to| to.strip_prefix('#'));
    let target = pointer.and_then(|pointer| root.pointer(pointer));
    let mut inner = ["allOf", "anyOf", "oneOf"].into_iter().flat_map(list).chain(target).peekable();
    if hops == 0 || schema.get("type").is_some() || inner.peek().is_none() {
        return vec![schema];
    }
    inner.flat_map(|it| leaves_within(root, it, hops - 1)).collect()
}

/// Returns the types of a leaf schema; empty if it accepts all of them.
fn types(leaf: &Value) -> Vec<&str> {
    match leaf.get("type") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// Returns whether a value of the type `kind` may be valid.
pub(crate) fn accepts(leaf: &Value, kind: &str) -> bool {
    let types = types(leaf);
    types.is_empty() || types.contains(&kind)
}

/// Describes the accepted values in a few words; empty if all are accepted.
pub(crate) fn describe(root: &Value, schema: &Value) -> String {
    let mut words: Vec<String> = Vec::new();
    for leaf in leaves(root, schema) {
        let new: Vec<String> = match (leaf.get("enum"), leaf.get("const")) {
            (Some(Value::Array(values)), _) => values.iter().map(Value::to_string).collect(),
            (_, Some(value)) => vec![value.to_string()],
            _ => types(leaf).into_iter().map(str::to_owned).collect(),
        };
        for word in new {
            if !words.contains(&word) {
                words.push(problem_report::shorten(word));
            }
        }
    }
    if words.len() > MAX_DESCRIBED_VALUES {
        words.truncate(MAX_DESCRIBED_VALUES);
        words.push("…".into());
    }
    words.join(" or ")
}

/// Returns the arguments that cannot be parsed from a string. URI variables may be lists, and a
/// tuple can be parsed from a list.
pub(crate) fn not_from_string(root: &Value, tuples: bool) -> Vec<&str> {
    let readable = |schema| {
        let leaves = leaves(root, schema);
        leaves.into_iter().any(|leaf| is_plain(leaf) || is_plain_list(root, leaf, tuples))
    };
    let arguments = properties(root).filter(|(_, schema)| !readable(schema));
    arguments.map(|(name, _)| name.as_str()).collect()
}

fn is_plain(leaf: &Value) -> bool {
    ["string", "integer", "number", "boolean"].iter().any(|kind| accepts(leaf, kind))
}

fn is_plain_list(root: &Value, leaf: &Value, tuples: bool) -> bool {
    let is_plain = |items| leaves(root, items).into_iter().any(is_plain);
    let prefix = leaf.get("prefixItems").and_then(Value::as_array);
    accepts(leaf, "array")
        && prefix.is_none_or(|items| tuples && items.iter().all(is_plain))
        && leaf.get("items").is_none_or(|items| items == &Value::Bool(false) || is_plain(items))
}

/// Finds mistakes that the author of a type made in its schema: a range on a value that is not a
/// number, a default that is out of range.
pub(crate) fn mistakes(root: &Value) -> Vec<String> {
    let mut found = Vec::new();
    collect_mistakes(root, root, &mut found);
    found
}

fn collect_mistakes(root: &Value, schema: &Value, found: &mut Vec<String>) {
    let Some(map) = schema.as_object() else { return };
    for (keyword, name, inner) in subschemas(map) {
        if let Some(name) = name.filter(|_| keyword == "properties") {
            found.extend(range_mistake(root, name, inner));
            found.extend(default_mistake(root, name, inner));
        }
        collect_mistakes(root, inner, found);
    }
}

fn range_mistake(root: &Value, name: &str, property: &Value) -> Option<String> {
    BOUNDS.iter().find(|bound| property.get(**bound).is_some())?;
    let is_number = |leaf: &Value| accepts(leaf, "number") || accepts(leaf, "integer");
    if leaves(root, property).into_iter().any(is_number) {
        return None;
    }
    Some(format!("`{name}` has a range, but it is not a number: remove the range"))
}

fn default_mistake(root: &Value, name: &str, property: &Value) -> Option<String> {
    // `null` means that the argument is omitted.
    let default = property.get("default").filter(|default| !default.is_null())?;
    let mut alone = property.clone();
    if let (Some(defs), Some(alone)) = (root.get("$defs"), alone.as_object_mut()) {
        alone.insert("$defs".into(), defs.clone());
    }
    let schema = Schema::compile(&alone).ok()?;
    let found = schema.problems(default, MAX_REPORT_STEPS, true);
    found.first().map(|text| format!("the default of `{name}` is not valid for its schema: {text}"))
}
