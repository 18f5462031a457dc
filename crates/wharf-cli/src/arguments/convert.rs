//! Converts command-line strings to JSON values that match a schema.

#[cfg(test)]
#[path = "convert_tests.rs"]
pub(crate) mod tests;

use serde_json::{Map, Number, Value};

use crate::arguments::{
    CliArgument, Schema,
    schema::{insert_at, plain},
};
use crate::{
    error::CliError,
    suggest,
    terminal::{clean_line, cut, ellipsis},
};

/// Maximum nesting of alternatives that are tried.
const MAX_DEPTH: usize = 3;

/// Maximum number of arguments in a signature or an error message.
const MAX_ARGUMENTS: usize = 12;

/// Maximum length of an argument name in an error message.
const MAX_NAME_CHARS: usize = 80;

/// Builds the arguments object from `words` under `schema`. `of` names the tool or prompt.
pub(crate) fn arguments(
    of: &str,
    schema: &Value,
    words: Vec<CliArgument>,
) -> Result<Map<String, Value>, CliError> {
    let root = Schema::new(schema);
    let mut object = Map::new();
    for (key, given) in merge_by_key(words) {
        match given {
            KeyInput::Member(value) => _ = object.insert(key, value),
            KeyInput::Json(value) => {
                let path =
                    resolve_key(root, &key).map_or_else(|| vec![key.as_str()], |(path, _)| path);
                insert_at(&mut object, &path, value);
            }
            KeyInput::Strings(values) => {
                let (path, schema) =
                    resolve_key(root, &key).ok_or_else(|| unknown_argument(of, root, &key))?;
                insert_at(&mut object, &path, convert_values(schema, &key, &values)?);
            }
        }
    }
    missing_arguments(of, root, &object).map_or(Ok(object), Err)
}

/// Input for one key.
enum KeyInput {
    Strings(Vec<String>),
    Json(Value),
    Member(Value),
}

/// Merges the input per key: strings accumulate, a JSON value replaces earlier input.
fn merge_by_key(words: Vec<CliArgument>) -> Vec<(String, KeyInput)> {
    let mut all: Vec<(String, KeyInput)> = Vec::new();
    for word in words {
        let (key, given) = match word {
            CliArgument::Text { key, text } => {
                let known = all.iter_mut().find_map(|(known, given)| match given {
                    KeyInput::Strings(texts) if *known == key => Some(texts),
                    _ => None,
                });
                if let Some(texts) = known {
                    texts.push(text);
                    continue;
                }
                (key, KeyInput::Strings(vec![text]))
            }
            CliArgument::Json { key, value } => (key, KeyInput::Json(value)),
            CliArgument::Member { name, value } => (name, KeyInput::Member(value)),
        };
        all.retain(|(known, _)| *known != key);
        all.push((key, given));
    }
    all
}

/// Path and schema of `key`. Dots separate the levels of nested objects.
fn resolve_key<'a, 'k>(root: Schema<'a>, key: &'k str) -> Option<(Vec<&'k str>, Schema<'a>)> {
    if let Some(schema) = root.field(key) {
        return Some((vec![key], schema));
    }
    if let Some((first, rest)) = key.split_once('.')
        && let Some(inner) = root.field(first).filter(|field| field.is_object())
    {
        let (mut path, schema) = resolve_key(inner.as_object(), rest)?;
        path.insert(0, first);
        return Some((path, schema));
    }
    root.additional_fields().map(|schema| (vec![key], schema))
}

fn unknown_argument(of: &str, root: Schema<'_>, key: &str) -> CliError {
    let fields = root.fields();
    let names: Vec<&str> = fields.iter().map(|(name, _)| *name).collect();
    let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    let hint = suggest::did_you_mean(key, names).unwrap_or_else(|| format!("It takes: {known}."));
    CliError::usage(format!("{of} has no argument `{key}`"))
        .hint(format!("{hint} To send it anyway, write {key}:=JSON."))
}

fn missing_arguments(of: &str, root: Schema<'_>, given: &Map<String, Value>) -> Option<CliError> {
    let required = root.required();
    let lines: Vec<String> = required
        .into_iter()
        .filter(|name| !given.contains_key(*name))
        .take(MAX_ARGUMENTS + 1)
        .enumerate()
        .map(|(at, name)| {
            if at == MAX_ARGUMENTS {
                format!("  {}", ellipsis())
            } else {
                describe_argument(root, name)
            }
        })
        .collect();
    let what = if lines.len() == 1 { "this argument" } else { "these arguments" };
    (!lines.is_empty())
        .then(|| CliError::usage(format!("{of} needs {what}:\n{}", lines.join("\n"))))
}

/// `  name=kind  Description.`, always one line, even if the server's description has several.
fn describe_argument(root: Schema<'_>, name: &str) -> String {
    let field = root.field(name);
    let kind = field.map_or_else(|| "any".to_owned(), Schema::kind);
    let about = field.and_then(|it| it.text("description").or(it.text("title")));
    let short = |text: &str, most| cut(&clean_line(text), most);
    let (name, kind) = (short(name, MAX_NAME_CHARS), short(&kind, 80));
    format!("  {name}={kind}  {}", short(about.unwrap_or_default(), 200)).trim_end().to_owned()
}

/// Converts the strings of one key, one or more, to a value.
fn convert_values(schema: Schema<'_>, key: &str, texts: &[String]) -> Result<Value, CliError> {
    if let [text] = texts {
        return convert(schema, text, 0).map_err(|why| CliError::usage(format!("{key}: {why}")));
    }
    let Some(list) = list_schema(schema) else {
        return Err(CliError::usage(format!(
            "{key} is given {} times, but takes one value",
            texts.len()
        )));
    };
    let items = texts.iter().map(|text| convert(list.items(), text, 0));
    let items: Result<Vec<Value>, String> = items.collect();
    items.map(Value::from).map_err(|why| CliError::usage(format!("{key}: {why}")))
}

