//! Report of the validation problems of a value, with their paths.

use std::fmt;

/// Maximum number of reported problems and of characters in each, because values come from callers.
pub(crate) const MAX_PROBLEMS: usize = 8;
pub(crate) const MAX_PROBLEM_CHARS: usize = 300;

/// Path to a part of a value.
pub(crate) struct ValuePath<'a> {
    outer: Option<&'a ValuePath<'a>>,
    last: PathSegment<'a>,
}

enum PathSegment<'a> {
    Root,
    Key(&'a str),
    Index(usize),
}

impl<'a> ValuePath<'a> {
    pub(crate) const ROOT: ValuePath<'static> = ValuePath { outer: None, last: PathSegment::Root };

    pub(crate) fn key(&'a self, key: &'a str) -> ValuePath<'a> {
        ValuePath { outer: Some(self), last: PathSegment::Key(key) }
    }

    pub(crate) fn index(&'a self, index: usize) -> ValuePath<'a> {
        ValuePath { outer: Some(self), last: PathSegment::Index(index) }
    }

    /// Keys and indices from the root, joined by dots.
    pub(crate) fn dotted(&self) -> String {
        let mut segments = Vec::new();
        let mut at = Some(self);
        while let Some(path) = at {
            match path.last {
                PathSegment::Root => {}
                PathSegment::Key(key) => segments.push(sanitize(key)),
                PathSegment::Index(index) => segments.push(index.to_string()),
            }
            at = path.outer;
        }
        segments.reverse();
        segments.join(".")
    }
}

/// Kind of a problem, used to guess the intended schema among alternatives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProblemKind {
    Type,
    Constant,
    Other,
}

/// A single validation problem.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ValueProblem {
    pub(crate) kind: ProblemKind,
    pub(crate) path: String,
    pub(crate) text: String,
}

impl fmt::Display for ValueProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ValueProblem { path, text, .. } = self;
        if path.is_empty() { write!(f, "- {text}") } else { write!(f, "- `{path}`: {text}") }
    }
}

/// Validation problems of a value; `Display` writes one line for each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems {
    lines: Vec<String>,
    is_cut_short: bool,
}

impl Problems {
    pub(crate) fn new(problems: Vec<ValueProblem>, is_cut_short: bool) -> Self {
        let lines = problems.iter().map(|it| shorten(it.to_string())).collect();
        Problems { lines, is_cut_short }
    }

    /// True if there are no problems.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// The first problem, without its list marker.
    #[must_use]
    pub fn first(&self) -> Option<&str> {
        self.lines.first().map(|line| line.trim_start_matches("- "))
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.lines.join("\n"))?;
        match (self.is_cut_short, self.lines.is_empty()) {
            (false, _) => Ok(()),
            (true, true) => f.write_str(
                "- they do not match the schema; locating the problem would take too long",
            ),
            (true, false) => f.write_str("\n- checking for further problems would take too long"),
        }
    }
}

/// Caller-supplied text, shortened and without control characters. A line break in it could imitate
/// another problem.
pub(crate) fn sanitize(text: &str) -> String {
    let visible = |char: char| if char.is_control() { '\u{FFFD}' } else { char };
    text.chars().take(MAX_PROBLEM_CHARS).map(visible).collect()
}

/// Shortens a text to the length limit of a problem.
#[must_use]
pub fn shorten(text: String) -> String {
    match text.char_indices().nth(MAX_PROBLEM_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
