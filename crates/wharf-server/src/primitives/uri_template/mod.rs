//! URI templates (RFC 6570), matched in linear time.

pub(crate) mod parse;
#[cfg(test)]
pub(crate) mod tests;

use std::borrow::Cow;

use crate::handler::string_args::StringArg;

/// Compiled URI template. It is matched against a URI by filling a table of (parts of the template)
/// × (bytes of the URI), so no input can make matching slower than that.
///
/// Guarantees for captured values:
/// - they are percent-decoded once and are valid UTF-8, so a check of a value sees its final form;
/// - a value of `{var}`, `{/var}`, `{.var}` or `{;var}`, and each item of `{/list*}`, contains no
///   `/`, encoded or not; only `{+var}`, `{#var}` and the query may contain slashes;
/// - a value may still be `..` or contain a NUL: use [`safe_join`](crate::safe_join) before opening a file.
///
/// A variable with an operator (`{/x}`, `{.x}`, `{;x}`, `{?x}`, `{&x}`, `{#x}`) may be missing;
/// `{x}` and `{+x}` match at least one character. If a URI can be matched in several ways, earlier
/// variables match as little as possible. Query parameters may come in any order, and one that the
/// template does not name prevents a match. A variable with `*` is always a list.
///
/// A literal character that is not allowed in a URI, such as `é`, is percent-encoded when a client
/// expands the template; it matches encoded or unencoded.
#[derive(Clone, Debug)]
pub(crate) struct UriTemplate {
    /// Literal that every match begins with: it rules out most URIs quickly.
    prefix: String,
    body: Vec<TemplateAtom>,
    query: Option<QueryPattern>,
    fragment: Vec<TemplateAtom>,
    variables: Vec<TemplateVariable>,
    /// True if literals contain percent-encoded characters: then URIs are encoded alike before they
    /// are matched.
    has_escapes: bool,
}

/// One part of a template, in matching order.
#[derive(Clone, Debug, PartialEq, Eq)]
enum TemplateAtom {
    /// Exactly this string.
    Literal(String),
    /// Either the following atoms, or none of them up to the atom with this index.
    Optional(usize),
    /// Value of a variable.
    Capture { variable: usize, class: CharClass, least: usize },
}

/// Bytes that a value may consist of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CharClass {
    /// One segment of a path.
    Segment,
    /// One segment, without this separator.
    Item(u8),
    /// Segments separated by slashes.
    Segments,
    /// Any character of a URI.
    Anything,
}

impl CharClass {
    fn has(self, byte: u8) -> bool {
        match self {
            CharClass::Segment => !matches!(byte, b'/' | b'?' | b'#' | b'&'),
            CharClass::Item(separator) => byte != separator && CharClass::Segment.has(byte),
            CharClass::Segments => byte == b'/' || CharClass::Segment.has(byte),
            CharClass::Anything => true,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct TemplateVariable {
    name: String,
    shape: ValueShape,
    slashes: bool,
}

/// Form of the captured string of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ValueShape {
    /// The value.
    One,
    /// Empty, or `=` and the value.
    Parameter,
    /// Values with this separator; each after `name=` if it is a `;`.
    List(char),
}

/// Query of a template: required pairs, and optional variables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct QueryPattern {
    fixed: Vec<(String, String)>,
    variables: Vec<usize>,
}

type Captures<'t> = Vec<(Cow<'t, str>, StringArg)>;

impl UriTemplate {
    /// Compiles a template; the error describes the problem and the fix.
    pub(crate) fn parse(text: &str) -> Result<UriTemplate, String> {
        parse::parse(text)
    }

    /// Returns the variables, in the order of appearance.
    pub(crate) fn variables(&self) -> impl Iterator<Item = &str> {
        self.variables.iter().map(|variable| &*variable.name)
    }

    /// Matches a URI; returns its variables, decoded.
    pub(crate) fn matches<'t>(&'t self, uri: &str) -> Option<Captures<'t>> {
        let uri = if self.has_escapes { escaped(uri) } else { uri.into() };
        let rest = uri.strip_prefix(&*self.prefix)?;
        let mut values = vec![None; self.variables.len()];
        match &self.query {
            None => self.captures(&self.body, rest, &mut values)?,
            Some(query) => {
                let (rest, fragment) = cut(rest, '#');
                let (rest, pairs) = cut(rest, '?');
                self.captures(&self.body, rest, &mut values)?;
                self.pairs(query, pairs.get(1..).unwrap_or_default(), &mut values)?;
                self.captures(&self.fragment, fragment, &mut values)?;
            }
        }
        let named = self.variables.iter().zip(values);
        let captured = named.filter_map(|(variable, value)| {
            let list =
                || matches!(variable.shape, ValueShape::List(_)).then(|| StringArg::List(vec![]));
            Some((Cow::Borrowed(&*variable.name), value.or_else(list)?))
        });
        Some(captured.collect())
    }

    fn captures(
        &self,
        atoms: &[TemplateAtom],
        text: &str,
        values: &mut [Option<StringArg>],
    ) -> Option<()> {
        let table = MatchTable::fill(atoms, text);
        let (mut index, mut at) = (0, 0);
        if !table.matches(0, 0) {
            return None;
        }
        while let Some(atom) = atoms.get(index) {
            index += 1;
            match atom {
                TemplateAtom::Literal(literal) => at += literal.len(),
                TemplateAtom::Optional(end) if table.matches(index, at) => {
                    debug_assert!(index < *end)
                }
                TemplateAtom::Optional(end) => index = *end,
                TemplateAtom::Capture { variable, class, least } => {
                    let end = table.nearest(index, at + least, *class, text)?;
                    let raw = text.get(at..end)?;
                    values[*variable] = Some(self.variables[*variable].value(raw)?);
                    at = end;
                }
            }
        }
        Some(())
    }

    fn pairs(
        &self,
        query: &QueryPattern,
        text: &str,
        values: &mut [Option<StringArg>],
    ) -> Option<()> {
        let mut missing: Vec<_> = query.fixed.iter().collect();
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (name, raw) = pair.split_once('=').unwrap_or((pair, ""));
            let fixed = |(k, v): &&(String, String)| k == name && v == raw;
            if let Some(found) = missing.iter().position(fixed) {
                missing.swap_remove(found);
                continue;
            }
            let name = decode(name)?;
            let named = |&&index: &&usize| self.variables[index].name == name;
            let index = *query.variables.iter().find(named)?;
            let value = decode(raw)?;
            match (&mut values[index], self.variables[index].shape) {
                (Some(StringArg::List(list)), _) => list.push(value),
                (slot @ None, ValueShape::List(_)) => *slot = Some(StringArg::List(vec![value])),
                (slot @ None, _) => *slot = Some(StringArg::Single(value)),
                (Some(StringArg::Single(_)), _) => return None,
            }
        }
        missing.is_empty().then_some(())
    }
}