fn list_schema(schema: Schema<'_>) -> Option<Schema<'_>> {
    let it = schema.typed_part();
    let all = std::iter::once(it).chain(it.alternatives());
    let mut lists = all.filter(|one| one.types().contains(&"array"));
    lists.next().or_else(|| (it.types().is_empty() && it.alternatives().is_empty()).then_some(it))
}

/// Converts `text` to a value under `schema`, or returns the reason why it cannot.
pub(crate) fn convert(schema: Schema<'_>, text: &str, deep: usize) -> Result<Value, String> {
    let it = schema.typed_part();
    if let Some(choices) = it.choices() {
        return choice(&choices, text);
    }
    let types = it.types();
    let mut reasons = Vec::new();
    for kind in &types {
        match convert_to_type(it, kind, text, deep) {
            Ok(value) => return Ok(value),
            Err(why) => reasons.push(why),
        }
    }
    if types.is_empty() && deep < MAX_DEPTH {
        for alternative in it.alternatives() {
            match convert(alternative, text, deep + 1) {
                Ok(value) => return Ok(value),
                Err(why) => reasons.push(why),
            }
        }
    }
    if reasons.is_empty() {
        // The schema has no type: parse as JSON, else keep the string.
        return Ok(serde_json::from_str(text).unwrap_or_else(|_| text.into()));
    }
    // "Not null" is left out of the reasons unless it is the only one.
    if reasons.len() > 1 {
        reasons.retain(|why| !why.ends_with("is not null"));
    }
    Err(reasons.join("; or: "))
}

fn convert_to_type(
    schema: Schema<'_>,
    kind: &str,
    text: &str,
    deep: usize,
) -> Result<Value, String> {
    let shown = cut(&clean_line(text), 60);
    match kind {
        "string" => Ok(text.into()),
        "integer" => integer(text).ok_or_else(|| format!("`{shown}` is not an integer")),
        "number" => number(text).ok_or_else(|| format!("`{shown}` is not a number")),
        "boolean" => boolean(text).ok_or_else(|| format!("`{shown}` is neither true nor false")),
        "null" if text == "null" => Ok(Value::Null),
        "null" => Err(format!("`{shown}` is not null")),
        "array" => array(schema, text, deep),
        "object" => match serde_json::from_str(text) {
            Ok(object @ Value::Object(_)) => Ok(object),
            _ => Err(format!("`{shown}` is not a JSON object, such as {{\"name\":\"value\"}}")),
        },
        other => Err(format!("the schema has the unknown type `{other}`")),
    }
}

fn array(schema: Schema<'_>, text: &str, deep: usize) -> Result<Value, String> {
    if text.trim_start().starts_with('[') {
        return match serde_json::from_str(text) {
            Ok(list @ Value::Array(_)) => Ok(list),
            Ok(_) => Err("this is not a list".to_owned()),
            Err(error) => Err(format!("this list is not valid JSON: {error}")),
        };
    }
    if deep >= MAX_DEPTH {
        return Err("nested lists must be given as JSON".to_owned());
    }
    convert(schema.items(), text, deep + 1).map(|item| Value::from(vec![item]))
}

pub(crate) fn boolean(text: &str) -> Option<Value> {
    match text.to_lowercase().as_str() {
        "true" | "yes" | "y" | "on" | "1" => Some(true.into()),
        "false" | "no" | "n" | "off" | "0" => Some(false.into()),
        _ => None,
    }
}

pub(crate) fn integer(text: &str) -> Option<Value> {
    let signed = text.parse::<i64>().map(Value::from);
    signed.or_else(|_| text.parse::<u64>().map(Value::from)).ok()
}

pub(crate) fn number(text: &str) -> Option<Value> {
    let real = || text.parse().ok().and_then(Number::from_f64).map(Value::Number);
    integer(text).or_else(real)
}

fn choice(choices: &[&Value], text: &str) -> Result<Value, String> {
    if let Some(found) = choices.iter().find(|value| plain(value) == text) {
        return Ok((*found).clone());
    }
    let names: Vec<String> = choices.iter().map(|value| plain(value)).collect();
    let shown = cut(&clean_line(text), 60);
    let meant = suggest::did_you_mean(text, names.iter().map(String::as_str));
    let meant = meant.map(|hint| format!(". {hint}")).unwrap_or_default();
    Err(format!("`{shown}` is not one of {}{meant}", cut(&clean_line(&names.join(", ")), 400)))
}

/// Signature of a tool as its arguments are convert: `a=integer [note=string]`.
pub(crate) fn signature(schema: &Value) -> String {
    let root = Schema::new(schema);
    let required = root.required();
    let fields = root.fields();
    let (needed, optional): (Vec<_>, Vec<_>) =
        fields.into_iter().partition(|(name, _)| required.contains(name));
    let all = needed.into_iter().map(|field| (field, true));
    let all = all.chain(optional.into_iter().map(|field| (field, false)));
    let mut shown: Vec<String> = Vec::new();
    for ((name, field), needed) in all {
        if shown.len() == MAX_ARGUMENTS {
            shown.push(ellipsis().to_owned());
            break;
        }
        let name = cut(&clean_line(name), MAX_NAME_CHARS);
        let one = format!("{name}={}", cut(&clean_line(&field.kind()), 40));
        shown.push(if needed { one } else { format!("[{one}]") });
    }
    shown.join(" ")
}
