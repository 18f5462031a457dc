//! What each side can do.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json, value::RawValue};

use crate::builders::setters;
use crate::json::object::JsonFlag;
use crate::{Extra, JsonObject, Meta};

/// What a client can do.
///
/// ```
/// # mod wharf { pub use wharf_model::*; }
/// use wharf::{ClientCapabilities, ClientCapability};
///
/// let caps: ClientCapabilities = serde_json::from_str(r#"{"elicitation":{}}"#).unwrap();
/// assert!(caps.has(&ClientCapability::Elicitation));
/// assert!(!caps.has(&ClientCapability::ElicitationUrl));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ClientCapabilities {
    /// It can list roots.
    #[serde(default, deserialize_with = "tolerant", skip_serializing_if = "Option::is_none")]
    pub roots: Option<RootsCapability>,
    /// It can sample from a model.
    #[serde(default, deserialize_with = "tolerant", skip_serializing_if = "Option::is_none")]
    pub sampling: Option<SamplingCapability>,
    /// It can ask its user.
    #[serde(default, deserialize_with = "tolerant", skip_serializing_if = "Option::is_none")]
    pub elicitation: Option<ElicitationCapability>,
    /// The tasks capability of legacy clients, as it came.
    #[serde(default, deserialize_with = "tolerant", skip_serializing_if = "Option::is_none")]
    pub tasks: Option<JsonObject>,
    /// Extensions by identifier, with their settings.
    #[serde(default, skip_serializing_if = "JsonObject::is_empty")]
    pub extensions: JsonObject,
    /// Whatever is outside the specification.
    #[serde(default, skip_serializing_if = "JsonObject::is_empty")]
    pub experimental: JsonObject,
}

setters! { ClientCapabilities {
    /// Says that it can list roots.
    roots(roots: some RootsCapability);
    /// Says that it can sample from a model.
    sampling(sampling: some SamplingCapability);
    /// Says that it can ask its user.
    elicitation(elicitation: some ElicitationCapability);
} }

impl ClientCapabilities {
    /// Whether the client can do this.
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

    /// Says that it has an extension, with these settings.
    #[must_use]
    pub fn extension(mut self, id: impl Into<String>, settings: Meta) -> Self {
        self.extensions.insert(id.into(), Value::Object(settings));
        self
    }
}

/// How a client lists roots.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct RootsCapability {
    /// It says when they change.
    #[serde(default, deserialize_with = "flag", skip_serializing_if = "std::ops::Not::not")]
    pub list_changed: bool,
}

setters! { RootsCapability {
    /// Says whether it tells of changes.
    list_changed(list_changed: set bool);
} }

/// How a client samples.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SamplingCapability {
    /// It can include context from servers.
    #[serde(
        default,
        deserialize_with = "flag",
        serialize_with = "mark",
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub context: bool,
    /// It can give tools to the model.
    #[serde(
        default,
        deserialize_with = "flag",
        serialize_with = "mark",
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub tools: bool,
}

setters! { SamplingCapability {
    /// Says whether it can include context from servers.
    context(context: set bool);
    /// Says whether it can give tools to the model.
    tools(tools: set bool);
} }

/// How a client asks its user.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ElicitationCapability {
    /// It can show a form.
    #[serde(serialize_with = "mark", skip_serializing_if = "std::ops::Not::not")]
    pub form: bool,
    /// It can send the user to a URL.
    #[serde(serialize_with = "mark", skip_serializing_if = "std::ops::Not::not")]
    pub url: bool,
}

setters! { ElicitationCapability {
    /// Says whether it can show a form.
    form(form: set bool);
    /// Says whether it can send the user to a URL.
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
        // Clients from before URL mode send an empty object and mean forms.
        Ok(Self { form: form || !url, url })
    }
}

