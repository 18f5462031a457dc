//! Identity of a client or server.

use serde::{Deserialize, Serialize};

use crate::UnknownFields;
use crate::builders::{or_default, setters};

/// Name and version of a client or server.
///
/// ```
/// # mod wharf { pub use wharf_model::*; pub mod model { pub use super::*; } }
/// use wharf::model::Implementation;
///
/// let me = Implementation::new("harbour", "1.0.0").title("The Harbour");
/// assert_eq!(me.version, "1.0.0");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Implementation {
    /// Programmatic name.
    pub name: String,
    /// Version.
    pub version: String,
    /// Display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Description.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// URL of its website.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub website_url: Option<String>,
    /// Icons for display.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub icons: Vec<Icon>,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub extra: UnknownFields,
}

impl Implementation {
    /// Creates an implementation with a name and version.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self { name: name.into(), version: version.into(), ..Self::default() }
    }
}

setters! { Implementation {
    /// Sets the display name.
    title(title: some String);
    /// Sets the description.
    description(description: some String);
    /// Sets the URL of its website.
    website_url(website_url: some String);
    /// Adds an icon.
    icon(icons: push Icon);
} }

/// Icon for display.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Icon {
    /// An HTTP(S) or `data:` URI.
    pub src: String,
    /// Media type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// Sizes such as `48x48`, or `any`.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub sizes: Vec<String>,
    /// Background theme of the icon: `light` or `dark`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub theme: Option<String>,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub extra: UnknownFields,
}

impl Icon {
    /// Creates an icon at `src`.
    pub fn new(src: impl Into<String>) -> Self {
        Self { src: src.into(), ..Self::default() }
    }
}

setters! { Icon {
    /// Sets the media type.
    mime_type(mime_type: some String);
    /// Adds a size, such as `48x48`.
    size(sizes: push String);
    /// Sets the background theme.
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
