//! Capabilities of clients and servers.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json, value::RawValue};

use crate::builders::setters;
use crate::json::object::JsonFlag;
use crate::{JsonObject, Meta, UnknownFields};

/// Capabilities of a client.
///
/// ```
/// # mod wharf { pub use wharf_model::*; pub mod model { pub use super::*; } }
/// use wharf::model::{ClientCapabilities, ClientCapability};
///
/// let caps: ClientCapabilities = serde_json::from_str(r#"{"elicitation":{}}"#).unwrap();
/// assert!(caps.has(&ClientCapability::Elicitation));
/// assert!(!caps.has(&ClientCapability::ElicitationUrl));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ClientCapabilities {
    /// Roots.
    #[serde(default, deserialize_with = "tolerant", skip_serializing_if = "Option::is_none")]
    pub roots: Option<RootsCapability>,
    /// Sampling.
    #[serde(default, deserialize_with = "tolerant", skip_serializing_if = "Option::is_none")]
    pub sampling: Option<SamplingCapability>,
    /// Elicitation.
    #[serde(default, deserialize_with = "tolerant", skip_serializing_if = "Option::is_none")]
    pub elicitation: Option<ElicitationCapability>,
    /// Tasks capability of legacy clients, unchanged.
    #[serde(default, deserialize_with = "tolerant", skip_serializing_if = "Option::is_none")]
    pub tasks: Option<JsonObject>,
    /// Extensions by identifier, with their settings.
    #[serde(default, skip_serializing_if = "JsonObject::is_empty")]
    pub extensions: JsonObject,
    /// Experimental capabilities.
    #[serde(default, skip_serializing_if = "JsonObject::is_empty")]
    pub experimental: JsonObject,
}

setters! { ClientCapabilities {
    /// Declares roots.
    roots(roots: some RootsCapability);
    /// Declares sampling.
    sampling(sampling: some SamplingCapability);
    /// Declares elicitation.
    elicitation(elicitation: some ElicitationCapability);
} }

impl ClientCapabilities {
    /// Returns whether the client declared the capability.
    pub fn has(&self, wanted: &ClientCapability) -> bool {
        let sampling = self.sampling.as_ref();
        let elicitation = self.elicitation.as_ref();
        match wanted {
            ClientCapability::Roots => self.roots.is_some(),
            ClientCapability::Sampling => sampling.is_some(),
            ClientCapability::SamplingTools => sampling.is_some_and(|it| it.tools),
            ClientCapability::SamplingContext => sampling.is_some_and(|it| it.context),
            ClientCapability::Elicitation => elicitation.is_some_and(|it| it.form),
            ClientCapability::ElicitationUrl => elicitation.is_some_and(|it| it.url),
            ClientCapability::Extension(id) => self.extensions.contains_key(id),
        }
    }

    /// Declares an extension with its settings.
    #[must_use]
    pub fn extension(mut self, id: impl Into<String>, settings: Meta) -> Self {
        self.extensions.insert(id.into(), Value::Object(settings));
        self
    }
}

/// Roots capability of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct RootsCapability {
    /// The client notifies the server of changes.
    #[serde(default, deserialize_with = "flag", skip_serializing_if = "std::ops::Not::not")]
    pub list_changed: bool,
}

setters! { RootsCapability {
    /// Sets whether the client notifies the server of changes.
    list_changed(list_changed: set bool);
} }

/// Sampling capability of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SamplingCapability {
    /// The client can include context from servers.
    #[serde(
        default,
        deserialize_with = "flag",
        serialize_with = "mark",
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub context: bool,
    /// The client supports tools in sampling.
    #[serde(
        default,
        deserialize_with = "flag",
        serialize_with = "mark",
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub tools: bool,
}

setters! { SamplingCapability {
    /// Sets whether the client can include context from servers.
    context(context: set bool);
    /// Sets whether the client supports tools in sampling.
    tools(tools: set bool);
} }

/// Elicitation capability of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ElicitationCapability {
    /// Form mode.
    #[serde(serialize_with = "mark", skip_serializing_if = "std::ops::Not::not")]
    pub form: bool,
    /// URL mode.
    #[serde(serialize_with = "mark", skip_serializing_if = "std::ops::Not::not")]
    pub url: bool,
}

