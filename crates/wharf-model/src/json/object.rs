//! JSON object that stays text until a field is read.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{IgnoredAny, MapAccess, Visitor},
    ser::Error as _,
};
use serde_json::{Value, value::RawValue};

use crate::Meta;

/// JSON object that is stored as text and parsed when a field is read.
///
/// A tree of small values takes up to 65 times the memory of its text. Objects of arbitrary size that are kept
/// as long as the peer is connected therefore stay text.
///
/// ```
/// # mod wharf { pub use wharf_model::*; pub mod model { pub use super::*; } }
/// use serde_json::json;
/// use wharf::model::ClientCapabilities;
///
/// let json = r#"{"extensions":{"com.example/charts":{"formats":["svg"]}}}"#;
/// let caps: ClientCapabilities = serde_json::from_str(json)?;
/// assert!(caps.extensions.contains_key("com.example/charts"));
/// assert_eq!(caps.extensions.get("com.example/charts"), Some(json!({"formats": ["svg"]})));
/// assert_eq!(caps.extensions.get("com.example/maps"), None);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct JsonObject(Option<Box<str>>);

impl JsonObject {
    /// Returns the JSON text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_deref().unwrap_or("{}")
    }

    /// Returns whether there are no fields.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Returns whether the field exists; does not parse its value.
    #[must_use]
    pub fn contains_key(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    /// Parses the value of a field.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Value> {
        serde_json::from_str(self.find(name)?.get()).ok()
    }

    /// Returns the names of the fields.
    #[must_use]
    pub fn keys(&self) -> Vec<String> {
        let mut names = Vec::new();
        self.walk(|name, _| names.push(name.into_owned()));
        names
    }

    /// Parses all fields.
    #[must_use]
    pub fn to_map(&self) -> Meta {
        serde_json::from_str(self.as_str()).unwrap_or_default()
    }

    /// Inserts or replaces a field.
    pub fn insert(&mut self, name: String, value: Value) -> Option<Value> {
        let mut fields = self.to_map();
        let before = fields.insert(name, value);
        *self = fields.into();
        before
    }

    /// Removes a field.
    pub fn remove(&mut self, name: &str) -> Option<Value> {
        let mut fields = self.to_map();
        let removed = fields.remove(name)?;
        *self = fields.into();
        Some(removed)
    }

    fn find(&self, name: &str) -> Option<&RawValue> {
        let mut found = None;
        // Of duplicate fields the last one counts, as in a map.
        self.walk(|known, value| {
            if known == name {
                found = Some(value);
            }
        });
        found
    }

    fn walk<'a>(&'a self, field: impl FnMut(Cow<'a, str>, &'a RawValue)) {
        if let Some(text) = &self.0 {
            let mut parser = serde_json::Deserializer::from_str(text);
            // Cannot fail: the text is an object.
            let _ = parser.deserialize_map(FieldVisitor(field));
        }
    }
}

struct FieldVisitor<F>(F);

#[derive(Deserialize)]
struct ObjectKey<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de, F: FnMut(Cow<'de, str>, &'de RawValue)> Visitor<'de> for FieldVisitor<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some((ObjectKey(name), value)) = map.next_entry()? {
            (self.0)(name, value);
        }
        Ok(())
    }
}

impl From<Meta> for JsonObject {
    fn from(fields: Meta) -> Self {
        JsonObject((!fields.is_empty()).then(|| Value::Object(fields).to_string().into()))
    }
}

impl fmt::Debug for JsonObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for JsonObject {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_str(self.as_str()).map_err(S::Error::custom)?;
        raw.serialize(to)
    }
}

/// Anything but an object is read as an empty object.
impl<'de> Deserialize<'de> for JsonObject {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(from)?;
        let inside = raw.get().strip_prefix('{').map(str::trim_ascii_start);
        let is_empty = inside.is_none_or(|inside| inside.starts_with('}'));
        Ok(JsonObject((!is_empty).then(|| raw.into())))
    }
}

/// True for any JSON value other than `null` and `false`; the value itself is discarded.
pub(crate) struct JsonFlag(pub(crate) bool);

impl<'de> Deserialize<'de> for JsonFlag {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(FlagVisitor)
    }
}

struct FlagVisitor;

macro_rules! yes {
    ($($name:ident($type:ty)),*) => {
        $(fn $name<E>(self, _: $type) -> Result<JsonFlag, E> { Ok(JsonFlag(true)) })*
    };
}

impl<'de> Visitor<'de> for FlagVisitor {
    type Value = JsonFlag;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    yes! { visit_i64(i64), visit_u64(u64), visit_f64(f64), visit_str(&str) }

    fn visit_bool<E>(self, is_set: bool) -> Result<JsonFlag, E> {
        Ok(JsonFlag(is_set))
    }

    fn visit_unit<E>(self) -> Result<JsonFlag, E> {
        Ok(JsonFlag(false))
    }

    fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut seq: A) -> Result<JsonFlag, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(JsonFlag(true))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<JsonFlag, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(JsonFlag(true))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn fields_are_found_set_and_taken_out() {
        let mut object: JsonObject =
            serde_json::from_str(r#" { "a":1, "b\u0062": {"c": [ ]}, "a":2 } "#).unwrap();
        assert_eq!((object.get("a"), object.get("bb")), (Some(json!(2)), Some(json!({"c": []}))));
        assert_eq!(object.keys(), ["a", "bb", "a"]);
        assert_eq!(object.insert("d".into(), json!(null)), None);
        assert_eq!(object.remove("bb"), Some(json!({"c": []})));
        assert_eq!(object.as_str(), r#"{"a":2,"d":null}"#);
        assert_eq!(serde_json::to_value(&object).unwrap(), json!({"a": 2, "d": null}));
        assert_eq!(JsonObject::from(object.to_map()), object);
    }

    #[test]
    fn values_other_than_objects_with_fields_are_empty() {
        for json in ["{}", "{ }", "[]", "null", "7", "\"{\""] {
            let object: JsonObject = serde_json::from_str(json).unwrap();
            assert!(object.is_empty() && object.get("a").is_none(), "{json}");
            assert_eq!(serde_json::to_string(&object).unwrap(), "{}");
        }
        let from_tree: JsonObject = serde_json::from_value(json!({"a": {"b": 1}})).unwrap();
        assert_eq!(from_tree.as_str(), r#"{"a":{"b":1}}"#);
    }
}
