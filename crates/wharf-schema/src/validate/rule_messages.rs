//! Messages of the rules that a value violates.

use std::{
    fmt::Write as _,
    io::{self, Write},
};

use serde_json::Value;

use crate::problem_report::{MAX_PROBLEM_CHARS, sanitize};
use crate::validate::compiled::{BoundKeyword, Contains, CountKeyword, Rule, TypeSet};

/// Maximum number of choices, and of names, in a message.
const MAX_LISTED_CHOICES: usize = 3;
const MAX_LISTED_NAMES: usize = 8;

/// Message options.
#[derive(Clone, Copy)]
pub(super) struct MessageStyle {
    /// True if messages may quote the value.
    pub(super) quotes: bool,
}

/// JSON of a value, shortened.
pub(super) fn as_json(value: &Value) -> String {
    let mut text = BoundedBuffer(Vec::new());
    // Writing fails at the length limit.
    let cut = serde_json::to_writer(&mut text, value).is_err();
    let text = String::from_utf8_lossy(&text.0);
    if cut { format!("{}…", text.trim_end_matches('\u{FFFD}')) } else { text.into_owned() }
}

struct BoundedBuffer(Vec<u8>);

impl Write for BoundedBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = MAX_PROBLEM_CHARS - self.0.len().min(MAX_PROBLEM_CHARS);
        self.0.extend(&bytes[..bytes.len().min(room)]);
        if bytes.len() > room { Err(io::ErrorKind::WriteZero.into()) } else { Ok(bytes.len()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn ending(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

impl MessageStyle {
    fn value(self, value: &Value) -> String {
        if self.quotes { as_json(value) } else { "value".into() }
    }

    /// Message for a value that violates a rule.
    pub(super) fn of(self, rule: &Rule, value: &Value) -> String {
        let it = || self.value(value);
        match rule {
            Rule::Never => format!("False schema does not allow {}", it()),
            Rule::Const(wanted) => format!("{} was expected", as_json(wanted)),
            Rule::Enum(choices) => format!("{} is not one of {}", it(), listed(choices)),
            Rule::Bound(bound, limit) => format!("{} is {} of {limit}", it(), beyond(*bound)),
            Rule::MultipleOf(step) => format!("{} is not a multiple of {step}", it()),
            Rule::Count(count, limit) => format!("{} {}", it(), miscounted(*count, *limit)),
            Rule::Pattern(pattern) => {
                format!("{} does not match \"{}\"", it(), sanitize(pattern.source()))
            }
            Rule::Format(format) => format!("{} is not a \"{}\"", it(), format.name),
            Rule::Content(content) => format!("{} is not {content}", it()),
            Rule::UniqueItems => format!("{} has non-unique elements", it()),
            Rule::Not(_, schema) => format!("{schema} is not allowed for {}", it()),
            _ => format!("{} does not match the schema", it()),
        }
    }

    pub(super) fn of_type(self, types: TypeSet, value: &Value) -> String {
        let names: Vec<String> = types.names().map(|name| format!("\"{name}\"")).collect();
        let (it, ending) = (self.value(value), ending(names.len()));
        format!("{it} is not of type{ending} {}", names.join(", "))
    }

    pub(super) fn missing(name: &str) -> String {
        format!("{} is a required property", as_json(&Value::from(name)))
    }

    pub(super) fn none(self, keyword: &str, value: &Value) -> String {
        let it = self.value(value);
        format!("{it} is not valid under any of the schemas listed in the '{keyword}' keyword")
    }

    pub(super) fn more_than_one(self, value: &Value) -> String {
        let it = self.value(value);
        format!("{it} is valid under more than one of the schemas listed in the 'oneOf' keyword")
    }

    pub(super) fn contained(self, contains: &Contains, found: usize, value: &Value) -> String {
        let it = self.value(value);
        let Contains { least, most, .. } = contains;
        match (found < *least, *least) {
            (true, 1) => format!("None of {it} are valid under the given schema"),
            (true, _) => format!("{it} has less than {least} items that match 'contains'"),
            (false, _) => {
                format!("{it} has more than {most} item{} that match 'contains'", ending(*most))
            }
        }
    }

    pub(super) fn unexpected_names(self, what: &str, names: &[&str]) -> String {
        let quoted: Vec<String> = names
            .iter()
            .take(MAX_LISTED_NAMES)
            .map(|name| format!("'{}'", sanitize(name)))
            .collect();
        format!("{what} are not allowed ({} unexpected)", were(&quoted, names.len()))
    }

    pub(super) fn unexpected_items(self, what: &str, items: &[&Value]) -> String {
        if !self.quotes {
            let count = items.len();
            return format!("{what} items are not allowed ({count} item{})", ending(count));
        }
        let all: Vec<String> =
            items.iter().take(MAX_LISTED_NAMES).map(|item| as_json(item)).collect();
        format!("{what} items are not allowed ({} unexpected)", were(&all, items.len()))
    }
}

/// `a was`, `a, b were`, `a, b and 7 others were`.
fn were(shown: &[String], count: usize) -> String {
    let mut text = shown.join(", ");
    if count > shown.len() {
        // Writing to a string cannot fail.
        let _ = write!(text, " and {} other{}", count - shown.len(), ending(count - shown.len()));
    }
    text + if count == 1 { " was" } else { " were" }
}

/// `1`, `1 or 2`, `1, 2 or 3`, `1, 2 or 7 other candidates`.
fn listed(choices: &[Value]) -> String {
    let whole = choices.len() <= MAX_LISTED_CHOICES;
    let shown = if whole { choices.len() } else { MAX_LISTED_CHOICES - 1 };
    let mut all: Vec<String> = choices[..shown].iter().map(as_json).collect();
    if !whole {
        all.push(format!("{} other candidates", choices.len() - shown));
    }
    match all.split_last() {
        Some((last, first)) if !first.is_empty() => format!("{} or {last}", first.join(", ")),
        Some((only, _)) => only.clone(),
        None => "no value".into(),
    }
}

fn beyond(bound: BoundKeyword) -> &'static str {
    match bound {
        BoundKeyword::Minimum => "less than the minimum",
        BoundKeyword::ExclusiveMinimum => "less than or equal to the minimum",
        BoundKeyword::Maximum => "greater than the maximum",
        BoundKeyword::ExclusiveMaximum => "greater than or equal to the maximum",
    }
}

fn miscounted(count: CountKeyword, limit: usize) -> String {
    let s = ending(limit);
    let ies = if limit == 1 { "y" } else { "ies" };
    match count {
        CountKeyword::MinLength => format!("is shorter than {limit} character{s}"),
        CountKeyword::MaxLength => format!("is longer than {limit} character{s}"),
        CountKeyword::MinItems => format!("has less than {limit} item{s}"),
        CountKeyword::MaxItems => format!("has more than {limit} item{s}"),
        CountKeyword::MinProperties => format!("has less than {limit} propert{ies}"),
        CountKeyword::MaxProperties => format!("has more than {limit} propert{ies}"),
    }
}
