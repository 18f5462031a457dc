//! What a peer says beyond what this version of Wharf knows.

use std::{ops::Deref, sync::LazyLock};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::Meta;

/// Fields of an object that this version of Wharf does not know, kept as they came, so that they
/// can be read and passed on.
///
/// ```
/// # mod wharf { pub use wharf_model::*; }
/// use wharf::ToolInfo;
///
/// let json = r#"{"name":"add","inputSchema":{},"color":"red"}"#;
/// let tool: ToolInfo = serde_json::from_str(json).unwrap();
/// assert_eq!(tool.extra["color"], "red");
/// assert_eq!(serde_json::to_string(&tool).unwrap(), json);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extra(Option<Box<Meta>>);

static NOTHING: LazyLock<Meta> = LazyLock::new(Meta::new);

impl Extra {
    /// Adds a field, or sets it.
    pub fn insert(&mut self, name: impl Into<String>, value: impl Into<Value>) {
        self.0.get_or_insert_default().insert(name.into(), value.into());
    }

    /// Takes a field out.
    pub fn remove(&mut self, name: &str) -> Option<Value> {
        let removed = self.0.as_mut()?.remove(name);
        self.0.take_if(|fields| fields.is_empty());
        removed
    }
}

impl From<Meta> for Extra {
    fn from(fields: Meta) -> Self {
        Extra((!fields.is_empty()).then(|| Box::new(fields)))
    }
}

impl Deref for Extra {
    type Target = Meta;

    fn deref(&self) -> &Meta {
        self.0.as_deref().unwrap_or(&NOTHING)
    }
}

impl Serialize for Extra {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        (**self).serialize(to)
    }
}

impl<'de> Deserialize<'de> for Extra {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Meta::deserialize(from).map(Extra::from)
    }
}
