//! Rule: each item of Wharf that a document names exists.
//!
//! Names between backticks are checked by their shape:
//!
//! | shape | must be |
//! | --- | --- |
//! | `TwoWords` | a word of the code |
//! | `name(…)`, `name!` | a word of the code, or of a script |
//! | `two_words` | a word of the code or of its literals, as those of the protocol are; or `TwoWords` in the code, or a crate |
//! | `WHARF_…` | a word of the code or of its literals |
//! | `Type::name`, `module::name` | a word in a file that names the type, or in the module's file |
//! | `--option` | a literal, or a name in a file with command line arguments; in code blocks too |
//! | `wharf-…` | a package or program |
//! | `name` after "feature", and in `features = […]` | a feature of a crate |
//!
//! Not checked: other words (`resultType`, `Tool`), names in code blocks (those of Rust are compiled as doc tests), whether
//! a type in another file has the member, commands, and names that stand before an arrow in the changelog: the old ones.

use super::markdown::{Markdown, Quote};
use super::repository::{Repository, TextFile};
use super::source::{is_word, position_in, words};
use super::vocabulary::{Vocabulary, options_in};

/// Document whose names before an arrow are old ones.
const CHANGELOG: &str = "CHANGELOG.md";
/// Names of other projects and of readers.
const FOREIGN: [&str; 5] = ["--api-key", "--color-text-primary", "RssAnon", "init", "malloc_trim"];

pub(super) fn check(repository: &Repository) -> Vec<String> {
    let vocabulary = Vocabulary::of(repository);
    let documents = repository.documents.iter();
    documents.flat_map(|document| problems_of(document, &vocabulary)).collect()
}

fn problems_of(document: &TextFile, vocabulary: &Vocabulary) -> Vec<String> {
    let markdown = Markdown::of(&document.text);
    let is_old = |quote: &Quote| document.path == CHANGELOG && quote.after.contains('→');
    let quotes = markdown.quotes().filter(|quote| !is_old(quote));
    let quoted = quotes.flat_map(|quote| {
        let unknown = unknown_names(&quote, vocabulary);
        unknown.into_iter().map(move |name| (quote.line, name))
    });
    let blocks = (1..).zip(markdown.code.lines()).flat_map(|(line, code)| {
        let unknown = unknown_in_block(code, vocabulary);
        unknown.into_iter().map(move |name| (line, name))
    });
    let ours = quoted.chain(blocks).filter(|(_, name)| !FOREIGN.contains(&name.as_str()));
    ours.map(|(line, name)| {
        format!("{}:{line} names `{name}`, which does not exist", document.path)
    })
    .collect()
}

/// Returns the names in a quote that do not exist.
fn unknown_names(quote: &Quote, vocabulary: &Vocabulary) -> Vec<String> {
    let text = quote.text;
    let options = options_in(text).filter(|option| !vocabulary.has_option(option));
    let mut unknown: Vec<String> = options.map(str::to_owned).collect();
    let is_package = text.starts_with("wharf-") && text.chars().all(|it| is_word(it) || it == '-');
    if is_package && !vocabulary.has_package(text) {
        unknown.push(text.to_owned());
    }
    let is_feature = ["feature ", "features "].iter().any(|word| quote.before.ends_with(word));
    if is_feature && !vocabulary.has_feature(text) {
        unknown.push(text.to_owned());
    }
    // The words of a path are names of files.
    let is_path = text.contains('/') && !text.contains([' ', '(']);
    let is_unknown = |word: &&str| !is_path && !is_known_word(text, word, vocabulary);
    unknown.extend(words(text).filter(is_unknown).map(str::to_owned));
    let missing = paths(text).filter(|(parent, name)| !vocabulary.has_path(parent, name));
    unknown.extend(missing.map(|(parent, name)| format!("{parent}::{name}")));
    unknown
}

fn unknown_in_block(line: &str, vocabulary: &Vocabulary) -> Vec<String> {
    let options = options_in(line).filter(|option| !vocabulary.has_option(option));
    let list = line.starts_with("wharf").then(|| line.split_once("features = [")).flatten();
    let list = list.and_then(|(_, list)| list.split(']').next());
    let names = list.into_iter().flat_map(|list| list.split('"').skip(1).step_by(2));
    let features = names.filter(|name| !vocabulary.has_feature(name));
    options.chain(features).map(str::to_owned).collect()
}

/// Returns whether a word of `text` is not a name by its shape, or exists.
fn is_known_word(text: &str, word: &str, vocabulary: &Vocabulary) -> bool {
    let after = &text[position_in(text, word) + word.len()..];
    let is_snake = word.trim_start_matches('_').contains('_')
        && word.chars().all(|it| it == '_' || it.is_ascii_lowercase());
    match word {
        _ if has_two_humps(word) || after.starts_with(['(', '!']) => vocabulary.has_in_code(word),
        _ if is_snake => {
            vocabulary.has(word)
                || vocabulary.has_in_code(&in_camel_case(word))
                || vocabulary.has_package(&word.replace('_', "-"))
        }
        _ if word.starts_with("WHARF_") => vocabulary.has(word),
        _ => true,
    }
}