setters! { ElicitationCapability {
    /// Sets form mode.
    form(form: set bool);
    /// Sets URL mode.
    url(url: set bool);
} }

impl<'de> Deserialize<'de> for ElicitationCapability {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Fields {
            #[serde(default, deserialize_with = "flag")]
            form: bool,
            #[serde(default, deserialize_with = "flag")]
            url: bool,
        }
        let Fields { form, url } = Fields::deserialize(from)?;
        // Clients of revisions before URL mode send an empty object for form mode.
        Ok(Self { form: form || !url, url })
    }
}

/// Capabilities of a server.
///
/// ```
/// # mod wharf { pub use wharf_model::*; pub mod model { pub use super::*; } }
/// use wharf::model::{ListCapability, ServerCapabilities};
///
/// let caps = ServerCapabilities::default().tools(ListCapability::default().list_changed(true));
/// assert_eq!(serde_json::to_string(&caps).unwrap(), r#"{"tools":{"listChanged":true}}"#);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ServerCapabilities {
    /// Tools.
    #[serde(default, deserialize_with = "tolerant", skip_serializing_if = "Option::is_none")]
    pub tools: Option<ListCapability>,
    /// Prompts.
    #[serde(default, deserialize_with = "tolerant", skip_serializing_if = "Option::is_none")]
    pub prompts: Option<ListCapability>,
    /// Resources.
    #[serde(default, deserialize_with = "tolerant", skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourcesCapability>,
    /// Argument completion.
    #[serde(
        default,
        deserialize_with = "flag",
        serialize_with = "mark",
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub completions: bool,
    /// Log messages.
    #[serde(
        default,
        deserialize_with = "flag",
        serialize_with = "mark",
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub logging: bool,
    /// Tasks capability of legacy servers, unchanged.
    #[serde(default, deserialize_with = "tolerant", skip_serializing_if = "Option::is_none")]
    pub tasks: Option<Box<Meta>>,
    /// Extensions by identifier, with their settings.
    #[serde(default, deserialize_with = "object", skip_serializing_if = "Meta::is_empty")]
    pub extensions: Meta,
    /// Experimental capabilities.
    #[serde(default, deserialize_with = "object", skip_serializing_if = "Meta::is_empty")]
    pub experimental: Meta,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub extra: UnknownFields,
}

setters! { ServerCapabilities {
    /// Announces tools.
    tools(tools: some ListCapability);
    /// Announces prompts.
    prompts(prompts: some ListCapability);
    /// Announces resources.
    resources(resources: some ResourcesCapability);
    /// Sets whether the server completes arguments.
    completions(completions: set bool);
    /// Sets whether the server sends log messages.
    logging(logging: set bool);
} }

impl ServerCapabilities {
    /// Announces an extension with its settings.
    #[must_use]
    pub fn extension(mut self, id: impl Into<String>, settings: Meta) -> Self {
        self.extensions.insert(id.into(), Value::Object(settings));
        self
    }
}

/// Tools or prompts capability of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ListCapability {
    /// The server notifies clients of list changes.
    #[serde(default, deserialize_with = "flag", skip_serializing_if = "std::ops::Not::not")]
    pub list_changed: bool,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub extra: UnknownFields,
}

setters! { ListCapability {
    /// Sets whether the server notifies clients of list changes.
    list_changed(list_changed: set bool);
} }

/// Resources capability of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ResourcesCapability {
    /// Clients can subscribe to single resources.
    #[serde(default, deserialize_with = "flag", skip_serializing_if = "std::ops::Not::not")]
    pub subscribe: bool,
    /// The server notifies clients of list changes.
    #[serde(default, deserialize_with = "flag", skip_serializing_if = "std::ops::Not::not")]
    pub list_changed: bool,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub extra: UnknownFields,
}

setters! { ResourcesCapability {
    /// Sets whether clients can subscribe to single resources.
    subscribe(subscribe: set bool);
    /// Sets whether the server notifies clients of list changes.
    list_changed(list_changed: set bool);
} }

