//! Rule: files, functions and the map of the repository stay short.

use super::repository::Repository;
use super::source::{SourceFile, item_length, line_of, position_in, words};

/// Lines of code in a file: without tests, comments and empty lines.
const MAX_FILE_LINES: usize = 480;
/// Lines of a function, from its name to its end.
const MAX_FUNCTION_LINES: usize = 70;

/// Documents with a limit, in lines.
const DOCUMENTS: [(&str, usize); 1] = [("ARCHITECTURE.md", 250)];

/// Files or functions (`path` or `path name`) that may be longer, with their limit and the reason.
const LONGER: [(&str, usize, &str); 0] = [];

pub(super) fn check(repository: &Repository) -> Vec<String> {
    let mut problems = Vec::new();
    for file in repository.shipped_sources() {
        let lines = file.uncommented.lines().filter(|line| !line.trim().is_empty()).count();
        problems.extend(too_long(file.path.clone(), lines, MAX_FILE_LINES));
        for (name, start, lines) in functions(file) {
            let place = format!("{} {name}", file.path);
            let problem = too_long(place, lines, MAX_FUNCTION_LINES);
            problems.extend(problem.map(|problem| format!("{problem} (from line {start})")));
        }
    }
    for (path, limit) in DOCUMENTS {
        let document = repository.documents.iter().find(|document| document.path == path);
        let lines = document.map_or(0, |document| document.text.lines().count());
        problems.extend(too_long(path.to_owned(), lines, limit));
    }
    problems
}

fn too_long(place: String, lines: usize, usual: usize) -> Option<String> {
    let raised = LONGER.iter().find(|(longer, ..)| *longer == place).map(|row| row.1);
    let limit = raised.unwrap_or(usual);
    (lines > limit).then(|| format!("{place} has {lines} lines; at most {limit} are allowed"))
}

/// Returns name, first line and number of lines of each function with a body. Attributes and comments above it do not
/// count; a nested function counts for both.
fn functions(file: &SourceFile) -> impl Iterator<Item = (&str, usize, usize)> {
    let code = file.code.as_str();
    let mut words = words(code);
    std::iter::from_fn(move || {
        words.find(|word| *word == "fn")?;
        Some(words.clone().next().unwrap_or_default())
    })
    .filter_map(move |name| {
        let start = position_in(code, name);
        // A pointer to a function has a parenthesis where a function has its name.
        let has_name = code[..start].ends_with("fn ");
        let item = &code[start..start + item_length(&code[start..])];
        let lines = item.lines().count();
        (has_name && item.ends_with('}')).then(|| (name, line_of(code, start), lines))
    })
}

#[cfg(test)]
mod tests {
    use super::super::repository::TextFile;
    use super::*;

    #[test]
    fn a_long_function_is_found() {
        let long = "    a();\n".repeat(MAX_FUNCTION_LINES - 1);
        let text = format!(
            "fn short() {{\n{}}}\nfn long(f: fn(u8)) -> [u8; 2] {{\n{long}}}\n",
            &long[9..]
        );
        let found = check(&Repository::of_sources(&[("a/src/b.rs", &text)]));
        assert_eq!(found, ["a/src/b.rs long has 71 lines; at most 70 are allowed (from line 71)"]);
    }

    #[test]
    fn a_long_file_is_found() {
        let text = "//! A.\n\nuse b;\n".repeat(MAX_FILE_LINES);
        assert_eq!(check(&Repository::of_sources(&[("a/src/b.rs", &text)])), [""; 0]);
        let text = format!("{text}use b;");
        let found = check(&Repository::of_sources(&[("a/src/b.rs", &text)]));
        assert_eq!(found, ["a/src/b.rs has 481 lines; at most 480 are allowed"]);
        assert_eq!(check(&Repository::of_sources(&[("a/tests/b.rs", &text)])), [""; 0]);
    }

    #[test]
    fn a_long_document_is_found() {
        let mut repository = Repository::of_sources(&[]);
        let (path, text) = ("ARCHITECTURE.md".to_owned(), "a\n".repeat(251));
        repository.documents.push(TextFile { path, text });
        assert_eq!(check(&repository), ["ARCHITECTURE.md has 251 lines; at most 250 are allowed"]);
    }
}
