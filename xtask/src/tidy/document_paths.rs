//! Rule: each path in a document exists, and each link to a file of the repository.
//!
//! A path has an ending below, is a folder (`…/`), or begins with a folder at the root or with a crate. Not checked are paths
//! in code blocks and those with a placeholder.

use super::markdown::Markdown;
use super::repository::{Repository, TextFile};

/// Endings of the file names that documents mention.
const ENDINGS: [&str; 4] = [".rs", ".md", ".mjs", ".txt"];
/// Paths that are not in the repository.
const FOREIGN: [&str; 3] = ["target/", "wharf/logins.json", "wharf/trusted.json"];

pub(super) fn check(repository: &Repository) -> Vec<String> {
    let documents = repository.documents.iter();
    documents.flat_map(|document| problems_of(document, &repository.files)).collect()
}

fn problems_of(document: &TextFile, files: &[String]) -> Vec<String> {
    let markdown = Markdown::of(&document.text);
    let quotes = markdown.quotes().filter(|quote| is_path(quote.text, files));
    let paths = quotes
        .flat_map(|quote| alternatives(quote.text).into_iter().map(move |path| (quote.line, path)));
    let missing = paths.filter(|(_, path)| {
        !FOREIGN.contains(&path.as_str()) && !files.iter().any(|file| has_part(file, path))
    });
    let folder = document.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let links =
        markdown.links().filter(|(_, target)| !target.contains(':') && !target.starts_with('#'));
    let targets = links.map(|(line, target)| (line, resolve(folder, target)));
    let dead = targets.filter(|(_, path)| !files.iter().any(|file| begins_with(file, path)));
    let problem = |(line, path)| {
        format!("{}:{line} names the file {path}, which does not exist", document.path)
    };
    missing.chain(dead).map(problem).collect()
}

fn is_path(text: &str, files: &[String]) -> bool {
    let plain = text.chars().all(|it| it.is_ascii_alphanumeric() || "_-./{},".contains(it));
    if !plain || text.starts_with(['/', '.']) {
        return false;
    }
    let begins_in = |folder: &str| {
        files.iter().any(|file| file.strip_prefix("crates/").unwrap_or(file).starts_with(folder))
    };
    let first = text.split_once('/').map(|(first, _)| format!("{first}/"));
    ENDINGS.iter().any(|ending| text.ends_with(ending))
        || text.ends_with('/')
        || first.is_some_and(|first| begins_in(&first))
}

/// Expands `a/{b,c}.rs` to `a/b.rs` and `a/c.rs`.
fn alternatives(text: &str) -> Vec<String> {
    let Some((before, rest)) = text.split_once('{') else { return vec![text.to_owned()] };
    let Some((names, after)) = rest.split_once('}') else { return vec![text.to_owned()] };
    names.split(',').map(|name| format!("{before}{name}{after}")).collect()
}

/// Returns true if `part` is the path of the file, of one of its folders, or the end of either.
fn has_part(file: &str, part: &str) -> bool {
    let (file, part) = (format!("/{file}/"), format!("/{}/", part.trim_matches('/')));
    file.contains(&part)
}

/// Returns whether `path` is the file or one of its folders.
fn begins_with(file: &str, path: &str) -> bool {
    let rest = file.strip_prefix(path.trim_end_matches('/'));
    path.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns the target of a link in `folder` as a path below the root, without its fragment.
fn resolve(folder: &str, target: &str) -> String {
    let target = target.split('#').next().unwrap_or_default();
    let mut path = Vec::new();
    for part in folder.split('/').chain(target.split('/')) {
        match part {
            "" | "." => {}
            ".." => drop(path.pop()),
            name => path.push(name),
        }
    }
    path.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(path: &str, text: &str) -> Vec<String> {
        let files = ["crates/a/src/b.rs", "crates/a/src/c/mod.rs", "docs/d.md", "README.md"];
        let document = TextFile { path: path.to_owned(), text: text.to_owned() };
        problems_of(&document, &files.map(str::to_owned))
    }

    #[test]
    fn a_path_that_does_not_exist_is_found() {
        let found = problems(
            "A.md",
            "`a/src/{b,d}.rs`, `c/mod.rs`,\n`crates/a/src/c/`, `Some::Type`, `x y.rs`, `a/src/x`, `tools/call`, `/etc/g.txt`\n```\n`e.rs`\n```\n`f.rs`",
        );
        assert_eq!(
            found,
            [
                "A.md:1 names the file a/src/d.rs, which does not exist",
                "A.md:2 names the file a/src/x, which does not exist",
                "A.md:6 names the file f.rs, which does not exist",
            ]
        );
    }

    #[test]
    fn a_link_to_nothing_is_found() {
        let text =
            "[a](d.md#b) [c](../README.md) [d](https://e.example/f) [g](#h) [i](..) [j](README.md)";
        let found = problems("docs/d.md", text);
        assert_eq!(found, ["docs/d.md:1 names the file docs/README.md, which does not exist"]);
        assert_eq!(problems("A.md", "[a](docs/d.md) [b](docs) [c](docs/)"), [""; 0]);
    }
}
