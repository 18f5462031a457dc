//! Completion of arguments.

use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};

use crate::builders::{meta_setter, or_default, setters};
use crate::{Extra, LazyJson, Meta};

/// The most values that one answer may hold.
const MAX_VALUES: usize = 100;

/// What `completion/complete` asks: how may this argument go on?
///
/// ```
/// # mod wharf { pub use wharf_model::*; }
/// use wharf::{CompletionRef, CompletionRequest};
///
/// let asked: CompletionRequest = serde_json::from_str(
///     r#"{"ref":{"type":"ref/prompt","name":"review"},"argument":{"name":"language","value":"py"}}"#,
/// ).unwrap();
/// assert_eq!(asked.reference, CompletionRef::Prompt("review".into()));
/// assert_eq!(asked.value, "py");
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CompletionRequest {
    /// Whose argument it is.
    pub reference: CompletionRef,
    /// The argument's name.
    pub argument: String,
    /// What has been typed so far.
    pub value: String,
    /// The arguments that are already settled.
    pub context: BTreeMap<String, String>,
}

impl CompletionRequest {
    /// Asks how `value` may go on.
    pub fn new(
        reference: CompletionRef,
        argument: impl Into<String>,
        value: impl Into<String>,
    ) -> Self {
        Self { reference, argument: argument.into(), value: value.into(), context: BTreeMap::new() }
    }

    /// Adds an argument that is already settled.
    #[must_use]
    pub fn with_argument(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.context.insert(name.into(), value.into());
        self
    }
}

/// What a completion is for.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum CompletionRef {
    /// A prompt, by name.
    Prompt(String),
    /// A resource template, by its URI template.
    Resource(String),
    /// A type this version of Wharf does not know, kept whole.
    Other(Box<Meta>),
}

impl CompletionRef {
    /// The prompt with this name.
    pub fn prompt(name: impl Into<String>) -> Self {
        CompletionRef::Prompt(name.into())
    }

    /// The resource template with this URI template.
    pub fn resource(template: impl Into<String>) -> Self {
        CompletionRef::Resource(template.into())
    }
}

#[derive(Serialize, Deserialize)]
struct Params {
    #[serde(rename = "ref")]
    reference: CompletionRef,
    argument: Argument,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    context: Option<Context>,
}

#[derive(Serialize, Deserialize)]
struct Argument {
    name: String,
    value: String,
}

#[derive(Serialize, Deserialize)]
struct Context {
    #[serde(default, deserialize_with = "or_default")]
    arguments: BTreeMap<String, String>,
}

impl Serialize for CompletionRequest {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Self { reference, argument, value, context } = self.clone();
        let context = (!context.is_empty()).then_some(Context { arguments: context });
        Params { reference, argument: Argument { name: argument, value }, context }.serialize(to)
    }
}

impl<'de> Deserialize<'de> for CompletionRequest {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let Params { reference, argument, context } = Params::deserialize(from)?;
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

/// How an argument may go on: the `completion` object of the answer.
///
/// ```
/// # mod wharf { pub use wharf_model::*; }
/// use wharf::Completion;
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
    /// How many there are in all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// Whether there are more than these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub has_more: Option<bool>,
    /// The `_meta` object of the result, which stands beside the completion and not in it.
    #[serde(skip)]
    pub meta: Option<Box<LazyJson<Meta>>>,
    /// Fields that this version of Wharf does not know, kept as they came.
    #[serde(flatten)]
    pub extra: Extra,
}

impl Completion {
    /// The first 100 of these values, with their number.
    pub fn new(values: impl IntoIterator<Item: Into<String>>) -> Self {
        let mut values: Vec<String> = values.into_iter().map(Into::into).collect();
        let total = values.len();
        values.truncate(MAX_VALUES);
        let (has_more, total) = (Some(total > values.len()), u64::try_from(total).ok());
        Self { values, total, has_more, meta: None, extra: Extra::default() }
    }
}

setters! { Completion {
    /// Sets how many there are in all.
    total(total: some u64);
    /// Says whether there are more than these.
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
