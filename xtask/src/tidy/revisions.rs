//! Rule: dates of protocol revisions stay in the revision table, questions about eras in `wharf-wire`.
//!
//! Comments, documents and tests may name dates. Programs that are not Wharf (`bench`, `conformance`) are not checked,
//! nor are questions in other words than those below, such as a comparison of two revisions.

use std::collections::BTreeSet;

use super::repository::Repository;
use super::source::{SourceFile, is_word, line_of, position_in, words};

/// Folder of the tables.
const TABLES: &str = "crates/wharf-wire/src/versions/";
/// Crate that may ask for the era.
const WIRE: &str = "crates/wharf-wire/";
/// Words that ask for the era, or name a revision by it.
const ERA_WORDS: [&str; 5] =
    ["is_modern", "is_legacy", "speaks_legacy", "FIRST_MODERN", "NEWEST_LEGACY"];
/// Calls that ask for the era, and the variants that a match on it names.
const ERA_CALLS: [&str; 4] = [".era()", "::era)", "Era::Modern", "Era::Legacy"];
/// Files that may ask for the era, with the reason.
const ASKING: [(&str, &str); 2] = [
    ("crates/wharf/src/protocol_version.rs", "answers the application's question"),
    ("crates/wharf-cli/src/commands/bench/mod.rs", "the report names the request that a ping is"),
];

pub(super) fn check(repository: &Repository) -> Vec<String> {
    let in_crates: Vec<_> =
        repository.shipped_sources().filter(|file| file.path.starts_with("crates/")).collect();
    let (tables, others): (Vec<&SourceFile>, Vec<&SourceFile>) =
        in_crates.into_iter().partition(|file| file.path.starts_with(TABLES));
    let dates: BTreeSet<&str> =
        tables.iter().flat_map(|file| dates_in(&file.uncommented)).map(|(_, date)| date).collect();
    let mut problems = Vec::new();
    if dates.is_empty() {
        problems.push(format!("{TABLES} has no dates of revisions: correct the rule in xtask"));
    }
    for file in others {
        let known = dates_in(&file.uncommented).filter(|(_, date)| dates.contains(date));
        problems.extend(known.map(|(position, date)| {
            let line = line_of(&file.uncommented, position);
            format!("{}:{line} names the revision {date}: ask the tables in {TABLES}", file.path)
        }));
        problems.extend(era_question(file));
    }
    problems
}

/// Returns the dates in the text, with their positions.
fn dates_in(text: &str) -> impl Iterator<Item = (usize, &str)> {
    const FORM: &[u8] = b"20dd-dd-dd";
    let is_date = |window: &[u8]| {
        FORM.iter().zip(window).all(|(form, it)| match form {
            b'd' => it.is_ascii_digit(),
            other => it == other,
        })
    };
    let starts = text.match_indices("20").map(|(start, _)| start);
    starts.filter_map(move |start| {
        let date = text.get(start..start + FORM.len())?;
        is_date(date.as_bytes()).then_some((start, date))
    })
}

fn era_question(file: &SourceFile) -> Option<String> {
    if file.path.starts_with(WIRE) || ASKING.iter().any(|(path, _)| *path == file.path) {
        return None;
    }
    let word = words(&file.code).find(|word| ERA_WORDS.contains(word));
    let word = word.map(|word| (position_in(&file.code, word), word));
    let call = || ERA_CALLS.iter().find_map(|call| Some((position_of(&file.code, call)?, *call)));
    let (position, asked) = word.or_else(call)?;
    let line = line_of(&file.code, position);
    Some(format!(
        "{}:{line} asks for the era with `{asked}`: add a method to wharf-wire that answers what is needed",
        file.path
    ))
}

/// Returns the position of the call: a longer name that ends in it, such as `SupportedEra::Modern`, is not the call.
fn position_of(code: &str, call: &str) -> Option<usize> {
    let is_name = call.starts_with(is_word);
    let mut found = code.match_indices(call).map(|(position, _)| position);
    found.find(|position| !(is_name && code[..*position].ends_with(is_word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: (&str, &str) =
        ("crates/wharf-wire/src/versions/revision.rs", r#"["2024-11-05", "2026-07-28"]"#);

    fn problems(path: &str, text: &str) -> Vec<String> {
        check(&Repository::of_sources(&[TABLE, (path, text)]))
    }

    #[test]
    fn a_date_outside_the_table_is_found() {
        let text = "//! Of 2024-11-05.\n\nfn a() { b(\"c 2026-07-28, 2026-01-01\") }\n";
        let found = problems("crates/a/src/b.rs", text);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("crates/a/src/b.rs:3 names the revision 2026-07-28"));
        let test = "#[cfg(test)]\nmod tests { const A: &str = \"2024-11-05\"; }";
        for (path, text) in [
            ("crates/a/src/b.rs", test),
            ("crates/a/src/tests.rs", text),
            ("crates/a/tests/b.rs", text),
            ("bench/src/b.rs", text),
        ] {
            assert_eq!(problems(path, text), [""; 0], "{path}");
        }
        assert_eq!(check(&Repository::of_sources(&[])).len(), 1, "the table was not found");
    }

    #[test]
    fn a_question_about_the_era_is_found() {
        for text in [
            "fn a() { b.is_modern() }",
            "x < Revision::FIRST_MODERN",
            "c.era()",
            "d.map(E::era)",
            "match f { Era::Modern => 1, _ => 2 }",
            "g == wharf_wire::Era::Legacy",
        ] {
            let found = problems("crates/a/src/b.rs", text);
            assert!(found.len() == 1 && found[0].contains("b.rs:1 asks"), "{text} {found:?}");
            for path in ["crates/wharf-wire/src/b.rs", "crates/a/tests/b.rs", ASKING[0].0] {
                assert_eq!(problems(path, text), [""; 0], "{path}");
            }
        }
        let harmless = "fn a() { b.era(c); SupportedEra::Modern } // d.is_modern()\nconst FIRST_MODERNIZED: &str = \"FIRST_MODERN\";";
        assert_eq!(problems("crates/a/src/b.rs", harmless), [""; 0]);
    }
}
