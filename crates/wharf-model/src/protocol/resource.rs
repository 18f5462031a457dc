//! Resources: data of a server that clients can read.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::Error as _;
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::builders::{meta_setter, setters};
use crate::json::unknown_fields::reads_extra;
use crate::{Annotations, CacheHint, Icon, LazyJson, Meta, UnknownFields};

/// Resource as listed by `resources/list`.
///
/// ```
/// # mod wharf { pub use wharf_model::*; pub mod model { pub use super::*; } }
/// use wharf::model::ResourceInfo;
///
/// let log = ResourceInfo::new("file:///var/log/app", "app").title("Log").mime_type("text/plain");
/// assert_eq!(log.title.as_deref(), Some("Log"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ResourceInfo {
    /// URI.
    pub uri: String,
    /// Programmatic name.
    pub name: String,
    /// Display name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Description, also for models.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Icons for display.
    #[serde(skip_serializing_if = "LazyJson::<Vec<Icon>>::is_empty")]
    pub icons: LazyJson<Vec<Icon>>,
    /// Media type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// Annotations for the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Box<Annotations>>,
    /// Raw size in bytes, before any encoding.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// The `_meta` object.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Box<LazyJson<Meta>>>,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub extra: UnknownFields,
}

reads_extra! { ResourceInfo {
    uri "uri" must,
    name "name" must,
    title "title" maybe,
    description "description" maybe,
    icons "icons" or_default,
    mime_type "mimeType" maybe,
    annotations "annotations" maybe,
    size "size" maybe,
    meta "_meta" maybe,
} }

impl ResourceInfo {
    /// Creates a resource with a URI and a name.
    pub fn new(uri: impl Into<String>, name: impl Into<String>) -> Self {
        Self { uri: uri.into(), name: name.into(), ..Self::default() }
    }
}

setters! { ResourceInfo {
    /// Sets the display name.
    title(title: some String);
    /// Sets the description.
    description(description: some String);
    /// Adds an icon.
    icon(icons: push Icon);
    /// Sets the media type.
    mime_type(mime_type: some String);
    /// Sets the annotations.
    annotations(annotations: boxed Annotations);
    /// Sets the raw size in bytes.
    size(size: some u64);
} }

/// Resource template: a family of resources with an RFC 6570 URI template.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct TemplateInfo {
    /// RFC 6570 URI template.
    pub uri_template: String,
    /// Programmatic name.
    pub name: String,
    /// Display name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Description, also for models.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Icons for display.
    #[serde(skip_serializing_if = "LazyJson::<Vec<Icon>>::is_empty")]
    pub icons: LazyJson<Vec<Icon>>,
    /// Media type, if all matching resources share it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// Annotations for the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Box<Annotations>>,
    /// The `_meta` object.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Box<LazyJson<Meta>>>,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub extra: UnknownFields,
}

reads_extra! { TemplateInfo {
    uri_template "uriTemplate" must,
    name "name" must,
    title "title" maybe,
    description "description" maybe,
    icons "icons" or_default,
    mime_type "mimeType" maybe,
    annotations "annotations" maybe,
    meta "_meta" maybe,
} }

impl TemplateInfo {
    /// Creates a template such as `file:///{path}`.
    pub fn new(uri_template: impl Into<String>, name: impl Into<String>) -> Self {
        Self { uri_template: uri_template.into(), name: name.into(), ..Self::default() }
    }
}

setters! { TemplateInfo {
    /// Sets the display name.
    title(title: some String);
    /// Sets the description.
    description(description: some String);
    /// Adds an icon.
    icon(icons: push Icon);
    /// Sets the media type.
    mime_type(mime_type: some String);
    /// Sets the annotations.
    annotations(annotations: boxed Annotations);
} }

/// Contents of a resource, or of a part of it.
///
/// ```
/// # mod wharf { pub use wharf_model::*; pub mod model { pub use super::*; } }
/// use wharf::model::ResourceContents;
///
/// let part = ResourceContents::blob("file:///logo.png", [0x89, 0x50]).mime_type("image/png");
/// assert_eq!(serde_json::to_value(&part).unwrap()["blob"], "iVA=");
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ResourceContents {
    /// URI.
    pub uri: String,
    /// Media type.
    pub mime_type: Option<String>,
    /// Text or bytes.
    pub body: Body,
    /// The `_meta` object.
    pub meta: Option<Box<LazyJson<Meta>>>,
    /// Unknown fields, preserved unchanged.
    pub extra: UnknownFields,
}

/// Body of a resource, serialized as the field `text` or `blob`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// Text.
    Text(String),
    /// Bytes, in base64.
    Blob(String),
}

