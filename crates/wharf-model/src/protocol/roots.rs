//! Roots: directories in which a client lets a server work.

use serde::{Deserialize, Serialize};

use crate::Meta;
use crate::builders::{meta_setter, or_default, setters};

/// Root, currently always a `file:` URI.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Root {
    /// URI.
    pub uri: String,
    /// Display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The `_meta` object.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Box<Meta>>,
}

impl Root {
    /// Creates a root with a URI.
    pub fn new(uri: impl Into<String>) -> Self {
        Self { uri: uri.into(), ..Self::default() }
    }
}

setters! { Root {
    /// Sets the display name.
    name(name: some String);
} }

meta_setter!(Root);

/// Result of `roots/list`.
///
/// ```
/// # mod wharf { pub use wharf_model::*; pub mod model { pub use super::*; } }
/// use wharf::model::{Root, RootsResult};
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
    /// Creates a result with these roots.
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
