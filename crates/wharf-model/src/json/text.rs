//! JSON as text.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, ser::Error as _};
use serde_json::value::RawValue;

/// One JSON value as its text, as it came or as it goes out.
///
/// It is serde_json's `RawValue` with room to spare: to cut the text of a small value to its length, as
/// that does, takes longer than to write it.
///
/// ```
/// # mod wharf { pub use wharf_model::*; }
/// use wharf::JsonText;
///
/// let tide = JsonText::of(&[1.5, 2.25])?;
/// assert_eq!(tide.get(), "[1.5,2.25]");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct JsonText(String);

impl JsonText {
    /// The JSON of `value`.
    ///
    /// # Errors
    /// If it has none: a map whose keys are no texts, for one.
    pub fn of(value: &(impl Serialize + ?Sized)) -> Result<Self, serde_json::Error> {
        serde_json::to_string(value).map(JsonText)
    }

    /// The text.
    #[must_use]
    pub fn get(&self) -> &str {
        &self.0
    }
}

impl From<Box<RawValue>> for JsonText {
    fn from(raw: Box<RawValue>) -> Self {
        JsonText(Box::<str>::from(raw).into())
    }
}

impl fmt::Debug for JsonText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for JsonText {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_str(&self.0).map_err(S::Error::custom)?;
        raw.serialize(to)
    }
}

impl<'de> Deserialize<'de> for JsonText {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(from).map(JsonText::from)
    }
}