impl ResourceContents {
    /// Creates text contents.
    pub fn text(uri: impl Into<String>, text: impl Into<String>) -> Self {
        Self::new(uri.into(), Body::Text(text.into()))
    }

    /// Creates binary contents from raw bytes, encoded in base64.
    pub fn blob(uri: impl Into<String>, bytes: impl AsRef<[u8]>) -> Self {
        Self::new(uri.into(), Body::Blob(STANDARD.encode(bytes)))
    }

    fn new(uri: String, body: Body) -> Self {
        Self { uri, mime_type: None, body, meta: None, extra: UnknownFields::default() }
    }
}

setters! { ResourceContents {
    /// Sets the media type.
    mime_type(mime_type: some String);
} }

impl Serialize for ResourceContents {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut to = to.serialize_map(None)?;
        to.serialize_entry("uri", &self.uri)?;
        if let Some(mime_type) = &self.mime_type {
            to.serialize_entry("mimeType", mime_type)?;
        }
        match &self.body {
            Body::Text(text) => to.serialize_entry("text", text)?,
            Body::Blob(blob) => to.serialize_entry("blob", blob)?,
        }
        if let Some(meta) = &self.meta {
            to.serialize_entry("_meta", meta)?;
        }
        for (name, value) in &*self.extra {
            to.serialize_entry(name, value)?;
        }
        to.end()
    }
}

impl<'de> Deserialize<'de> for ResourceContents {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Fields {
            uri: String,
            mime_type: Option<String>,
            text: Option<String>,
            blob: Option<String>,
            meta: Option<Box<LazyJson<Meta>>>,
            extra: UnknownFields,
        }
        reads_extra! { Fields {
            uri "uri" must,
            mime_type "mimeType" maybe,
            text "text" maybe,
            blob "blob" maybe,
            meta "_meta" maybe,
        } }
        let Fields { uri, mime_type, text, blob, meta, extra } = Fields::deserialize(from)?;
        let body = text.map(Body::Text).or(blob.map(Body::Blob));
        let body =
            body.ok_or_else(|| D::Error::custom("resource contents need `text` or `blob`"))?;
        Ok(Self { uri, mime_type, body, meta, extra })
    }
}

/// Result of `resources/read`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ReadResult {
    /// Contents.
    pub contents: Vec<ResourceContents>,
    /// Cache hint. It is not serialized here, because not every protocol revision has it.
    #[serde(skip)]
    pub cache: Option<CacheHint>,
    /// The `_meta` object.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Box<LazyJson<Meta>>>,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub extra: UnknownFields,
}

reads_extra! { ReadResult {
    contents "contents" or_default,
    meta "_meta" maybe,
} skip cache }

impl ReadResult {
    /// Creates a result with these contents.
    pub fn new(contents: impl IntoIterator<Item = ResourceContents>) -> Self {
        Self { contents: contents.into_iter().collect(), ..Self::default() }
    }
}

setters! { ReadResult {
    /// Sets the cache hint.
    cache(cache: some CacheHint);
} }

impl From<ResourceContents> for ReadResult {
    fn from(contents: ResourceContents) -> Self {
        Self::new([contents])
    }
}

meta_setter!(ResourceInfo, TemplateInfo, ResourceContents, ReadResult);

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn round_trips() {
        let json = json!({"uri": "file:///project/src/main.rs", "name": "main.rs", "title": "Rust Application",
            "mimeType": "text/x-rust", "size": 12, "icons": [{"src": "https://x.test/i.png", "sizes": ["48x48"]}],
            "annotations": {"audience": ["user"], "priority": 0.8}, "_meta": {"k": 1}});
        let it: ResourceInfo = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(serde_json::to_value(it).unwrap(), json);

        let json = json!({"uriTemplate": "file:///{path}", "name": "Project Files", "mimeType": "application/octet-stream"});
        let it: TemplateInfo = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(serde_json::to_value(it).unwrap(), json);
    }

    #[test]
    fn contents_are_text_or_blob() {
        for json in [
            json!({"uri": "file:///a.txt", "mimeType": "text/plain", "text": ""}),
            json!({"uri": "file:///a.png", "blob": "iVBORw0KGgo=", "_meta": {"k": 1}}),
        ] {
            let it: ResourceContents = serde_json::from_value(json.clone()).unwrap();
            assert_eq!(serde_json::to_value(it).unwrap(), json);
        }
        assert!(serde_json::from_str::<ResourceContents>(r#"{"uri":"x:"}"#).is_err());
    }

    #[test]
    fn cache_hint_stays_out_of_the_json() {
        let it = ReadResult::from(ResourceContents::text("x:", "y")).cache(CacheHint::public(5));
        assert_eq!(
            serde_json::to_value(it).unwrap(),
            json!({"contents": [{"uri": "x:", "text": "y"}]})
        );
    }
}
