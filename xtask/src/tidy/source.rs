//! Rust source file, split into code, literals and comments.

/// A Rust source file. All texts have the same lines.
pub(super) struct SourceFile {
    /// Path below the root of the repository.
    pub(super) path: String,
    pub(super) text: String,
    /// The text without comments and `#[cfg(test)]` items, which are spaces here.
    pub(super) uncommented: String,
    /// `uncommented` without the literals, which are spaces here.
    pub(super) code: String,
}

enum TokenKind {
    Code,
    Comment,
    Literal,
}

impl SourceFile {
    pub(super) fn new(path: &str, text: String) -> SourceFile {
        let (mut uncommented, mut code) = (String::new(), String::new());
        let mut rest = text.as_str();
        while !rest.is_empty() {
            let (kind, length) = next_token(rest);
            let (token, after) = rest.split_at(length);
            match kind {
                TokenKind::Code => uncommented.push_str(token),
                TokenKind::Comment => blank(token, &mut uncommented),
                TokenKind::Literal => uncommented.push_str(token),
            }
            match kind {
                TokenKind::Code => code.push_str(token),
                TokenKind::Comment | TokenKind::Literal => blank(token, &mut code),
            }
            rest = after;
        }
        let mut source = SourceFile { path: path.to_owned(), text, uncommented, code };
        source.remove_test_items();
        source
    }

    /// Returns whether the file belongs to tests: by its folder, or by the name of an out-of-line test module.
    pub(super) fn is_test(&self) -> bool {
        let mut folders = self.path.split('/');
        let stem = folders.next_back().unwrap_or_default().trim_end_matches(".rs");
        stem == "tests" || stem.ends_with("_tests") || folders.any(|it| it == "tests")
    }

    /// Returns the crate that the file belongs to: the folder above `src`, or a program of `src/bin`. `None` for
    /// files outside `src`.
    pub(super) fn crate_root(&self) -> Option<&str> {
        let (folder, inside) = self.path.split_once("/src/")?;
        let Some(program) = inside.strip_prefix("bin/") else { return Some(folder) };
        let name = program.split(['/', '.']).next().unwrap_or_default();
        Some(&self.path[..folder.len() + "/src/bin/".len() + name.len()])
    }

    fn remove_test_items(&mut self) {
        const ATTRIBUTE: &str = "#[cfg(test)]";
        let mut from = 0;
        while let Some(found) = self.code[from..].find(ATTRIBUTE) {
            let start = from + found;
            let end = start + item_length(&self.code[start..]);
            for text in [&mut self.uncommented, &mut self.code] {
                let mut blanked = String::new();
                blank(&text[start..end], &mut blanked);
                text.replace_range(start..end, &blanked);
            }
            from = end;
        }
    }
}

/// Returns the line number of a byte of the text.
pub(super) fn line_of(text: &str, position: usize) -> usize {
    text[..position].matches('\n').count() + 1
}

/// Returns the position of a part of the text.
pub(super) fn position_in(text: &str, part: &str) -> usize {
    (part.as_ptr() as usize).saturating_sub(text.as_ptr() as usize)
}

/// Returns the words of the text: letters, digits and underscores.
pub(super) fn words(text: &str) -> impl Iterator<Item = &str> + Clone {
    text.split(|it: char| !is_word(it)).filter(|word| !word.is_empty())
}

pub(super) fn is_word(it: char) -> bool {
    it.is_ascii_alphanumeric() || it == '_'
}

/// Returns the length of the item at the start of `code`, which has no literals and comments: up to the brace that
/// closes its body, or to its semicolon.
pub(super) fn item_length(code: &str) -> usize {
    let (mut nested, mut in_body) = (0_usize, false);
    for (position, it) in code.char_indices() {
        match it {
            '{' if nested == 0 => (nested, in_body) = (1, true),
            '{' | '(' | '[' => nested += 1,
            '}' | ')' | ']' => nested = nested.saturating_sub(1),
            ';' if nested == 0 => return position + 1,
            _ => {}
        }
        if in_body && nested == 0 {
            return position + 1;
        }
    }
    code.len()
}

/// Appends a space for each byte of the text, and its line breaks.
fn blank(text: &str, out: &mut String) {
    out.extend(text.bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }));
}

