//! Validates `x-mcp-header` annotations: parameters that HTTP clients mirror into headers.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::schema_problems::subschemas;

/// Keyword that names a parameter's header.
pub const ANNOTATION: &str = "x-mcp-header";

/// Errors in the annotations of a tool's input schema, as text.
#[must_use]
pub fn problems(schema: &Value, depth: usize) -> Vec<String> {
    let mut check = AnnotationCheck { seen: BTreeSet::new(), found: Vec::new() };
    check.visit(schema, &[], true, depth);
    check.found
}

struct AnnotationCheck {
    seen: BTreeSet<String>,
    found: Vec<String>,
}

impl AnnotationCheck {
    /// `reachable`: true if only `properties` keywords lead here.
    fn visit(&mut self, schema: &Value, path: &[&str], reachable: bool, depth: usize) {
        let Some(map) = schema.as_object().filter(|_| depth > 0) else { return };
        if let Some(name) = map.get(ANNOTATION) {
            let place = if path.is_empty() { "the schema itself".into() } else { path.join(".") };
            if let Some(problem) = self.problem(name, map, reachable && !path.is_empty()) {
                self.found.push(format!("`{ANNOTATION}` on `{place}`: {problem}"));
            }
        }
        for (keyword, name, inner) in subschemas(map) {
            let path = [path, &[name.unwrap_or(keyword)]].concat();
            self.visit(inner, &path, reachable && keyword == "properties", depth - 1);
        }
    }

    fn problem(&mut self, name: &Value, on: &Map<String, Value>, ok: bool) -> Option<String> {
        let Some(name) = name.as_str() else { return Some("its value must be a string".into()) };
        if name.is_empty() || !name.bytes().all(is_tchar) {
            return Some(format!(
                "{name:?} is not an HTTP header name: use letters, digits and `-`"
            ));
        }
        if !self.seen.insert(name.to_ascii_lowercase()) {
            return Some(format!("`{name}` is used twice: header names ignore case"));
        }
        if !ok {
            return Some(
                "only properties that `properties` alone lead to can be mirrored, not ones inside \
                 arrays, `$ref`, `$defs`, conditions or compositions"
                    .into(),
            );
        }
        let types: Vec<&str> = match on.get("type") {
            Some(Value::String(one)) => vec![one],
            Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        let mut named = types.iter().filter(|it| **it != "null").peekable();
        let primitive =
            named.peek().is_some() && named.all(|it| ["string", "integer", "boolean"].contains(it));
        (!primitive).then(|| {
            "only a plain string, integer or boolean can be mirrored (an enum of its own is one \
             with `#[schemars(inline)]`)"
                .into()
        })
    }
}

/// Token characters of RFC 9110, section 5.6.2.
fn is_tchar(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
