//! Roots: the places a client lets a server work in.

use serde::{Deserialize, Serialize};

use crate::Meta;
use crate::builders::{meta_setter, or_default, setters};

/// One place, today always a `file:` URI.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Root {
    /// Where it is.
    pub uri: String,
    /// Its name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The `_meta` object.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Box<Meta>>,
}

impl Root {
    /// The root at `uri`.
    pub fn new(uri: impl Into<String>) -> Self {
        Self { uri: uri.into(), ..Self::default() }
    }
}

setters! { Root {
    /// Sets the name for people.
    name(name: some String);
} }

meta_setter!(Root);

/// The answer to `roots/list`.
///
/// ```
/// # mod wharf { pub use wharf_model::*; }
/// use wharf::{Root, RootsResult};
///
/// let roots = RootsResult::new([Root::new("file:///home/me/project").name("project")]);
/// assert_eq!(roots.roots.len(), 1);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RootsResult {
    /// The roots.
    #[serde(default, deserialize_with = "or_default")]
    pub roots: Vec<Root>,
}

impl RootsResult {
    /// A result with these roots.
    pub fn new(roots: impl IntoIterator<Item = Root>) -> Self {
        Self { roots: roots.into_iter().collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn round_trips() {
        let json = json!({"roots": [{"uri": "file:///home/user/projects/myproject", "name": "My Project"},
            {"uri": "file:///b", "_meta": {"k": 1}}]});
        let it: RootsResult = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(serde_json::to_value(it).unwrap(), json);
    }
}