/// Returns the kind and the length of the first token of `rest`. A token of code may be a single character.
fn next_token(rest: &str) -> (TokenKind, usize) {
    let word = rest.find(|it| !is_word(it)).unwrap_or(rest.len());
    match rest.as_bytes() {
        _ if matches!(&rest[..word], "r" | "br" | "cr") => match raw_string_length(&rest[word..]) {
            Some(length) => (TokenKind::Literal, word + length),
            None => (TokenKind::Code, word),
        },
        _ if word > 0 => (TokenKind::Code, word),
        [b'/', b'/', ..] => (TokenKind::Comment, rest.find('\n').unwrap_or(rest.len())),
        [b'/', b'*', ..] => (TokenKind::Comment, block_comment_length(rest)),
        [b'"', ..] => (TokenKind::Literal, quoted_length(rest, '"')),
        [b'\'', b'\\', ..] => (TokenKind::Literal, quoted_length(rest, '\'')),
        // Anything else between two quotes is one character; a lifetime has one quote.
        [b'\'', ..] if rest.chars().nth(2) == Some('\'') => {
            (TokenKind::Literal, quoted_length(rest, '\''))
        }
        _ => (TokenKind::Code, rest.chars().next().map_or(0, char::len_utf8)),
    }
}

/// Returns the length of a literal that starts and ends with `quote`.
fn quoted_length(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (position, it) in rest.char_indices().skip(1) {
        match it {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            it if it == quote => return position + 1,
            _ => {}
        }
    }
    rest.len()
}

/// Returns the length of the raw string after its prefix; `None` if there is none.
fn raw_string_length(rest: &str) -> Option<usize> {
    let hashes = rest.len() - rest.trim_start_matches('#').len();
    let body = rest[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    Some(body.find(&end).map_or(rest.len(), |found| hashes + 1 + found + end.len()))
}

fn block_comment_length(rest: &str) -> usize {
    let mut depth = 0_usize;
    for (position, pair) in rest.as_bytes().windows(2).enumerate() {
        match pair {
            b"/*" => depth += 1,
            b"*/" => depth = depth.saturating_sub(1),
            _ => continue,
        }
        if depth == 0 {
            return position + 2;
        }
    }
    rest.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_and_comments_are_separated_from_code() {
        let text = r####"let a = "x // y\"" /* b "c" /* d */ */ + r#"e " f"# + b"g"; // h 'i'
fn j<'k>(l: &'k str) -> char { '"' } // m
fn n() { ['\'', 'o', b'p'] }
"####;
        let source = SourceFile::new("a.rs", text.to_owned());
        let code: Vec<_> = words(&source.code).collect();
        let expected = ["let", "a", "b", "fn", "j", "k", "l", "k", "str", "char", "fn", "n", "b"];
        assert_eq!(code.iter().map(|it| it.to_string()).collect::<Vec<_>>(), expected);
        assert!(
            source.uncommented.contains(r#""x // y\"""#) && !source.uncommented.contains("h 'i'")
        );
        assert_eq!(source.code.lines().count(), text.lines().count());
    }

    #[test]
    fn test_items_are_removed() {
        let text = "fn a() {}\n#[cfg(test)]\n#[path = \"x.rs\"]\nmod b;\n#[cfg(test)]\nmod c {\n fn d() { ';' }\n}\nfn e() {}\n";
        let source = SourceFile::new("a.rs", text.to_owned());
        assert_eq!(words(&source.code).collect::<Vec<_>>(), ["fn", "a", "fn", "e"]);
        assert_eq!(line_of(&source.code, source.code.find("fn e").unwrap()), 9);
    }

    #[test]
    fn a_file_belongs_to_a_crate_and_perhaps_to_its_tests() {
        let root =
            |path: &str| SourceFile::new(path, String::new()).crate_root().map(str::to_owned);
        assert_eq!(root("crates/a/src/b/c.rs").as_deref(), Some("crates/a"));
        assert_eq!(root("bench/src/bin/x/y.rs"), root("bench/src/bin/x.rs"));
        assert_eq!(root("crates/a/tests/b.rs"), None);
        let is_test = |path: &str| SourceFile::new(path, String::new()).is_test();
        assert!(is_test("a/tests/b.rs") && is_test("a/src/b/tests.rs") && is_test("a/b_tests.rs"));
        assert!(!is_test("a/src/testing.rs"));
    }
}
