//! Front matter of `SKILL.md`: the YAML between its first two lines of `---`.

use std::fmt;

use serde_json::{Map, Value};

use super::{names::field_problems, problem::SkillProblem, yaml};

/// Maximum size of front matter in bytes.
const MAX_FRONT_MATTER: usize = 64 * 1024;
const BYTE_ORDER_MARK: &str = "\u{feff}";
const FENCE: &str = "---";

/// Front matter of a `SKILL.md`: its YAML fields as JSON, by the core schema of YAML 1.2.
///
/// A date is a string there, and `yes` is one. Not accepted is YAML that parsers read differently, or that JSON does not
/// have: aliases, merge keys, duplicate keys, keys that are not strings, other tags, infinite numbers.
///
/// ```
/// # mod wharf { pub use wharf_extensions::*; }
/// use wharf::skills::FrontMatter;
///
/// let file = "---\nname: refunds\ndescription: Refunds an order.\n---\n# Refunds\n";
/// let front_matter = FrontMatter::parse(file.as_bytes())?;
/// assert_eq!(front_matter.name(), "refunds");
/// assert_eq!(front_matter.fields()["description"], "Refunds an order.");
/// assert!(front_matter.problems().is_empty());
/// # Ok::<(), wharf::skills::FrontMatterError>(())
/// ```
#[derive(Clone, Debug)]
pub struct FrontMatter {
    fields: Map<String, Value>,
    lines: Vec<(String, usize)>,
    ambiguous: Vec<(String, usize)>,
    has_carriage_returns: bool,
}

/// Error of reading front matter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrontMatterError {
    line: usize,
    text: String,
}

impl FrontMatter {
    /// Reads the front matter at the start of a `SKILL.md`. A byte order mark before it is skipped.
    ///
    /// # Errors
    /// If the file has no front matter, or if its YAML is not accepted.
    pub fn parse(file: &[u8]) -> Result<Self, FrontMatterError> {
        let text = std::str::from_utf8(file).map_err(|error| {
            let before = &file[..error.valid_up_to()];
            let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
            FrontMatterError::new(line, "it is not valid UTF-8: save it as UTF-8")
        })?;
        let yaml = yaml_part(text)?;
        let mapping = yaml::read_mapping(yaml).map_err(|(line, text)| {
            FrontMatterError::new(line + 1, format!("front matter: {text}"))
        })?;
        let shifted = |lines: Vec<(String, usize)>| -> Vec<_> {
            lines.into_iter().map(|(text, line)| (text, line + 1)).collect()
        };
        Ok(FrontMatter {
            fields: mapping.fields,
            lines: shifted(mapping.lines),
            ambiguous: shifted(mapping.ambiguous),
            has_carriage_returns: text.contains('\r'),
        })
    }

    /// Creates front matter with a name and a description, for content that is generated.
    #[must_use]
    pub fn new(name: impl Into<String>, description: impl Into<String>) -> Self {
        FrontMatter::from_fields(Map::new())
            .field("name", name.into())
            .field("description", description.into())
    }

    /// Sets a field.
    #[must_use]
    pub fn field(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.fields.insert(name.into(), value.into());
        self
    }

    /// Creates front matter from its fields, for content that is generated.
    #[must_use]
    pub fn from_fields(fields: Map<String, Value>) -> Self {
        let (lines, ambiguous) = (Vec::new(), Vec::new());
        FrontMatter { fields, lines, ambiguous, has_carriage_returns: false }
    }