/// Returns the name of the enum variant that stands for the word.
fn in_camel_case(word: &str) -> String {
    let capitalized = |part: &str| {
        let mut letters = part.chars();
        letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect::<String>()
    };
    word.split('_').map(capitalized).collect()
}

/// Returns whether the word consists of several words with a capital each: `ServerCapabilities`.
fn has_two_humps(word: &str) -> bool {
    let humps = word.as_bytes().windows(2);
    let humps = humps.filter(|it| it[0].is_ascii_uppercase() && it[1].is_ascii_lowercase());
    word.starts_with(|it: char| it.is_ascii_uppercase()) && humps.count() > 1
}

/// Returns each `parent::name` in the text, also of `parent::{name, name}`.
fn paths(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.match_indices("::").flat_map(|(at, colons)| {
        let parent = text[..at].rsplit(|it| !is_word(it)).next().unwrap_or_default();
        let rest = &text[at + colons.len()..];
        let names = match rest.strip_prefix('{') {
            Some(list) => list.split('}').next().unwrap_or_default().split(", ").collect(),
            None => vec![rest.split(|it| !is_word(it)).next().unwrap_or_default()],
        };
        names.into_iter().filter(|name| !name.is_empty()).map(move |name| (parent, name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the names that are reported in a document beside a small crate.
    fn unknown_in(path: &str, document: &str) -> Vec<String> {
        let mut repository = Repository::of_sources(&[
            ("crates/wharf-dock/src/lib.rs", "pub use crane::*;\npub mod crane;\n// OldCrane"),
            (
                "crates/wharf-dock/src/crane.rs",
                "pub enum TowerCrane { FullLoad }\nimpl TowerCrane { pub fn lift_all() {} }\nconst A: &str = \"request_state WHARF_DOCK\";",
            ),
            ("crates/wharf-dock/src/berth.rs", "struct Berth { #[arg(long)] max_depth: u8 }"),
        ]);
        repository.manifests.push(TextFile {
            path: "crates/wharf-dock/Cargo.toml".to_owned(),
            text: "[package]\nname = \"wharf-dock\"\n[features]\nfast = []\n".to_owned(),
        });
        let (path, text) = (path.to_owned(), document.to_owned());
        repository.documents.push(TextFile { path, text });
        let name = |problem: String| problem.split('`').nth(1).map(str::to_owned);
        check(&repository).into_iter().filter_map(name).collect()
    }

    #[test]
    fn each_shape_of_an_unknown_name_is_found() {
        for (document, name) in [
            ("the `OldCrane` lifts", "OldCrane"),
            ("`crane.lift_some(…)`", "lift_some"),
            ("`lift!`", "lift"),
            ("`request_status`", "request_status"),
            ("`WHARF_PORT`", "WHARF_PORT"),
            ("`Berth::lift_all`", "Berth::lift_all"),
            ("`TowerCrane::{lift_all, FullLoad, sink}`", "TowerCrane::sink"),
            ("`berth::TowerCrane`", "berth::TowerCrane"),
            ("`wharf_dock::Berth2`", "wharf_dock::Berth2"),
            ("`dock --min-depth 3`", "--min-depth"),
            ("```sh\ndock --min-depth 3\n```", "--min-depth"),
            ("`wharf-berth`", "wharf-berth"),
            ("with the feature `slow`", "slow"),
            ("```toml\nwharf-dock = { features = [\"fast\", \"slow\"] }\n```", "slow"),
        ] {
            assert_eq!(unknown_in("docs/a.md", document), [name], "{document}");
        }
    }

    #[test]
    fn names_that_exist_and_words_of_others_are_not_reported() {
        for document in [
            "`TowerCrane::{lift_all, FullLoad}`, `crane::TowerCrane`, `wharf_dock::TowerCrane`",
            "`request_state`, `full_load`, `lift_all(…)?`, `WHARF_DOCK`, `HTTPS_PROXY`",
            "`dock --max-depth=3 -- --`, `wharf-dock`, feature `fast`, `a/wharf_old/c`",
            "`resultType`, `Host`, `tools/call`, `axum::Router`, OldCrane, `_s`",
            "```\nOldCrane --> a --disconnect\n```",
            "```toml\nother = { features = [\"slow\"] }\n```",
        ] {
            assert_eq!(unknown_in("docs/a.md", document), [""; 0], "{document}");
        }
    }

    #[test]
    fn old_names_in_the_changelog_are_not_reported() {
        let document = "`OldCrane` → `TowerCrane`, `OlderCrane` (`wharf-dock`) →\n`NewCrane`";
        assert_eq!(unknown_in(CHANGELOG, document), ["OlderCrane", "NewCrane"]);
        assert_eq!(unknown_in("docs/a.md", "`OldCrane` → `TowerCrane`"), ["OldCrane"]);
    }
}
