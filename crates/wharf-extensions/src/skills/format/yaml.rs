//! YAML mapping as a JSON object: reads the events of the parser, and refuses everything that parsers read differently or
//! that JSON does not have.
//!
//! `saphyr-parser` reads YAML 1.2 into events with positions. A parser that returns values would resolve aliases and merge
//! keys, and would keep neither the style of a scalar, on which its type depends, nor its line.

use std::borrow::Cow;

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span, Tag};
use serde_json::{Map, Value, map::Entry};

use super::scalar;

/// Maximum depth of nested collections.
const MAX_DEPTH: usize = 32;
const MERGE_KEY: &str = "<<";
const NOT_A_MAP: &str = "it is not a map: write `key: value` lines";

/// Mapping with the lines of its fields.
#[derive(Debug, Default)]
pub(super) struct YamlMapping {
    pub(super) fields: Map<String, Value>,
    /// Fields of the outermost mapping, with their lines.
    pub(super) lines: Vec<(String, usize)>,
    /// Plain scalars that other parsers read as another type, with their lines.
    pub(super) ambiguous: Vec<(String, usize)>,
}

/// Line, from 1, and description of a problem.
pub(super) type YamlProblem = (usize, String);

/// Collection whose end was not read yet.
enum OpenCollection {
    Sequence(Vec<Value>),
    Mapping { fields: Map<String, Value>, key: Option<String> },
}

#[derive(Default)]
struct MappingReader {
    open: Vec<OpenCollection>,
    mapping: YamlMapping,
    documents: usize,
    is_complete: bool,
}

/// Reads a document that is a mapping.
pub(super) fn read_mapping(text: &str) -> Result<YamlMapping, YamlProblem> {
    let mut reader = MappingReader::default();
    let mut parser = Parser::new_from_str(text);
    while let Some(event) = parser.next_event() {
        let (event, span) = event.map_err(|error| syntax_problem(&error))?;
        reader.event(event, span)?;
    }
    if reader.is_complete { Ok(reader.mapping) } else { Err((1, "it is empty".into())) }
}

impl MappingReader {
    fn event(&mut self, event: Event<'_>, span: Span) -> Result<(), YamlProblem> {
        let line = span.start.line();
        let result = match event {
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => Ok(()),
            Event::DocumentStart(_) => self.document(),
            Event::Alias(_) => Err("it has an alias (`*`): write the value again".to_owned()),
            Event::Scalar(text, style, _, tag) => self.scalar(&text, style, tag, line),
            Event::SequenceStart(_, tag) => check_tag(tag, "seq")
                .and_then(|()| self.start(OpenCollection::Sequence(Vec::new()))),
            Event::MappingStart(_, tag) => check_tag(tag, "map").and_then(|()| {
                self.start(OpenCollection::Mapping { fields: Map::new(), key: None })
            }),
            Event::SequenceEnd | Event::MappingEnd => self.end(line),
        };
        result.map_err(|text| (line, text))
    }

    fn document(&mut self) -> Result<(), String> {
        self.documents += 1;
        match self.documents {
            1 => Ok(()),
            _ => Err("it has several YAML documents: keep one".to_owned()),
        }
    }

    fn scalar(
        &mut self,
        text: &str,
        style: ScalarStyle,
        tag: Option<Cow<'_, Tag>>,
        line: usize,
    ) -> Result<(), String> {
        let is_plain = style == ScalarStyle::Plain;
        let value = match tag {
            None if is_plain => scalar::resolve(text)?,
            None => Value::from(text),
            Some(tag) => tagged(&tag, text)?,
        };
        if let Some(OpenCollection::Mapping { key: key @ None, fields }) = self.open.last_mut() {
            let Value::String(name) = value else {
                return Err(format!("the key `{text}` is not a string: quote it"));
            };
            if is_plain && name == MERGE_KEY {
                return Err("it has a merge key (`<<`): write the fields out".to_owned());
            }
            if fields.contains_key(&name) {
                return Err(format!("it has the key `{name}` twice: remove one"));
            }
            *key = Some(name.clone());
            if self.open.len() == 1 {
                self.mapping.lines.push((name, line));
            }
            return Ok(());
        }
        if is_plain && scalar::is_ambiguous(text) {
            self.mapping.ambiguous.push((text.to_owned(), line));
        }
        self.value(value)
    }

    fn start(&mut self, collection: OpenCollection) -> Result<(), String> {
        if self.open.len() == MAX_DEPTH {
            return Err(format!("it is nested deeper than {MAX_DEPTH} levels"));
        }
        match (self.open.last(), &collection) {
            (None, OpenCollection::Sequence(_)) => return Err(NOT_A_MAP.to_owned()),
            (Some(OpenCollection::Mapping { key: None, .. }), _) => {
                return Err("a key is a list or a map: use a string".to_owned());
            }
            _ => {}
        }
        self.open.push(collection);
        Ok(())
    }

    fn end(&mut self, line: usize) -> Result<(), String> {
        let value = match self.open.pop() {
            Some(OpenCollection::Mapping { fields, .. }) if self.open.is_empty() => {
                self.is_complete = true;
                self.mapping.fields = fields;
                return Ok(());
            }
            Some(OpenCollection::Mapping { fields, .. }) => Value::Object(fields),
            Some(OpenCollection::Sequence(values)) => Value::Array(values),
            None => return Err(format!("it ends a collection in line {line} that did not start")),
        };
        self.value(value)
    }

    /// Adds a value to the innermost collection.
    fn value(&mut self, value: Value) -> Result<(), String> {
        match self.open.last_mut() {
            Some(OpenCollection::Sequence(values)) => values.push(value),
            Some(OpenCollection::Mapping { fields, key }) => {
                let Entry::Vacant(entry) = fields.entry(key.take().unwrap_or_default()) else {
                    return Err("it has a key twice: remove one".to_owned());
                };
                entry.insert(value);
            }
            None => return Err(NOT_A_MAP.to_owned()),
        }
        Ok(())
    }
}

/// Returns the value of a scalar with a tag of the core schema.
fn tagged(tag: &Tag, text: &str) -> Result<Value, String> {
    let accepts: fn(&Value) -> bool = match tag.suffix.as_str() {
        _ if !tag.is_yaml_core_schema() => return Err(unknown_tag(tag)),
        "str" => return Ok(Value::from(text)),
        "null" => Value::is_null,
        "bool" => Value::is_boolean,
        "int" => |value| value.is_i64() || value.is_u64(),
        "float" => Value::is_number,
        _ => return Err(unknown_tag(tag)),
    };
    let value = scalar::resolve(text)?;
    let mistyped = || format!("`{text}` is not a value of the tag `{tag}`: remove the tag");
    accepts(&value).then_some(value).ok_or_else(mistyped)
}

fn check_tag(tag: Option<Cow<'_, Tag>>, collection: &str) -> Result<(), String> {
    match tag {
        Some(tag) if !(tag.is_yaml_core_schema() && tag.suffix == collection) => {
            Err(unknown_tag(&tag))
        }
        _ => Ok(()),
    }
}

fn unknown_tag(tag: &Tag) -> String {
    format!("JSON has no value for the tag `{tag}`: remove it")
}

fn syntax_problem(error: &ScanError) -> YamlProblem {
    (error.marker().line(), format!("it is not valid YAML: {}", error.info()))
}