impl TemplateVariable {
    fn value(&self, raw: &str) -> Option<StringArg> {
        let list = |items: Option<Vec<String>>| items.map(StringArg::List);
        match self.shape {
            ValueShape::One => self.item(raw).map(StringArg::Single),
            ValueShape::Parameter => self.parameter(raw).map(StringArg::Single),
            ValueShape::List(';') => {
                let items = raw.split(';').map(|item| item.strip_prefix(&*self.name));
                list(items.map(|value| self.parameter(value?)).collect())
            }
            ValueShape::List(separator) => {
                list(raw.split(separator).map(|item| self.item(item)).collect())
            }
        }
    }

    fn item(&self, raw: &str) -> Option<String> {
        decode(raw).filter(|value| self.slashes || !value.contains('/'))
    }

    fn parameter(&self, raw: &str) -> Option<String> {
        if raw.is_empty() { Some(String::new()) } else { self.item(raw.strip_prefix('=')?) }
    }
}

/// Table that contains, for each atom and each position in the URI, whether the atoms from there on
/// match the rest.
struct MatchTable {
    cells: Vec<bool>,
    width: usize,
}

impl MatchTable {
    fn fill(atoms: &[TemplateAtom], text: &str) -> MatchTable {
        let (bytes, width) = (text.as_bytes(), text.len() + 1);
        let mut table = MatchTable { cells: vec![false; width * (atoms.len() + 1)], width };
        if let Some(end) = table.cells.last_mut() {
            *end = true;
        }
        for (index, atom) in atoms.iter().enumerate().rev() {
            for at in (0..width).rev() {
                table.cells[index * width + at] = match atom {
                    TemplateAtom::Literal(literal) => {
                        bytes[at..].starts_with(literal.as_bytes())
                            && table.matches(index + 1, at + literal.len())
                    }
                    TemplateAtom::Optional(end) => {
                        table.matches(index + 1, at) || table.matches(*end, at)
                    }
                    TemplateAtom::Capture { class, least, .. } => {
                        let more = bytes.get(at).is_some_and(|&byte| class.has(byte));
                        let stop = table.matches(index + 1, at + least) && (*least == 0 || more);
                        stop || more && table.matches(index, at + 1)
                    }
                };
            }
        }
        table
    }

    fn matches(&self, index: usize, at: usize) -> bool {
        at < self.width && self.cells[index * self.width + at]
    }

    /// Returns the nearest end of a capture after which the atoms from `next` on match the rest.
    fn nearest(&self, next: usize, first: usize, class: CharClass, text: &str) -> Option<usize> {
        let run = text.as_bytes().get(first..)?.iter().take_while(|&&byte| class.has(byte));
        let ends = std::iter::once(first).chain(run.zip(first + 1..).map(|(_, end)| end));
        { ends }.find(|&end| self.matches(next, end))
    }
}

/// Splits a string before `mark`.
fn cut(text: &str, mark: char) -> (&str, &str) {
    text.split_at(text.find(mark).unwrap_or(text.len()))
}

/// Percent-encodes characters that are not allowed in a URI, and converts existing escapes to upper
/// case.
fn escaped(text: &str) -> Cow<'_, str> {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"\"%<>\\^`{|}".contains(&byte);
    if text.bytes().all(is_plain) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len() + 16);
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        match after {
            [high, low, after @ ..]
                if *first == b'%' && high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                out.extend([b'%', *high, *low].map(|it| char::from(it.to_ascii_uppercase())));
                rest = after;
            }
            _ if *first == b'%' || is_plain(*first) => out.push(char::from(*first)),
            _ => {
                let digit = |it: u8| char::from(b"0123456789ABCDEF"[usize::from(it)]);
                out.extend(['%', digit(first >> 4), digit(first & 15)]);
            }
        }
    }
    out.into()
}

/// Percent-decodes once; `None` if an escape is invalid or the bytes are not UTF-8.
fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        if *first == b'%' {
            let [high, low, after @ ..] = after else { return None };
            let digit = |byte: u8| char::from(byte).to_digit(16);
            bytes.push(u8::try_from(digit(*high)? << 4 | digit(*low)?).ok()?);
            rest = after;
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    String::from_utf8(bytes).ok()
}
