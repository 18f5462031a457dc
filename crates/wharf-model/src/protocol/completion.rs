//! Completion of arguments.

use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};

use crate::builders::{meta_setter, or_default, setters};
use crate::{LazyJson, Meta, UnknownFields};

/// Parameters of `completion/complete`: the argument to complete, and the value typed so far.
///
/// A completion function takes it, and returns the values that match:
///
/// ```
/// # mod wharf { pub use wharf_model::*; pub mod model { pub use super::*; } }
/// use wharf::{CompletionRequest, model::{Completion, CompletionRef}};
///
/// async fn languages(request: CompletionRequest) -> Completion {
///     request.matching(["perl", "python", "rust"])
/// }
///
/// let prompt = CompletionRef::prompt("review");
/// let request = CompletionRequest::new(prompt, "language", "Py");
/// assert_eq!(request.matching(["perl", "python", "rust"]).values, ["python"]);
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CompletionRequest {
    /// Prompt or resource template of the argument.
    pub reference: CompletionRef,
    /// Name of the argument.
    pub argument: String,
    /// Value typed so far.
    pub value: String,
    /// Other arguments that are already resolved.
    pub context: BTreeMap<String, String>,
}

impl CompletionRequest {
    /// Creates a completion request for `value`.
    pub fn new(
        reference: CompletionRef,
        argument: impl Into<String>,
        value: impl Into<String>,
    ) -> Self {
        Self { reference, argument: argument.into(), value: value.into(), context: BTreeMap::new() }
    }

    /// Adds an argument that is already resolved.
    #[must_use]
    pub fn with_argument(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.context.insert(name.into(), value.into());
        self
    }

    /// Returns the candidates that begin with the typed value, ignoring case, in their order.
    pub fn matching(&self, candidates: impl IntoIterator<Item: Into<String>>) -> Completion {
        let typed = self.value.to_lowercase();
        let matches = |candidate: &String| candidate.to_lowercase().starts_with(&typed);
        Completion::new(candidates.into_iter().map(Into::into).filter(matches))
    }
}

/// Target of a completion.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum CompletionRef {
    /// Prompt, by name.
    Prompt(String),
    /// Resource template, by its URI template.
    Resource(String),
    /// Unknown type, preserved unchanged.
    Other(Box<Meta>),
}

impl CompletionRef {
    /// Creates a reference to the prompt with this name.
    pub fn prompt(name: impl Into<String>) -> Self {
        CompletionRef::Prompt(name.into())
    }

    /// Creates a reference to the resource template with this URI template.
    pub fn resource(template: impl Into<String>) -> Self {
        CompletionRef::Resource(template.into())
    }
}

#[derive(Serialize, Deserialize)]
struct CompletionParams {
    #[serde(rename = "ref")]
    reference: CompletionRef,
    argument: CompletionArgument,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    context: Option<CompletionContext>,
}

#[derive(Serialize, Deserialize)]
struct CompletionArgument {
    name: String,
    value: String,
}

#[derive(Serialize, Deserialize)]
struct CompletionContext {
    #[serde(default, deserialize_with = "or_default")]
    arguments: BTreeMap<String, String>,
}

impl Serialize for CompletionRequest {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Self { reference, argument, value, context } = self.clone();
        let context = (!context.is_empty()).then_some(CompletionContext { arguments: context });
        CompletionParams {
            reference,
            argument: CompletionArgument { name: argument, value },
            context,
        }
        .serialize(to)
    }
}

impl<'de> Deserialize<'de> for CompletionRequest {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let CompletionParams { reference, argument, context } =
            CompletionParams::deserialize(from)?;
        let context = context.map(|it| it.arguments).unwrap_or_default();
        Ok(Self { reference, argument: argument.name, value: argument.value, context })
    }
}

impl Serialize for CompletionRef {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Prompt(name) => json!({"type": "ref/prompt", "name": name}).serialize(to),
            Self::Resource(uri) => json!({"type": "ref/resource", "uri": uri}).serialize(to),
            Self::Other(map) => map.serialize(to),
        }
    }
}

impl<'de> Deserialize<'de> for CompletionRef {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let mut map = Meta::deserialize(from)?;
        let mut take = |field: &'static str| match map.remove(field) {
            Some(Value::String(text)) => Ok(text),
            _ => Err(D::Error::missing_field(field)),
        };
        let kind = take("type")?;
        match kind.as_str() {
            "ref/prompt" => take("name").map(Self::Prompt),
            "ref/resource" => take("uri").map(Self::Resource),
            _ => {
                map.insert("type".to_owned(), Value::String(kind));
                Ok(Self::Other(Box::new(map)))
            }
        }
    }
}

/// Completion values: the `completion` object of the result.
///
/// ```
/// # mod wharf { pub use wharf_model::*; pub mod model { pub use super::*; } }
/// use wharf::model::Completion;
///
/// let many = Completion::new((0..250).map(|n| n.to_string()));
/// assert_eq!((many.values.len(), many.total, many.has_more), (100, Some(250), Some(true)));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Completion {
    /// At most 100 values, best first.
    #[serde(default, deserialize_with = "or_default")]
    pub values: Vec<String>,
    /// Total number of values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// True if there are more values than these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub has_more: Option<bool>,
    /// `_meta` of the result, which is beside the completion and not in it.
    #[serde(skip)]
    pub meta: Option<Box<LazyJson<Meta>>>,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub extra: UnknownFields,
}

impl Completion {
    /// Maximum number of values in a result.
    pub const MAX_VALUES: usize = 100;

    /// Creates a completion of the first 100 of these values, with their total number.
    pub fn new(values: impl IntoIterator<Item: Into<String>>) -> Self {
        let mut values: Vec<String> = values.into_iter().map(Into::into).collect();
        let total = values.len();
        values.truncate(Self::MAX_VALUES);
        let (has_more, total) = (Some(total > values.len()), u64::try_from(total).ok());
        Self { values, total, has_more, meta: None, extra: UnknownFields::default() }
    }
}

setters! { Completion {
    /// Sets the total number of values.
    total(total: some u64);
    /// Sets whether there are more values than these.
    has_more(has_more: some bool);
} }

meta_setter!(Completion);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_round_trip() {
        for json in [
            json!({"ref": {"type": "ref/prompt", "name": "code_review"}, "argument": {"name": "framework", "value": "fla"},
                "context": {"arguments": {"language": "python"}}}),
            json!({"ref": {"type": "ref/resource", "uri": "file:///{path}"}, "argument": {"name": "path", "value": ""}}),
            json!({"ref": {"type": "ref/tool", "name": "x", "n": 1}, "argument": {"name": "a", "value": "b"}}),
        ] {
            let it: CompletionRequest = serde_json::from_value(json.clone()).unwrap();
            assert_eq!(serde_json::to_value(&it).unwrap(), json);
        }
        let nameless = r#"{"ref":{"type":"ref/prompt"},"argument":{"name":"a","value":"b"}}"#;
        assert!(serde_json::from_str::<CompletionRequest>(nameless).is_err());
        let with_meta = r#"{"_meta":{},"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":"b"},"context":{}}"#;
        assert!(serde_json::from_str::<CompletionRequest>(with_meta).unwrap().context.is_empty());
    }

    #[test]
    fn answers_round_trip() {
        let json = json!({"values": ["python", "pytorch", "pyside"], "total": 10, "hasMore": true});
        let it: Completion = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(serde_json::to_value(&it).unwrap(), json);
        assert_eq!(
            it,
            Completion::new(["python", "pytorch", "pyside"]).total(10u64).has_more(true)
        );
    }
}
