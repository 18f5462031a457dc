//! Rule: each package that a `cargo` command names with `-p` or `--package` exists. Checked are documents and sources, whose
//! comments have such commands.

use super::repository::Repository;

/// Words after which another command, or a comment, begins.
const ENDS: [&str; 5] = ["&&", "|", ";", "#", "//"];

pub(super) fn check(repository: &Repository) -> Vec<String> {
    let packages: Vec<&str> =
        repository.manifests.iter().filter_map(|manifest| package(&manifest.text)).collect();
    let documents = repository.documents.iter().map(|it| (&it.path, &it.text));
    let sources = repository.sources.iter().map(|it| (&it.path, &it.text));
    let problems_of = |(path, text): (&String, &String)| {
        let lines = text.lines().enumerate();
        let named = lines.flat_map(|(at, line)| named_packages(line).map(move |name| (at, name)));
        let unknown = named.filter(|(_, name)| !packages.contains(name));
        let problem = |(at, name)| {
            format!("{path}:{} names the package {name}, which does not exist", at + 1)
        };
        unknown.map(problem).collect::<Vec<_>>()
    };
    // This file has examples of names that do not exist.
    let others = sources.filter(|(path, _)| *path != file!());
    documents.chain(others).flat_map(problems_of).collect()
}

/// Returns the name in the `[package]` table of a manifest.
fn package(manifest: &str) -> Option<&str> {
    let mut lines = manifest.lines().skip_while(|line| *line != "[package]");
    let line = lines.find(|line| line.starts_with("name = "))?;
    line.split('"').nth(1)
}

/// Returns the packages that the `cargo` commands of a line name. A name with a placeholder is not one.
fn named_packages(line: &str) -> impl Iterator<Item = &str> {
    let command = line.split_once("cargo ").map_or("", |(_, command)| command);
    let words = command.split_whitespace().take_while(|word| !ENDS.contains(word));
    let named = words.clone().zip(words.skip(1));
    let named = named.filter(|(option, _)| ["-p", "--package"].contains(option));
    let name =
        named.map(|(_, word)| word.split(['`', ',', ';', ')', '"', '\'']).next().unwrap_or(word));
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    name.map(|name| name.trim_end_matches(['.', ':']))
        .filter(move |name| !name.is_empty() && name.bytes().all(is_part))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::repository::TextFile;

    #[test]
    fn a_package_that_does_not_exist_is_found() {
        let mut repository = Repository::of_sources(&[
            (
                "a/examples/b.rs",
                "//! Run `cargo run -p a-mcp --example b`.\n//!\n//! cargo run -p a --example b",
            ),
            ("a/src/c.rs", "let d = format!(\"cargo test -p {name}\"); // mkdir -p e"),
        ]);
        let file = |path: &str, text: &str| TextFile { path: path.into(), text: text.into() };
        let manifest = "[workspace]\nname = \"x\"\n[package]\n# It is taken.\nname = \"a-mcp\"\n[lib]\nname = \"a\"\n";
        repository.manifests = vec![file("a/Cargo.toml", manifest)];
        let text = "`cargo doc -p a`: cargo test --package f, `cargo test -p a-mcp`\n```\n$ cargo test -p x\n```\n";
        repository.documents = vec![file("g.md", text)];
        let problem =
            |at: &str, name: &str| format!("{at} names the package {name}, which does not exist");
        assert_eq!(
            check(&repository),
            [
                problem("g.md:1", "a"),
                problem("g.md:1", "f"),
                problem("g.md:3", "x"),
                problem("a/examples/b.rs:3", "a"),
            ]
        );
    }
}