/// What a server can do.
///
/// ```
/// # mod wharf { pub use wharf_model::*; }
/// use wharf::{ListCapability, ServerCapabilities};
///
/// let caps = ServerCapabilities::default().tools(ListCapability::default().list_changed(true));
/// assert_eq!(serde_json::to_string(&caps).unwrap(), r#"{"tools":{"listChanged":true}}"#);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ServerCapabilities {
    /// It has tools.
    #[serde(default, deserialize_with = "tolerant", skip_serializing_if = "Option::is_none")]
    pub tools: Option<ListCapability>,
    /// It has prompts.
    #[serde(default, deserialize_with = "tolerant", skip_serializing_if = "Option::is_none")]
    pub prompts: Option<ListCapability>,
    /// It has resources.
    #[serde(default, deserialize_with = "tolerant", skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourcesCapability>,
    /// It completes arguments.
    #[serde(
        default,
        deserialize_with = "flag",
        serialize_with = "mark",
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub completions: bool,
    /// It sends log messages.
    #[serde(
        default,
        deserialize_with = "flag",
        serialize_with = "mark",
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub logging: bool,
    /// The tasks capability of legacy servers, as it came.
    #[serde(default, deserialize_with = "tolerant", skip_serializing_if = "Option::is_none")]
    pub tasks: Option<Box<Meta>>,
    /// Extensions by identifier, with their settings.
    #[serde(default, deserialize_with = "object", skip_serializing_if = "Meta::is_empty")]
    pub extensions: Meta,
    /// Whatever is outside the specification.
    #[serde(default, deserialize_with = "object", skip_serializing_if = "Meta::is_empty")]
    pub experimental: Meta,
    /// Fields that this version of Wharf does not know, kept as they came.
    #[serde(flatten)]
    pub extra: Extra,
}

setters! { ServerCapabilities {
    /// Says that it has tools.
    tools(tools: some ListCapability);
    /// Says that it has prompts.
    prompts(prompts: some ListCapability);
    /// Says that it has resources.
    resources(resources: some ResourcesCapability);
    /// Says whether it completes arguments.
    completions(completions: set bool);
    /// Says whether it sends log messages.
    logging(logging: set bool);
} }

impl ServerCapabilities {
    /// Says that it has an extension, with these settings.
    #[must_use]
    pub fn extension(mut self, id: impl Into<String>, settings: Meta) -> Self {
        self.extensions.insert(id.into(), Value::Object(settings));
        self
    }
}

/// How a server lists tools or prompts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ListCapability {
    /// It says when the list changes.
    #[serde(default, deserialize_with = "flag", skip_serializing_if = "std::ops::Not::not")]
    pub list_changed: bool,
    /// Fields that this version of Wharf does not know, kept as they came.
    #[serde(flatten)]
    pub extra: Extra,
}

setters! { ListCapability {
    /// Says whether it tells of changes.
    list_changed(list_changed: set bool);
} }

/// How a server offers resources.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ResourcesCapability {
    /// Clients can follow single resources.
    #[serde(default, deserialize_with = "flag", skip_serializing_if = "std::ops::Not::not")]
    pub subscribe: bool,
    /// It says when the list changes.
    #[serde(default, deserialize_with = "flag", skip_serializing_if = "std::ops::Not::not")]
    pub list_changed: bool,
    /// Fields that this version of Wharf does not know, kept as they came.
    #[serde(flatten)]
    pub extra: Extra,
}

setters! { ResourcesCapability {
    /// Says whether clients can follow single resources.
    subscribe(subscribe: set bool);
    /// Says whether it tells of changes.
    list_changed(list_changed: set bool);
} }

/// One thing that a server may need its client to do.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ClientCapability {
    /// Listing roots.
    Roots,
    /// Sampling.
    Sampling,
    /// Sampling with tools.
    SamplingTools,
    /// Sampling with context from servers.
    SamplingContext,
    /// Asking the user with a form.
    Elicitation,
    /// Sending the user to a URL.
    ElicitationUrl,
    /// An extension, by identifier.
    Extension(String),
}

impl ClientCapability {
    /// The capabilities object that would satisfy this, for
    /// `data.requiredCapabilities`.
    ///
    /// ```
    /// # mod wharf { pub use wharf_model::*; }
    /// use serde_json::json;
    /// use wharf::ClientCapability;
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

/// Peers disagree on how to spell a capability without settings: whatever is
/// not `null` or `false` declares it.
fn tolerant<'de, D, T>(from: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: for<'a> Deserialize<'a> + Default,
{
    // As text, because a tree of what is not even read may be many times as large.
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
