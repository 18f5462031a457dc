//! What arguments and results must keep to, beyond what their types say.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use jsonschema::{PatternOptions, Validator};
use serde_json::{Map, Value};

use crate::{
    schema::{self, Typed},
    strings::Strings,
};

/// How many problems are told at once, and how long each may be: values come from callers.
const TOLD: usize = 8;
const LENGTH: usize = 300;

/// One schema, compiled when it is first needed.
pub(crate) struct Rules {
    schema: Arc<Value>,
    /// Whether the schema demands more than reading the handler's type does.
    says_more: bool,
    /// Whether an empty object surely fits: the only thing most tools without parameters are sent.
    takes_nothing: bool,
    compiled: OnceLock<Result<Validator, String>>,
}

impl Rules {
    pub(crate) fn new(schema: Arc<Value>, says_more: bool) -> Self {
        let takes_nothing = *schema == Typed::nothing().schema;
        Rules { schema, says_more, takes_nothing, compiled: OnceLock::new() }
    }

    /// Compiles now what calls will need, so that a bad schema shows when the server is built.
    pub(crate) fn prepare(&self) -> Result<(), String> {
        if !self.says_more || self.takes_nothing {
            return Ok(());
        }
        self.compiled().as_ref().map(drop).map_err(Clone::clone)
    }

    /// Checks the text of a JSON object, if the schema demands more than its type.
    pub(crate) fn check_json(&self, json: &str) -> Result<(), String> {
        if !self.says_more || (self.takes_nothing && json == "{}") {
            return Ok(());
        }
        match serde_json::from_str(json) {
            Ok(value) => self.check(&value),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Checks decoded strings, each read as the type its property has.
    pub(crate) fn check_strings(&self, pairs: &[(impl AsRef<str>, Strings)]) -> Result<(), String> {
        if self.says_more { self.check(&self.object(pairs)) } else { Ok(()) }
    }

    /// Says what is wrong with a JSON text that the handler's type could not read.
    pub(crate) fn explain_json(&self, json: &str) -> Option<String> {
        self.check(&serde_json::from_str(json).ok()?).err()
    }

    pub(crate) fn check(&self, value: &Value) -> Result<(), String> {
        let Ok(validator) = self.compiled() else { return Ok(()) };
        if validator.is_valid(value) {
            return Ok(());
        }
        let told: Vec<String> =
            validator.iter_errors(value).take(TOLD).map(|it| tell(&it)).collect();
        Err(told.join("\n"))
    }

    /// The parameters in a line, for a model that got them wrong.
    pub(crate) fn signature(&self) -> String {
        let parameter = |(name, property): (&String, &Value)| {
            let kind = property.get("type").map_or(String::new(), type_name);
            let optional = if schema::requires(&self.schema, name) { "" } else { "?" };
            if kind.is_empty() {
                format!("{name}{optional}")
            } else {
                format!("{name}{optional}: {kind}")
            }
        };
        let all: Vec<String> = schema::properties(&self.schema).map(parameter).collect();
        if all.is_empty() { "no arguments".into() } else { all.join(", ") }
    }

    fn compiled(&self) -> &Result<Validator, String> {
        self.compiled.get_or_init(|| compile(&self.schema))
    }

    fn object(&self, pairs: &[(impl AsRef<str>, Strings)]) -> Value {
        let properties = self.schema.get("properties");
        let typed = |name: &str, text: &String| {
            let kind = properties.and_then(|it| it.get(name)).and_then(|it| it.get("type"));
            let is_text = kind.is_none_or(|kind| type_name(kind).contains("string"));
            let parsed = if is_text { None } else { serde_json::from_str(text).ok() };
            parsed.unwrap_or_else(|| Value::from(text.as_str()))
        };
        let object: Map<String, Value> = pairs
            .iter()
            .map(|(name, value)| {
                let name = name.as_ref();
                let value = match value {
                    Strings::One(text) => typed(name, text),
                    Strings::Many(texts) => texts.iter().map(String::as_str).collect(),
                };
                (name.to_owned(), value)
            })
            .collect();
        Value::Object(object)
    }
}

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rules").field("says_more", &self.says_more).finish_non_exhaustive()
    }
}

fn compile(schema: &Value) -> Result<Validator, String> {
    let options = || jsonschema::options().should_validate_formats(true).offline();
    // Patterns match in linear time where they can; look-around needs the other engine, which
    // gives up after a while.
    let linear = options().with_pattern_options(PatternOptions::regex()).build(schema);
    linear
        .or_else(|_| {
            let bounded = PatternOptions::fancy_regex().backtrack_limit(100_000);
            options().with_pattern_options(bounded).build(schema)
        })
        .map_err(|error| shorten(error.to_string()))
}

fn tell(error: &jsonschema::ValidationError<'_>) -> String {
    let path = error.instance_path().to_string();
    let text = error.to_string();
    let path = path.trim_start_matches('/').replace('/', ".");
    shorten(if path.is_empty() { format!("- {text}") } else { format!("- `{path}`: {text}") })
}

fn type_name(kind: &Value) -> String {
    match kind {
        Value::String(one) => one.clone(),
        Value::Array(several) => {
            several.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or ")
        }
        _ => String::new(),
    }
}

fn shorten(text: String) -> String {
    match text.char_indices().nth(LENGTH) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
