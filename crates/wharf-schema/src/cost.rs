//! How much work a schema makes of a value.

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use serde_json::Value;

use crate::survey::subschemas;

/// Keywords whose subschemas judge the same value as the schema they stand in.
const IN_PLACE: &[&str] =
    &["allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"];

/// References that lead on for longer than this are as bad as too many.
const HOPS: usize = 256;

/// Whether some value would be held against more than `most` schemas: `allOf` and `$ref` can
/// double the work with every line.
#[must_use]
pub fn is_too_high(root: &Value, most: usize) -> bool {
    highest(root) > most
}

/// How many schemas some value is held against, at worst.
#[must_use]
pub fn highest(root: &Value) -> usize {
    let mut survey = Survey { root, known: HashMap::default() };
    survey.worst(root)
}

struct Survey<'a> {
    root: &'a Value,
    /// By address; `None` while it is being counted, so that a circle ends.
    known: HashMap<*const Value, Option<usize>, RandomState>,
}

impl<'a> Survey<'a> {
    /// The highest cost of any schema in the document.
    fn worst(&mut self, schema: &'a Value) -> usize {
        let here = self.cost(schema, 0);
        let Some(map) = schema.as_object() else { return here };
        subschemas(map).map(|(_, _, inner)| self.worst(inner)).fold(here, usize::max)
    }

    /// How many schemas a value is held against that is held against this one.
    fn cost(&mut self, schema: &'a Value, hops: usize) -> usize {
        let Some(map) = schema.as_object() else { return 1 };
        if hops > HOPS {
            return usize::MAX;
        }
        match self.known.get(&std::ptr::from_ref(schema)) {
            Some(known) => return known.unwrap_or(1),
            None => self.known.insert(schema, None),
        };
        let to = map.get("$ref").and_then(Value::as_str).and_then(|to| to.strip_prefix('#'));
        let target = to.and_then(|pointer| self.root.pointer(pointer));
        let in_place = subschemas(map).filter(|(keyword, ..)| IN_PLACE.contains(keyword));
        let others = in_place.map(|(_, _, inner)| inner).chain(target);
        let cost = others.fold(1, |sum: usize, it| sum.saturating_add(self.cost(it, hops + 1)));
        self.known.insert(schema, Some(cost));
        cost
    }
}

/// Whether saying what is wrong with `value` takes at most `most` looks at a part of it. Whether
/// it is right at all is remembered for each part, but what is wrong is looked for anew each time
/// a schema leads there: twice as long with every level, if two of its branches do.
#[must_use]
pub fn is_told_quickly(root: &Value, value: &Value, most: usize) -> bool {
    let mut looks = Looks { root, left: most, known: HashMap::default() };
    looks.count(root, value, 0).is_some_and(|count| count <= most)
}

/// A schema and a part of a value, by their addresses.
type Look = (*const Value, *const Value);

struct Looks<'a> {
    root: &'a Value,
    left: usize,
    known: HashMap<Look, usize, RandomState>,
}

impl<'a> Looks<'a> {
    /// `None` for too many, or for what cannot be counted.
    fn count(&mut self, schema: &'a Value, value: &'a Value, hops: usize) -> Option<usize> {
        let Some(map) = schema.as_object() else { return Some(1) };
        let look = (std::ptr::from_ref(schema), std::ptr::from_ref(value));
        if let Some(known) = self.known.get(&look) {
            return Some(*known);
        }
        self.left = self.left.checked_sub(1).filter(|_| hops <= HOPS)?;
        // A circle ends here.
        self.known.insert(look, 1);
        let mut count = 1_usize;
        if let Some(to) = map.get("$ref").or_else(|| map.get("$dynamicRef")) {
            let target = self.root.pointer(to.as_str()?.strip_prefix('#')?)?;
            count = count.saturating_add(self.count(target, value, hops + 1)?);
        }
        for (keyword, name, inner) in subschemas(map) {
            for part in parts(keyword, name, value) {
                count = count.saturating_add(self.count(inner, part, hops + 1)?);
            }
        }
        self.known.insert(look, count);
        Some(count)
    }
}

/// The parts of `value` that a schema under `keyword` is for, or a few more.
fn parts<'a>(keyword: &str, name: Option<&str>, value: &'a Value) -> Vec<&'a Value> {
    match (keyword, value) {
        ("$defs" | "definitions" | "contentSchema", _) => Vec::new(),
        ("properties", _) => name.and_then(|name| value.get(name)).into_iter().collect(),
        (keyword, _) if IN_PLACE.contains(&keyword) => vec![value],
        (_, Value::Object(map)) => map.values().collect(),
        (_, Value::Array(items)) => items.iter().collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn references_that_double_the_work_are_counted() {
        let doubling = |times: usize| {
            let mut defs = serde_json::Map::new();
            defs.insert("a0".into(), json!({"type": "object"}));
            for n in 1..=times {
                let down = json!({"$ref": format!("#/$defs/a{}", n - 1)});
                defs.insert(format!("a{n}"), json!({"allOf": [down, down]}));
            }
            json!({"type": "object", "$defs": defs})
        };
        assert!(!is_too_high(&doubling(8), 1024));
        assert!(is_too_high(&doubling(9), 1024));
        assert!(is_too_high(&doubling(200), 1024));
        assert!(is_too_high(&doubling(2000), 1024));
    }

    #[test]
    fn circles_end_and_depth_in_the_value_is_free() {
        assert!(!is_too_high(&json!({"$ref": "#"}), 10));
        assert!(!is_too_high(&json!({"properties": {"next": {"$ref": "#"}}}), 3));
    }
}
