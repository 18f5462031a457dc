//! Rule: the root of the facade has few names, and the documentation of each has an example.

use super::repository::Repository;
use super::source::{SourceFile, words};

/// Root of the facade.
const ROOT: &str = "crates/wharf/src/lib.rs";
/// Maximum number of names at the root. Others belong into a module.
const MAX_NAMES: usize = 30;
/// Words before the name of an item.
const KINDS: [&str; 7] = ["struct", "enum", "trait", "type", "fn", "macro_rules", "use"];

pub(super) fn check(repository: &Repository) -> Vec<String> {
    let Some(root) = repository.sources.iter().find(|file| file.path == ROOT) else {
        return vec![format!("{ROOT} is missing: correct the rule in xtask")];
    };
    let names = names_at_root(&root.code);
    let mut problems = Vec::new();
    if names.is_empty() || names.len() > MAX_NAMES {
        problems.push(format!(
            "{ROOT} has {} names at the root, and may have 1 to {MAX_NAMES}: put the others into a module",
            names.len()
        ));
    }
    let sources: Vec<&SourceFile> =
        repository.shipped_sources().filter(|file| file.path.starts_with("crates/")).collect();
    let bare = names.into_iter().filter(|name| !sources.iter().any(|file| has_example(file, name)));
    problems.extend(
        bare.map(|name| format!("{ROOT} has `{name}`, whose documentation has no example")),
    );
    problems
}

/// Returns the names of the `pub use` items that are not in a module.
fn names_at_root(code: &str) -> Vec<&str> {
    let items = code.split(';').filter_map(|item| {
        // An item in a module is indented.
        item.lines().position(|line| line.starts_with("pub use ")).map(|_| item)
    });
    items
        .flat_map(|item| {
            let path = item.rsplit("pub use ").next().unwrap_or_default();
            let list = path.rsplit("::").next().unwrap_or_default();
            list.split(',').filter_map(|name| words(name).last())
        })
        .collect()
}

/// Returns whether the file defines or re-exports the item with an example in its documentation.
fn has_example(file: &SourceFile, name: &str) -> bool {
    let lines: Vec<&str> = file.text.lines().collect();
    let defines = |line: &&str| {
        let mut before = words(line).take_while(|word| *word != name);
        !line.starts_with(' ')
            && words(line).any(|word| word == name)
            && before.any(|word| KINDS.contains(&word))
            && (line.starts_with("pub ") || line.starts_with("macro_rules!"))
    };
    let definitions = (0..lines.len()).filter(|at| defines(&lines[*at]));
    let documentation = |at: &usize| {
        let above = lines[..*at].iter().rev().take_while(|line| !line.is_empty());
        above.filter_map(|line| line.strip_prefix("///")).any(|text| text.trim().starts_with("```"))
    };
    definitions.into_iter().any(|at| documentation(&at))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CRANE: (&str, &str) = (
        "crates/a/src/crane.rs",
        "/// A crane.\n///\n/// ```\n/// lift();\n/// ```\n#[derive(Debug)]\npub struct Crane {\n}\n\n/// A berth.\npub fn berth() {}\n",
    );

    fn problems(root: &str) -> Vec<String> {
        check(&Repository::of_sources(&[(ROOT, root), CRANE]))
    }

    #[test]
    fn an_item_without_an_example_is_found() {
        let root = "#[cfg(a)]\npub use crate::crane::{Crane,\n    berth};\nmod m {\n    pub use b::Other;\n}\n";
        let found = problems(root);
        assert!(found.len() == 1 && found[0].contains("`berth`"), "{found:?}");
        assert_eq!(problems("pub use crate::crane::Crane;\n"), [""; 0]);
    }

    #[test]
    fn too_many_names_and_a_root_without_names_are_found() {
        let found = problems(&"pub use crate::crane::Crane;\n".repeat(MAX_NAMES + 1));
        assert!(found.len() == 1 && found[0].contains("31 names"), "{found:?}");
        assert_eq!(problems("mod a;").len(), 1);
        assert_eq!(check(&Repository::of_sources(&[CRANE])).len(), 1);
    }
}