/// Single client capability that a server may require.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ClientCapability {
    /// Roots.
    Roots,
    /// Sampling.
    Sampling,
    /// Sampling with tools.
    SamplingTools,
    /// Sampling with context from servers.
    SamplingContext,
    /// Elicitation with a form.
    Elicitation,
    /// Elicitation with a URL.
    ElicitationUrl,
    /// Extension, by identifier.
    Extension(String),
}

impl ClientCapability {
    /// Returns the capabilities object that satisfies this requirement, for `data.requiredCapabilities`.
    ///
    /// ```
    /// # mod wharf { pub use wharf_model::*; pub mod model { pub use super::*; } }
    /// use serde_json::json;
    /// use wharf::model::ClientCapability;
    ///
    /// assert_eq!(ClientCapability::ElicitationUrl.required(), json!({"elicitation": {"url": {}}}));
    /// ```
    pub fn required(&self) -> Value {
        match self {
            Self::Roots => json!({"roots": {}}),
            Self::Sampling => json!({"sampling": {}}),
            Self::SamplingTools => json!({"sampling": {"tools": {}}}),
            Self::SamplingContext => json!({"sampling": {"context": {}}}),
            Self::Elicitation => json!({"elicitation": {}}),
            Self::ElicitationUrl => json!({"elicitation": {"url": {}}}),
            Self::Extension(id) => json!({"extensions": {id: {}}}),
        }
    }
}

/// Reads a capability leniently: peers write a capability without settings differently, so any value but `null`
/// and `false` declares it.
fn tolerant<'de, D, T>(from: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: for<'a> Deserialize<'a> + Default,
{
    // Read as text first, because a tree of an unused value may be many times as large.
    let raw = Box::<RawValue>::deserialize(from)?;
    let settings = match raw.get() {
        "null" | "false" => return Ok(None),
        json if json.starts_with('{') => json,
        _ => "{}",
    };
    Ok(Some(serde_json::from_str(settings).unwrap_or_default()))
}

fn object<'de, D: Deserializer<'de>>(from: D) -> Result<Meta, D::Error> {
    Ok(match Value::deserialize(from)? {
        Value::Object(map) => map,
        _ => Meta::new(),
    })
}

fn flag<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    JsonFlag::deserialize(from).map(|flag| flag.0)
}

fn mark<S: Serializer>(_: &bool, to: S) -> Result<S::Ok, S::Error> {
    Meta::new().serialize(to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spec_examples() {
        for json in [
            json!({"elicitation": {"form": {}, "url": {}}}),
            json!({"extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}}),
            json!({"roots": {}}),
            json!({"roots": {"listChanged": true}, "experimental": {"x": {}}, "tasks": {"list": {}}}),
            json!({"sampling": {"context": {}}}),
            json!({"sampling": {"tools": {}}}),
        ] {
            let it: ClientCapabilities = serde_json::from_value(json.clone()).unwrap();
            assert_eq!(serde_json::to_value(it).unwrap(), json);
        }
        for json in [
            json!({}),
            json!({"tools": {}, "prompts": {"listChanged": true}, "resources": {"subscribe": true}}),
            json!({"logging": {}, "completions": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}}),
        ] {
            let it: ServerCapabilities = serde_json::from_value(json.clone()).unwrap();
            assert_eq!(serde_json::to_value(it).unwrap(), json);
        }
    }

    #[test]
    fn odd_spellings_are_read() {
        let odd = json!({"roots": true, "sampling": null, "elicitation": {}, "extensions": [], "future": {}});
        let it: ClientCapabilities = serde_json::from_value(odd).unwrap();
        assert_eq!(
            serde_json::to_value(it).unwrap(),
            json!({"roots": {}, "elicitation": {"form": {}}})
        );
        let bare: ClientCapabilities =
            serde_json::from_value(json!({"elicitation": true})).unwrap();
        assert!(bare.has(&ClientCapability::Elicitation));
    }

    #[test]
    fn required_satisfies_itself() {
        use ClientCapability::*;
        let all = [
            Roots,
            Sampling,
            SamplingTools,
            SamplingContext,
            Elicitation,
            ElicitationUrl,
            Extension("a/b".into()),
        ];
        for wanted in all {
            let caps: ClientCapabilities = serde_json::from_value(wanted.required()).unwrap();
            assert!(caps.has(&wanted));
            assert!(!ClientCapabilities::default().has(&wanted));
        }
    }
}
