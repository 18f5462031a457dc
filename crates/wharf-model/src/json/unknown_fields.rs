//! Unknown fields of protocol objects.

use std::{borrow::Cow, ops::Deref, sync::LazyLock};

use serde::{Deserialize, Deserializer, Serialize, Serializer, ser::SerializeMap as _};
use serde_json::{Value, value::RawValue};

use crate::{JsonMember, LazyJson, Meta};

/// Unknown fields of an object, preserved unchanged so that they can be read and forwarded. They stay text
/// until they are read.
///
/// ```
/// # mod wharf { pub use wharf_model::*; pub mod model { pub use super::*; } }
/// use wharf::model::ToolInfo;
///
/// let json = r#"{"name":"add","inputSchema":{},"color":"red"}"#;
/// let tool: ToolInfo = serde_json::from_str(json).unwrap();
/// assert_eq!(tool.extra["color"], "red");
/// assert_eq!(serde_json::to_string(&tool).unwrap(), json);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnknownFields(Option<Box<LazyJson<Meta>>>);

static EMPTY_FIELDS: LazyLock<Meta> = LazyLock::new(Meta::new);

impl UnknownFields {
    /// Inserts or replaces a field.
    pub fn insert(&mut self, name: impl Into<String>, value: impl Into<Value>) {
        self.0.get_or_insert_default().insert(name.into(), value.into());
    }

    /// Removes a field.
    pub fn remove(&mut self, name: &str) -> Option<Value> {
        let fields = self.0.as_mut()?;
        let mut found = None;
        fields.each_member(|key, value| {
            if key == name {
                found = serde_json::from_str(&value.text()).ok();
            }
        });
        fields.remove_all(&[name]);
        self.0.take_if(|fields| fields.is_empty_object());
        found
    }

    /// Returns whether there are no unknown fields.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Calls `see` with each field; builds no tree.
    pub fn each_member(&self, see: impl FnMut(&str, JsonMember<'_>)) {
        if let Some(fields) = &self.0 {
            fields.each_member(see);
        }
    }
}

impl From<Meta> for UnknownFields {
    fn from(fields: Meta) -> Self {
        UnknownFields((!fields.is_empty()).then(|| Box::new(fields.into())))
    }
}

impl Deref for UnknownFields {
    type Target = Meta;

    fn deref(&self) -> &Meta {
        self.0.as_deref().map_or(&EMPTY_FIELDS, |fields| fields)
    }
}

impl Serialize for UnknownFields {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        let mut written = Ok(());
        self.each_member(|name, value| {
            if written.is_ok() {
                written = match value {
                    JsonMember::Text(json) => match serde_json::from_str::<&RawValue>(json) {
                        Ok(raw) => map.serialize_entry(name, raw),
                        Err(error) => Err(serde::ser::Error::custom(error)),
                    },
                    JsonMember::Tree(tree) => map.serialize_entry(name, tree),
                };
            }
        });
        written?;
        map.end()
    }
}

impl<'de> Deserialize<'de> for UnknownFields {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Meta::deserialize(from).map(UnknownFields::from)
    }
}

/// Unknown fields of an object that is being read: JSON text without the closing brace.
#[derive(Default)]
pub(crate) struct UnknownFieldText(String);

impl UnknownFieldText {
    pub(crate) fn keep(&mut self, name: &str, value: &RawValue) {
        self.0.push(if self.0.is_empty() { '{' } else { ',' });
        self.0.push_str(&Value::from(name).to_string());
        self.0.push(':');
        self.0.push_str(value.get());
    }
}

impl From<UnknownFieldText> for UnknownFields {
    fn from(UnknownFieldText(mut text): UnknownFieldText) -> Self {
        if text.is_empty() {
            return UnknownFields(None);
        }
        text.push('}');
        UnknownFields(Some(Box::new(LazyJson::of_text(text))))
    }
}

/// Field name, borrowed if it has no escapes.
#[derive(Deserialize)]
pub(crate) struct FieldName<'a>(#[serde(borrow)] pub(crate) Cow<'a, str>);

/// Implements `Deserialize` for an object whose unknown fields stay text in `extra`. Serde's own `flatten`
/// would build a tree.
///
/// Each field has its JSON name and a mode: `must` (required), `maybe` (an `Option`), `or_default` (absent or
/// `null` allowed), `present` (keeps `null`). The field after `tag` is ignored, the one after `skip` is never
/// read.
macro_rules! reads_extra {
    ($T:ident { $($field:ident $name:literal $how:ident),* $(,)? } $(tag $tag:literal)? $(skip $skipped:ident)?) => {
        impl<'de> serde::Deserialize<'de> for $T {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                struct ObjectReader;

                impl<'de> serde::de::Visitor<'de> for ObjectReader {
                    type Value = $T;

                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str("a JSON object")
                    }

                    fn visit_map<A: serde::de::MapAccess<'de>>(
                        self,
                        mut from: A,
                    ) -> Result<$T, A::Error> {
                        use serde::de::Error as _;
                        $(let mut $field = None;)*
                        let mut unknown = $crate::json::unknown_fields::UnknownFieldText::default();
                        while let Some(name) = from.next_key::<$crate::json::unknown_fields::FieldName<'de>>()? {
                            match &*name.0 {
                                $($name if $field.is_none() => $field = Some(from.next_value()?),
                                $name => return Err(A::Error::duplicate_field($name)),)*
                                $($tag => drop(from.next_value::<serde::de::IgnoredAny>()?),)?
                                other => {
                                    let json: Box<serde_json::value::RawValue> = from.next_value()?;
                                    unknown.keep(other, &json);
                                }
                            }
                        }
                        Ok($T {
                            $($field: $crate::json::unknown_fields::reads_extra!(@$how A, $field, $name),)*
                            $($skipped: Default::default(),)?
                            extra: unknown.into(),
                        })
                    }
                }

                from.deserialize_map(ObjectReader)
            }
        }
    };
    (@must $A:ident, $field:ident, $name:literal) => {
        $field.ok_or_else(|| $A::Error::missing_field($name))?
    };
    (@maybe $A:ident, $field:ident, $name:literal) => { $crate::json::unknown_fields::flat($field) };
    (@or_default $A:ident, $field:ident, $name:literal) => {
        $crate::json::unknown_fields::flat($field).unwrap_or_default()
    };
    (@present $A:ident, $field:ident, $name:literal) => { $field };
}
pub(crate) use reads_extra;

pub(crate) fn flat<T>(field: Option<Option<T>>) -> Option<T> {
    field.flatten()
}
