//! Parses argument words: `key=value`, `key:=json`, `{…}` and `-`.

use std::io::{self, Read};

use serde_json::{Map, Value};

use crate::error::CliError;

/// Maximum number of bytes read from stdin.
const MAX_STDIN_BYTES: u64 = 64 << 20;

/// One argument before its type is resolved.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum CliArgument {
    /// `key=value`: a string, converted by the schema.
    Text { key: String, text: String },
    /// `key:=json`: a JSON value, used unchanged.
    Json { key: String, value: Value },
    /// Member of a whole object. Dots in its name do not separate levels.
    Member { name: String, value: Value },
}

/// Parses the arguments. `-` reads an object from stdin.
pub(crate) fn parse_arguments(words: &[String]) -> Result<Vec<CliArgument>, CliError> {
    let mut read = Vec::with_capacity(words.len());
    for word in words {
        match word.as_str() {
            "-" => read.extend(members(object(&stdin()?, "stdin")?)),
            text if text.starts_with('{') => {
                read.extend(members(object(text, "the argument")?));
            }
            text => read.push(one(text)?),
        }
    }
    Ok(read)
}

/// Reads JSON text from stdin.
pub(crate) fn stdin() -> Result<String, CliError> {
    let mut text = String::new();
    let read = io::stdin().lock().take(MAX_STDIN_BYTES).read_to_string(&mut text);
    read.map_err(|error| CliError::usage(format!("Cannot read stdin: {error}")))?;
    Ok(text)
}

fn members(object: Map<String, Value>) -> impl Iterator<Item = CliArgument> {
    object.into_iter().map(|(name, value)| CliArgument::Member { name, value })
}

fn object(text: &str, place: &str) -> Result<Map<String, Value>, CliError> {
    match serde_json::from_str(text) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(other) => {
            Err(CliError::usage(format!("Expected a JSON object in {place}, got {other}")))
        }
        Err(error) => Err(CliError::usage(format!("The JSON in {place} cannot be read: {error}"))),
    }
}

fn one(word: &str) -> Result<CliArgument, CliError> {
    let Some((key, value)) = word.split_once('=').filter(|(key, _)| !matches!(*key, "" | ":"))
    else {
        return Err(CliError::usage(format!("`{word}` is not an argument")).hint(
            "Write key=value, key:=json, a whole JSON object, or - to read one from stdin."
                .to_owned(),
        ));
    };
    let Some(key) = key.strip_suffix(':') else {
        return Ok(CliArgument::Text { key: key.to_owned(), text: value.to_owned() });
    };
    let value = serde_json::from_str(value).map_err(|error| {
        CliError::usage(format!("`{value}`, given for {key}, is not valid JSON: {error}"))
            .hint(format!("To send it as text, write {key}={value}"))
    })?;
    Ok(CliArgument::Json { key: key.to_owned(), value })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(words: &[&str]) -> Result<Vec<CliArgument>, CliError> {
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        parse_arguments(&words)
    }

    fn text(key: &str, text: &str) -> CliArgument {
        CliArgument::Text { key: key.to_owned(), text: text.to_owned() }
    }

    fn value(key: &str, value: Value) -> CliArgument {
        CliArgument::Json { key: key.to_owned(), value }
    }

    #[test]
    fn every_argument_form_is_parsed() {
        let words = read(&["a=1", "b:=[1]", "url=http://x?a=b", "e=", r#"{"c":{"d":1}}"#]).unwrap();
        let expected = [
            text("a", "1"),
            value("b", json!([1])),
            text("url", "http://x?a=b"),
            text("e", ""),
            CliArgument::Member { name: "c".to_owned(), value: json!({"d": 1}) },
        ];
        assert_eq!(words, expected);
    }

    #[test]
    fn invalid_argument_forms_are_reported() {
        for word in ["nonsense", "=1", ":=1", "a:=nonsense", "{\"a\":", "{} {}"] {
            let fail = read(&[word]).unwrap_err();
            assert_eq!(fail.exit as i32, 1, "{word}");
        }
        assert!(read(&["a:=x"]).unwrap_err().json().contains("write a=x"));
    }
}
