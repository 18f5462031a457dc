//! Line `mcp-name: NAME` of a README, by which the registry sees who owns a crate.

use std::{fs, path::Path};

/// Begin of the token.
const PREFIX: &str = "mcp-name: ";

/// Whether a README has the token of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NameToken {
    Found,
    Missing,
    /// It is only in an HTML comment.
    InComment,
    /// This character follows it, so it may be the token of a longer name.
    Glued(char),
}

/// Reads a README.
pub(super) fn read(file: &Path, name: &str) -> Result<NameToken, String> {
    let text = fs::read_to_string(file)
        .map_err(|error| format!("cannot read the README {}: {error}", file.display()))?;
    Ok(find(&text, name))
}

fn find(text: &str, name: &str) -> NameToken {
    let visible = without_comments(text);
    let token = format!("{PREFIX}{name}");
    let next: Vec<Option<char>> = visible
        .match_indices(&token)
        .map(|(at, _)| visible[at + token.len()..].chars().next())
        .collect();
    match next.first() {
        _ if next.iter().any(|it| it.is_none_or(ends_token)) => NameToken::Found,
        Some(Some(glued)) => NameToken::Glued(*glued),
        _ if text.contains(&token) => NameToken::InComment,
        _ => NameToken::Missing,
    }
}

/// Returns true if the rendered README has a space, a line end or a tag for this character.
fn ends_token(next: char) -> bool {
    next.is_whitespace() || matches!(next, '<' | '`' | '*' | '|')
}

/// Returns the name in the first token of a README.
pub(super) fn first_name(text: &str) -> Option<String> {
    let visible = without_comments(text);
    let (_, rest) = visible.split_once(PREFIX)?;
    let is_name = |it: &char| it.is_ascii_alphanumeric() || "./-_".contains(*it);
    let name: String = rest.chars().take_while(is_name).collect();
    name.contains('/').then_some(name)
}

/// Text without HTML comments, which crates.io removes.
fn without_comments(text: &str) -> String {
    let mut visible = String::new();
    let mut rest = text;
    while let Some((before, comment)) = rest.split_once("<!--") {
        visible.push_str(before);
        rest = comment.split_once("-->").map_or("", |it| it.1);
    }
    visible + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_is_visible_and_ends() {
        for (text, expected) in [
            ("a\nmcp-name: io.github.a/b\n", NameToken::Found),
            ("`mcp-name: io.github.a/b`", NameToken::Found),
            ("mcp-name: io.github.a/b", NameToken::Found),
            ("mcp-name: io.github.a/b-evil\nmcp-name: io.github.a/b\n", NameToken::Found),
            ("<!-- mcp-name: io.github.a/b -->", NameToken::InComment),
            ("mcp-name: io.github.a/b.", NameToken::Glued('.')),
            ("mcp-name: io.github.a/b-evil", NameToken::Glued('-')),
            ("**mcp-name:** io.github.a/b", NameToken::Missing),
            ("mcp-name: io.github.A/b", NameToken::Missing),
        ] {
            assert_eq!(find(text, "io.github.a/b"), expected, "{text}");
        }
        assert_eq!(first_name("x\nmcp-name: io.a/b, or").as_deref(), Some("io.a/b"));
        assert_eq!(first_name("<!-- mcp-name: io.a/b -->"), None);
    }
}
