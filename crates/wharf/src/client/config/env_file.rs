//! Files of environment variables, such as `.env`, named by `envFile`.

use std::{fs, io::Read as _, path::Path};

/// Maximum length of the file.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Reads the variables of the file, in its order.
pub(super) fn read(path: &Path) -> Result<Vec<(String, String)>, String> {
    let fail = |problem: String| format!("envFile {}: {problem}", path.display());
    let file = fs::File::open(path).map_err(|error| fail(error.to_string()))?;
    let mut text = String::new();
    let read = file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text);
    read.map_err(|error| fail(error.to_string()))?;
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(fail(format!("it is longer than {} KiB", MAX_FILE_BYTES >> 10)));
    }
    parse(&text).map_err(|line| fail(format!("line {line} is not NAME=VALUE")))
}

/// Parses lines of `NAME=VALUE`; blank lines and those that begin with `#` are ignored. The last
/// value of a name applies. The error is the number of an invalid line.
fn parse(text: &str) -> Result<Vec<(String, String)>, usize> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut variables: Vec<(String, String)> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let line = line.strip_prefix("export ").unwrap_or(line);
        let (name, value) = line.split_once('=').ok_or(at + 1)?;
        let name = name.trim();
        if name.is_empty() || name.contains(|c: char| c.is_whitespace() || c == '\0') {
            return Err(at + 1);
        }
        variables.retain(|(known, _)| known != name);
        variables.push((name.to_owned(), value_of(value.trim())));
    }
    Ok(variables)
}

/// Value without its quotes, or up to its comment.
fn value_of(text: &str) -> String {
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\'' | '`'));
    if let Some(quote) = quote
        && let Some(inner) = quoted(&text[1..], quote)
    {
        return match quote {
            '"' => unescaped(inner),
            _ => inner.to_owned(),
        };
    }
    match text.find(" #").or_else(|| text.starts_with('#').then_some(0)) {
        Some(comment) => text[..comment].trim_end().to_owned(),
        None => text.to_owned(),
    }
}

/// Text before the closing quote; only a comment may follow it.
fn quoted(text: &str, quote: char) -> Option<&str> {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        if c == quote && !escaped {
            let rest = text[at + 1..].trim_start();
            return (rest.is_empty() || rest.starts_with('#')).then(|| &text[..at]);
        }
        escaped = c == '\\' && quote == '"' && !escaped;
    }
    None
}

fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match (c, c == '\\') {
            (_, true) => match rest.next() {
                Some('n') => out.push('\n'),
                Some('r') => out.push('\r'),
                Some('t') => out.push('\t'),
                Some(other @ ('"' | '\\')) => out.push(other),
                Some(other) => out.extend(['\\', other]),
                None => out.push('\\'),
            },
            (c, false) => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn env_files_are_parsed_like_dotenv() {
        for (line, value) in [
            ("A=b", "b"),
            ("  export A = b c  # note", "b c"),
            ("A=b#c", "b#c"),
            ("A=", ""),
            ("A= # note", ""),
            ("A=\"b # c\\n\\\"d\\\"\" # note", "b # c\n\"d\""),
            ("A='b\\n'", "b\\n"),
            ("A=`b`", "b"),
            ("A=\"b", "\"b"),
            ("A=postgres://u:p@h/db?x=y", "postgres://u:p@h/db?x=y"),
            ("# note\r\n\r\nA=b\r\n", "b"),
            ("\u{feff}A=1\nA=2", "2"),
        ] {
            assert_eq!(parse(line), Ok(vec![("A".to_owned(), value.to_owned())]), "{line:?}");
        }
        for wrong in ["no sign", "=x", "a b=c"] {
            assert_eq!(parse(&format!("A=1\n{wrong}")), Err(2), "{wrong:?}");
        }
    }
}
