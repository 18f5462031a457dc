//! Content items of tool results, prompts and sampling messages.

use std::{borrow::Cow, fmt};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, value::RawValue};

use crate::builders::{open_enum, setters};
use crate::json::unknown_fields::reads_extra;
use crate::{LazyJson, ResourceContents, ResourceInfo, ToolResultContent, ToolUse, UnknownFields};

/// Free-form `_meta` object of most protocol objects.
pub type Meta = serde_json::Map<String, Value>;

open_enum! {
    /// Sender or audience of content.
    Role {
        /// User, or an agent acting for the user.
        User = "user",
        /// Language model.
        Assistant = "assistant",
    }
}

/// Content item.
///
/// ```
/// # mod wharf { pub use wharf_model::*; pub mod model { pub use super::*; } }
/// use wharf::{Content, model::Role};
///
/// let item = Content::text("42 crates").audience(Role::User).priority(0.5);
/// let json = serde_json::to_value(&item).unwrap();
/// assert_eq!(json["type"], "text");
/// assert_eq!(json["annotations"]["audience"][0], "user");
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Content {
    /// Plain text.
    Text(Text),
    /// Image.
    Image(Media),
    /// Audio.
    Audio(Media),
    /// Link to a resource.
    Link(Box<ResourceInfo>),
    /// Embedded resource.
    Resource(Box<EmbeddedResource>),
    /// Tool call of a model; in sampling only.
    ToolUse(Box<ToolUse>),
    /// Result of a tool call; in sampling only.
    ToolResult(Box<ToolResultContent>),
    /// Unknown type, preserved unchanged.
    Other(Box<LazyJson<Meta>>),
}

/// Text content.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Text {
    /// The text.
    pub text: String,
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

reads_extra! { Text {
    text "text" must,
    annotations "annotations" maybe,
    meta "_meta" maybe,
} tag "type" }

/// Image or audio content.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Media {
    /// Bytes in base64.
    pub data: String,
    /// Media type, such as `image/png`.
    pub mime_type: String,
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

reads_extra! { Media {
    data "data" must,
    mime_type "mimeType" must,
    annotations "annotations" maybe,
    meta "_meta" maybe,
} tag "type" }

/// Resource embedded in a message.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct EmbeddedResource {
    /// Contents of the resource.
    pub resource: ResourceContents,
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

reads_extra! { EmbeddedResource {
    resource "resource" must,
    annotations "annotations" maybe,
    meta "_meta" maybe,
} tag "type" }

/// Annotations: hints for the use and display of an object.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Annotations {
    /// Intended audience.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub audience: Vec<Role>,
    /// Priority from 0 (optional) to 1 (effectively required).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<f64>,
    /// Time of the last modification, in ISO 8601.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_modified: Option<String>,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub extra: UnknownFields,
}

reads_extra! { Annotations {
    audience "audience" or_default,
    priority "priority" maybe,
    last_modified "lastModified" maybe,
} }

setters! { Annotations {
    /// Adds an intended audience.
    audience(audience: push Role);
    /// Sets the priority, from 0 to 1.
    priority(priority: some f64);
    /// Sets the time of the last modification, in ISO 8601.
    last_modified(last_modified: some String);
} }

impl Content {
    /// Creates text content.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(Text { text: text.into(), ..Text::default() })
    }

    /// Creates an image from its raw bytes.
    pub fn image(bytes: impl AsRef<[u8]>, mime_type: impl Into<String>) -> Self {
        Self::Image(Media::new(bytes, mime_type))
    }

    /// Creates audio from its raw bytes.
    pub fn audio(bytes: impl AsRef<[u8]>, mime_type: impl Into<String>) -> Self {
        Self::Audio(Media::new(bytes, mime_type))
    }

    /// Creates a link to a resource.
    pub fn link(uri: impl Into<String>, name: impl Into<String>) -> Self {
        Self::Link(Box::new(ResourceInfo::new(uri, name)))
    }

    /// Creates an embedded resource.
    pub fn resource(resource: ResourceContents) -> Self {
        Self::Resource(Box::new(EmbeddedResource {
            resource,
            annotations: None,
            meta: None,
            extra: UnknownFields::default(),
        }))
    }

    /// Returns the text of text content.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(&text.text),
            _ => None,
        }
    }

    /// Adds an intended audience. Like other annotations, it is ignored by content that has none: tool use,
    /// tool results, unknown types.
    #[must_use]
    pub fn audience(self, role: Role) -> Self {
        self.annotate(|hints| hints.audience.push(role))
    }

    /// Sets the priority, from 0 to 1.
    #[must_use]
    pub fn priority(self, priority: f64) -> Self {
        self.annotate(|hints| hints.priority = Some(priority))
    }

    /// Sets the time of the last modification, in ISO 8601.
    #[must_use]
    pub fn last_modified(self, when: impl Into<String>) -> Self {
        self.annotate(|hints| hints.last_modified = Some(when.into()))
    }

    /// Adds one entry to `_meta`.
    #[must_use]
    pub fn with_meta(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        let meta = match &mut self {
            Self::Text(it) => &mut it.meta,
            Self::Image(it) | Self::Audio(it) => &mut it.meta,
            Self::Link(it) => &mut it.meta,
            Self::Resource(it) => &mut it.meta,
            Self::ToolUse(it) => &mut it.meta,
            Self::ToolResult(it) => &mut it.meta,
            Self::Other(fields) => {
                let mut meta = fields.get("_meta").cloned().unwrap_or_else(|| Meta::new().into());
                if let Value::Object(meta) = &mut meta {
                    meta.insert(key.into(), value.into());
                }
                fields.insert("_meta".into(), meta);
                return self;
            }
        };
        meta.get_or_insert_default().insert(key.into(), value.into());
        self
    }

    fn annotate(mut self, edit: impl FnOnce(&mut Annotations)) -> Self {
        let hints = match &mut self {
            Self::Text(it) => &mut it.annotations,
            Self::Image(it) | Self::Audio(it) => &mut it.annotations,
            Self::Link(it) => &mut it.annotations,
            Self::Resource(it) => &mut it.annotations,
            Self::ToolUse(_) | Self::ToolResult(_) | Self::Other(_) => return self,
        };
        edit(hints.get_or_insert_default());
        self
    }
}

