//! Who a peer is.

use serde::{Deserialize, Serialize};

use crate::Extra;
use crate::builders::{or_default, setters};

/// The name and version of a client or server.
///
/// ```
/// # mod wharf { pub use wharf_model::*; }
/// use wharf::Implementation;
///
/// let me = Implementation::new("harbour", "1.0.0").title("The Harbour");
/// assert_eq!(me.version, "1.0.0");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Implementation {
    /// Its name in code.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Where to read about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub website_url: Option<String>,
    /// Pictures to show it with.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub icons: Vec<Icon>,
    /// Fields that this version of Wharf does not know, kept as they came.
    #[serde(flatten)]
    pub extra: Extra,
}

impl Implementation {
    /// An implementation by name and version.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self { name: name.into(), version: version.into(), ..Self::default() }
    }
}

setters! { Implementation {
    /// Sets the name for people.
    title(title: some String);
    /// Says what it does.
    description(description: some String);
    /// Says where to read about it.
    website_url(website_url: some String);
    /// Adds an icon.
    icon(icons: push Icon);
} }

/// A picture that stands for something.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Icon {
    /// An HTTP(S) or `data:` URI.
    pub src: String,
    /// Its media type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// Sizes such as `48x48`, or `any`.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub sizes: Vec<String>,
    /// The background it is drawn for: `light` or `dark`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub theme: Option<String>,
    /// Fields that this version of Wharf does not know, kept as they came.
    #[serde(flatten)]
    pub extra: Extra,
}

impl Icon {
    /// The icon at `src`.
    pub fn new(src: impl Into<String>) -> Self {
        Self { src: src.into(), ..Self::default() }
    }
}

setters! { Icon {
    /// Sets the media type.
    mime_type(mime_type: some String);
    /// Adds a size, such as `48x48`.
    size(sizes: push String);
    /// Sets the background it is drawn for.
    theme(theme: some String);
} }

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn round_trips() {
        let json = json!({"name": "ExampleServer", "version": "1.0.0", "title": "Example", "description": "d",
            "websiteUrl": "https://x.test", "icons": [{"src": "https://x.test/i.png", "theme": "dark", "sizes": ["48x48"]}]});
        let it: Implementation = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(serde_json::to_value(it).unwrap(), json);
        let bare = r#"{"name":"a","version":"1"}"#;
        assert_eq!(serde_json::to_string(&Implementation::new("a", "1")).unwrap(), bare);
    }
}