    /// Returns the name, or an empty string.
    #[must_use]
    pub fn name(&self) -> &str {
        self.fields.get("name").and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns the description, or an empty string.
    #[must_use]
    pub fn description(&self) -> &str {
        self.fields.get("description").and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns all fields.
    #[must_use]
    pub fn fields(&self) -> &Map<String, Value> {
        &self.fields
    }

    /// Returns all fields.
    #[must_use]
    pub fn into_fields(self) -> Map<String, Value> {
        self.fields
    }

    /// Returns a file with this front matter, as YAML, and a body.
    ///
    /// ```
    /// # mod wharf { pub use wharf_extensions::*; }
    /// use wharf::skills::FrontMatter;
    ///
    /// let file = FrontMatter::new("daily", "Writes: the report").to_file("# Report\n");
    /// assert!(file.ends_with("\n---\n# Report\n"));
    /// assert_eq!(FrontMatter::parse(file.as_bytes())?.description(), "Writes: the report");
    /// # Ok::<(), wharf::skills::FrontMatterError>(())
    /// ```
    #[must_use]
    pub fn to_file(&self, body: &str) -> String {
        // Every JSON value is a YAML value of the same type.
        let line =
            |(name, value): (&String, &Value)| format!("{}: {value}\n", Value::from(name.as_str()));
        let fields: String = self.fields.iter().map(line).collect();
        format!("{FENCE}\n{fields}{FENCE}\n{body}")
    }

    /// Returns the line of a field in the file, from 1.
    #[must_use]
    pub fn line_of(&self, field: &str) -> Option<usize> {
        self.lines.iter().find(|(name, _)| name == field).map(|(_, line)| *line)
    }

    /// Returns the violated rules, with their lines.
    #[must_use]
    pub fn problems(&self) -> Vec<SkillProblem> {
        let mut problems = Vec::new();
        for (field, problem) in field_problems(&self.fields) {
            let line = self.line_of(field).or(self.lines.first().map(|_| 1));
            problems.push(SkillProblem { line, ..problem });
        }
        problems.extend(self.ambiguous.iter().map(|(text, line)| {
            let problem = SkillProblem::warning(format!(
                "some YAML parsers read `{text}` as another type, and then reject the skill: quote it"
            ));
            SkillProblem { line: Some(*line), ..problem }
        }));
        if self.has_carriage_returns {
            problems.push(SkillProblem::warning(
                "it has line ends of Windows (CRLF), which Git may convert: digests then differ \
                 between checkouts. Convert it to LF, or set `eol` in `.gitattributes`",
            ));
        }
        problems
    }
}

impl FrontMatterError {
    fn new(line: usize, text: impl Into<String>) -> Self {
        FrontMatterError { line, text: text.into() }
    }

    /// Returns the line of the problem, from 1.
    #[must_use]
    pub fn line(&self) -> usize {
        self.line
    }

    /// Returns the description of the problem, without its line.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl From<FrontMatterError> for SkillProblem {
    fn from(error: FrontMatterError) -> Self {
        SkillProblem { line: Some(error.line), ..SkillProblem::error(error.text) }
    }
}

impl fmt::Display for FrontMatterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.text)
    }
}

impl std::error::Error for FrontMatterError {}

/// Returns the name of the first field that differs between two front matters, or that only one of them has. Numbers are
/// compared by value: `1` equals `1.0`.
///
/// ```
/// # mod wharf { pub use wharf_extensions::*; }
/// use serde_json::{Map, Value, json};
/// use wharf::skills::differing_field;
///
/// let fields = |value: Value| value.as_object().cloned().unwrap_or_default();
/// let (listed, file) = (fields(json!({"name": "a", "v": 1})), fields(json!({"name": "b", "v": 1.0})));
/// assert_eq!(differing_field(&listed, &file), Some("name"));
/// assert_eq!(differing_field(&listed, &listed), None);
/// ```
#[must_use]
pub fn differing_field<'a>(
    one: &'a Map<String, Value>,
    other: &'a Map<String, Value>,
) -> Option<&'a str> {
    let only = other.keys().find(|field| !one.contains_key(*field));
    let differing = one
        .iter()
        .find(|(field, value)| other.get(*field).is_none_or(|other| !is_same(value, other)));
    differing.map(|(field, _)| field).or(only).map(String::as_str)
}

/// Returns whether two JSON values are the same, with numbers compared by value.
fn is_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => differing_field(a, b).is_none(),
        _ => one == other,
    }
}

/// Returns the text between the fences.
fn yaml_part(file: &str) -> Result<&str, FrontMatterError> {
    let text = file.strip_prefix(BYTE_ORDER_MARK).unwrap_or(file);
    let first = text.split_inclusive('\n').next().unwrap_or_default();
    if first.trim_end_matches(['\r', '\n']) != FENCE {
        let text = "it does not begin with front matter: write `---`, the fields `name` and \
                    `description`, and `---` at its start";
        return Err(FrontMatterError::new(1, text));
    }
    let yaml = &text[first.len()..];
    let mut end = 0;
    for line in yaml.split_inclusive('\n') {
        if line.trim_end_matches(['\n', '\r', ' ', '\t']) == FENCE {
            return Ok(&yaml[..end]);
        }
        end += line.len();
        if end > MAX_FRONT_MATTER {
            let text = format!("front matter: it is larger than {MAX_FRONT_MATTER} bytes");
            return Err(FrontMatterError::new(1, text));
        }
    }
    Err(FrontMatterError::new(1, "its front matter does not end: write `---` below its fields"))
}