impl Media {
    fn new(bytes: impl AsRef<[u8]>, mime_type: impl Into<String>) -> Self {
        Self { data: STANDARD.encode(bytes), mime_type: mime_type.into(), ..Self::default() }
    }
}

impl From<&str> for Content {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

impl From<String> for Content {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

impl Serialize for Content {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(tag = "type", rename_all = "snake_case")]
        enum TaggedContent<'a> {
            Text(&'a Text),
            Image(&'a Media),
            Audio(&'a Media),
            ResourceLink(&'a ResourceInfo),
            Resource(&'a EmbeddedResource),
            ToolUse(&'a ToolUse),
            ToolResult(&'a ToolResultContent),
        }
        let tagged = match self {
            Self::Text(it) => TaggedContent::Text(it),
            Self::Image(it) => TaggedContent::Image(it),
            Self::Audio(it) => TaggedContent::Audio(it),
            Self::Link(it) => TaggedContent::ResourceLink(it),
            Self::Resource(it) => TaggedContent::Resource(it),
            Self::ToolUse(it) => TaggedContent::ToolUse(it),
            Self::ToolResult(it) => TaggedContent::ToolResult(it),
            Self::Other(fields) => return fields.serialize(to),
        };
        tagged.serialize(to)
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct ContentType<'a> {
            #[serde(rename = "type", borrow)]
            kind: Cow<'a, str>,
        }
        fn read<T: DeserializeOwned, E: serde::de::Error>(json: &RawValue) -> Result<T, E> {
            serde_json::from_str(json.get()).map_err(E::custom)
        }
        let json = Box::<RawValue>::deserialize(from)?;
        let ContentType { kind } = serde_json::from_str(json.get()).map_err(D::Error::custom)?;
        match &*kind {
            "text" => read(&json).map(Self::Text),
            "image" => read(&json).map(Self::Image),
            "audio" => read(&json).map(Self::Audio),
            "resource_link" => {
                let mut link: Box<ResourceInfo> = read(&json)?;
                // The variant implies the type.
                link.extra.remove("type");
                Ok(Self::Link(link))
            }
            "resource" => read(&json).map(Self::Resource),
            "tool_use" => read(&json).map(Self::ToolUse),
            "tool_result" => read(&json).map(Self::ToolResult),
            _ => read(&json).map(|other| Self::Other(Box::new(other))),
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn round_trip(json: Value) -> Content {
        let item: Content = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(serde_json::to_value(&item).unwrap(), json);
        assert_eq!(serde_json::from_str::<Content>(&json.to_string()).unwrap(), item);
        item
    }

    #[test]
    fn spec_examples() {
        let hints = json!({"audience": ["user", "robot"], "priority": 0.9, "lastModified": "2025-05-03T14:30:00Z"});
        round_trip(json!({"type": "text", "text": "hi \"you\"", "_meta": {"a": 1}}));
        round_trip(
            json!({"type": "image", "data": "iVBORw==", "mimeType": "image/png", "annotations": hints}),
        );
        round_trip(json!({"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"}));
        round_trip(
            json!({"type": "resource_link", "uri": "file:///m.rs", "name": "m.rs", "mimeType": "text/x-rust"}),
        );
        round_trip(
            json!({"type": "resource", "resource": {"uri": "file:///m.rs", "text": "fn main() {}"}, "annotations": hints}),
        );
        round_trip(
            json!({"type": "tool_use", "id": "call_1", "name": "get_weather", "input": {"city": "Paris"}}),
        );
        round_trip(
            json!({"type": "tool_result", "toolUseId": "call_1", "content": [{"type": "text", "text": "18"}]}),
        );
    }

    #[test]
    fn unknown_types_are_carried_and_broken_ones_refused() {
        let other = round_trip(json!({"type": "hologram", "depth": [1, {"x": null}]}));
        assert_eq!(serde_json::to_value(other.with_meta("k", 1)).unwrap()["_meta"]["k"], 1);
        assert!(serde_json::from_str::<Content>(r#"{"text":"x"}"#).is_err());
        assert!(serde_json::from_str::<Content>(r#"{"type":"text"}"#).is_err());
    }

    #[test]
    fn builders() {
        let item = Content::image([0xff, 0], "image/png").audience(Role::User).with_meta("k", "v");
        let json = json!({"type": "image", "data": "/wA=", "mimeType": "image/png",
            "annotations": {"audience": ["user"]}, "_meta": {"k": "v"}});
        assert_eq!(serde_json::to_value(item).unwrap(), json);
        assert!(size_of::<Content>() <= 80);
    }
}
