//! What arguments and results must keep to, beyond what their types say.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use jsonschema::{PatternOptions, ValidationError, Validator, error::ValidationErrorKind};
use serde_json::{Map, Value};

use crate::{
    cost, kinds, lenient,
    schema::{self, Typed},
    strings::Strings,
};

/// How many problems are told at once, and how long each may be: values come from callers.
const TOLD: usize = 8;
const LENGTH: usize = 300;

/// How many looks at parts of a value finding its problems may take.
const LOOKS: usize = 4096;

const UNTOLD: &str = "- they do not match the schema; finding out where would take too long";

/// One schema, compiled when it is first needed.
pub(crate) struct Rules {
    schema: Arc<Value>,
    /// Whether the schema demands more than reading the handler's type does.
    says_more: bool,
    /// Whether problems may quote the value: a caller's own may, a result must not reach a log.
    quotes: bool,
    /// Whether an empty object surely fits: the only thing most tools without parameters are sent.
    takes_nothing: bool,
    compiled: OnceLock<Result<Validator, String>>,
}

impl Rules {
    pub(crate) fn new(schema: Arc<Value>, says_more: bool) -> Self {
        let takes_nothing = *schema == Typed::nothing().schema;
        Rules { schema, says_more, quotes: true, takes_nothing, compiled: OnceLock::new() }
    }

    /// For what a handler returned: every value is checked, and none is told.
    pub(crate) fn of_results(schema: Arc<Value>) -> Self {
        Rules { quotes: false, ..Rules::new(schema, true) }
    }

    /// Compiles now what calls will need, so that a bad schema shows when the server is built.
    pub(crate) fn prepare(&self) -> Result<(), String> {
        if !self.says_more || self.takes_nothing {
            return Ok(());
        }
        self.compiled().as_ref().map(drop).map_err(Clone::clone)
    }

    /// Checks the text of a JSON object of at most `most` values, if the schema demands more than
    /// its type.
    pub(crate) fn check_json(&self, json: &str, most: usize) -> Result<(), String> {
        if !self.says_more || (self.takes_nothing && json == "{}") {
            return Ok(());
        }
        if !lenient::is_within(json, most) {
            return Err(format!("- they have {}", lenient::too_many(most)));
        }
        match lenient::unambiguous(json) {
            Ok(value) => self.check(&value),
            Err(error) => Err(shorten(format!("- {error}"))),
        }
    }

    /// Checks decoded strings, each read as the type its property has.
    pub(crate) fn check_strings(&self, pairs: &[(impl AsRef<str>, Strings)]) -> Result<(), String> {
        if self.says_more { self.check(&self.object(pairs)) } else { Ok(()) }
    }

    /// Says what is wrong with a JSON text that the handler's type could not read.
    pub(crate) fn explain_json(&self, json: &str, most: usize) -> Option<String> {
        if !lenient::is_within(json, most) {
            return None;
        }
        let (value, validator) = (serde_json::from_str(json).ok()?, self.compiled().as_ref().ok()?);
        self.tell(validator, &value).filter(|told| !told.is_empty())
    }

    pub(crate) fn check(&self, value: &Value) -> Result<(), String> {
        let Ok(validator) = self.compiled() else { return Ok(()) };
        if validator.is_valid(value) {
            return Ok(());
        }
        Err(self.tell(validator, value).unwrap_or_else(|| UNTOLD.into()))
    }

    /// The problems of a value, unless finding them could take very long.
    fn tell(&self, validator: &Validator, value: &Value) -> Option<String> {
        if !cost::is_told_quickly(&self.schema, value, LOOKS) {
            return None;
        }
        let mut told = Vec::new();
        for error in validator.iter_errors(value) {
            for problem in nearest(&error).into_iter().map(|it| tell(it, self.quotes)) {
                // Schemas that repeat themselves find the same problem again and again.
                if told.len() < TOLD && !told.contains(&problem) {
                    told.push(problem);
                }
            }
        }
        Some(told.join("\n"))
    }

    /// The parameters in a line, for a model that got them wrong.
    pub(crate) fn signature(&self) -> String {
        let parameter = |(name, property): (&String, &Value)| {
            let kind = kinds::describe(&self.schema, property);
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
        let anything = Value::Bool(true);
        let properties = self.schema.get("properties");
        let object: Map<String, Value> = pairs
            .iter()
            .map(|(name, value)| {
                let name = name.as_ref();
                let property = properties.and_then(|it| it.get(name)).unwrap_or(&anything);
                (name.to_owned(), self.typed(property, value))
            })
            .collect();
        Value::Object(object)
    }

    /// Decoded strings as the JSON that `schema` is about.
    fn typed(&self, schema: &Value, value: &Strings) -> Value {
        let leaves = kinds::leaves(&self.schema, schema);
        let takes = |kind: &str| leaves.iter().any(|leaf| kinds::takes(leaf, kind));
        let item = |text: &String| {
            let items = leaves.iter().find_map(|leaf| leaf.get("items"));
            self.typed(items.unwrap_or(&Value::Null), &Strings::One(text.clone()))
        };
        match value {
            Strings::Many(texts) => texts.iter().map(item).collect(),
            Strings::One(text) if takes("string") => Value::from(text.as_str()),
            Strings::One(text) if takes("array") => [text].map(item).into_iter().collect(),
            Strings::One(text) => number_or_switch(text),
        }
    }
}

/// A text as `bool` and the number types of Rust read it.
fn number_or_switch(text: &str) -> Value {
    let switch = || text.parse::<bool>().map(Value::from).ok();
    let json = || serde_json::from_str(text).map(Value::Number).ok();
    // Rust reads `+1` and `01` as well.
    let number = || text.parse::<i64>().map(Value::from).ok();
    switch().or_else(json).or_else(number).unwrap_or_else(|| Value::from(text))
}

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rules").field("says_more", &self.says_more).finish_non_exhaustive()
    }
}

pub(crate) fn compile(schema: &Value) -> Result<Validator, String> {
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

/// What is wrong by the one schema of several that was meant, if that can be told: by the type of
/// the value, such as an object where it may also be null, or by its tag.
fn nearest<'e>(error: &'e ValidationError<'_>) -> Vec<&'e ValidationError<'e>> {
    let (ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context }) =
        error.kind()
    else {
        return vec![error];
    };
    let is_other = |it: &ValidationError<'_>| match it.kind() {
        ValidationErrorKind::Type { .. } => it.instance_path() == error.instance_path(),
        ValidationErrorKind::Constant { .. } => true,
        _ => false,
    };
    let mut meant = context.iter().filter(|branch| !branch.iter().any(is_other));
    match (meant.next(), meant.next()) {
        (Some(one), None) if !one.is_empty() => one.iter().flat_map(nearest).collect(),
        _ => vec![error],
    }
}

fn tell(error: &ValidationError<'_>, quotes: bool) -> String {
    let path = error.instance_path().to_string();
    let text = if quotes { error.to_string() } else { error.masked().to_string() };
    let path = path.trim_start_matches('/').replace('/', ".");
    shorten(if path.is_empty() { format!("- {text}") } else { format!("- `{path}`: {text}") })
}

pub(crate) fn shorten(text: String) -> String {
    match text.char_indices().nth(LENGTH) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
