//! Rule: the name of a type is unique in its crate, and a public one in all published crates.
//!
//! Checked are structs, enums, traits, unions and type aliases at the top level of a module file. Not checked are types in
//! inline modules and functions, and those that macros define. A name may be defined twice in one file, under different `cfg`s.

use std::collections::BTreeMap;

use super::repository::Repository;
use super::source::{SourceFile, words};

/// Names that several modules of a crate may have, with the reason.
const SHARED: [(&str, &str); 0] = [];

struct TypeDefinition<'a> {
    name: &'a str,
    is_public: bool,
    path: &'a str,
}

pub(super) fn check(repository: &Repository) -> Vec<String> {
    let (mut in_crates, mut public) = (BTreeMap::new(), BTreeMap::new());
    for file in repository.shipped_sources() {
        let Some(root) = file.crate_root() else { continue };
        for definition in definitions(file) {
            let TypeDefinition { name, is_public, path } = definition;
            if SHARED.iter().any(|(shared, _)| *shared == name) {
                continue;
            }
            in_crates.entry((root, name)).or_insert_with(Vec::new).push(path);
            if is_public && root.starts_with("crates/") {
                public.entry(name).or_insert_with(BTreeMap::new).entry(root).or_insert(path);
            }
        }
    }
    let mut problems = Vec::new();
    for ((root, name), mut paths) in in_crates {
        paths.dedup();
        if paths.len() > 1 {
            problems.push(format!("{root} has several types `{name}`: {}", paths.join(", ")));
        }
    }
    for (name, crates) in public {
        if crates.len() > 1 {
            let paths: Vec<_> = crates.into_values().collect();
            problems.push(format!("several crates have a public `{name}`: {}", paths.join(", ")));
        }
    }
    problems
}

/// Returns the types that the file defines at its top level, where rustfmt does not indent.
fn definitions(file: &SourceFile) -> impl Iterator<Item = TypeDefinition<'_>> {
    const KEYWORDS: [&str; 5] = ["struct", "enum", "trait", "type", "union"];
    file.code
        .lines()
        .filter(|line| line.starts_with(|it: char| it.is_ascii_lowercase()))
        .filter_map(|line| {
            let is_public = line.starts_with("pub ");
            let item = match line.strip_prefix("pub(") {
                Some(restricted) => restricted.split_once(") ")?.1,
                None => line.strip_prefix("pub ").unwrap_or(line),
            };
            let mut words = words(item).skip_while(|word| *word == "unsafe");
            words.next().filter(|word| KEYWORDS.contains(word))?;
            Some(TypeDefinition { name: words.next()?, is_public, path: &file.path })
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_type_with_a_name_is_found() {
        let sources = [
            ("crates/a/src/b.rs", "pub(crate) struct Twice;\nstruct Once;\nunion Public {}"),
            ("crates/a/src/c.rs", "enum Twice {}\npub unsafe trait Public {}"),
            ("crates/d/src/lib.rs", "pub type Public = u8;\nstruct Once;\n"),
        ];
        let found = check(&Repository::of_sources(&sources));
        assert_eq!(
            found,
            [
                "crates/a has several types `Public`: crates/a/src/b.rs, crates/a/src/c.rs",
                "crates/a has several types `Twice`: crates/a/src/b.rs, crates/a/src/c.rs",
                "several crates have a public `Public`: crates/a/src/c.rs, crates/d/src/lib.rs",
            ]
        );
    }

    #[test]
    fn other_crates_tests_and_variants_for_platforms_may_repeat_a_name() {
        let sources = [
            ("crates/a/src/b.rs", "#[cfg(unix)]\nstruct Name;\n#[cfg(windows)]\nstruct Name;"),
            (
                "crates/a/src/c.rs",
                "#[cfg(test)]\nstruct Name;\nimpl T for B {\n    type Name = u8;\n}",
            ),
            ("crates/a/src/bin/d.rs", "struct Name;"),
            ("crates/a/src/bin/e/f.rs", "struct Name;"),
            ("crates/a/tests/g.rs", "struct Name;"),
            ("crates/h/src/i.rs", "struct Name;"),
        ];
        assert_eq!(check(&Repository::of_sources(&sources)), [""; 0]);
    }
}
