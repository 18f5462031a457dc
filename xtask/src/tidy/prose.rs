//! Rule: comments name their subject in plain words. Comments that open with a question word, and words for persons in
//! place of components, are rare.
//!
//! Counted in the sources of the crates. Such a word can be right where it stands (an end user is a person), so the limits
//! are shares, not zero.

use super::repository::Repository;

/// Words that make the first sentence of a comment an indirect question.
const QUESTION_WORDS: [&str; 13] = [
    "What",
    "Who",
    "Whom",
    "Whose",
    "How",
    "Where",
    "Which",
    "Whether",
    "Why",
    "When",
    "Whoever",
    "Whatever",
    "Whichever",
];
/// Words for persons, in lower case.
const PERSON_WORDS: [&str; 10] = [
    "who",
    "whom",
    "whose",
    "whoever",
    "nobody",
    "somebody",
    "anybody",
    "everybody",
    "someone",
    "anyone",
];
/// Maximum share of the comments that open with a question word.
const MAX_QUESTIONS: f64 = 0.01;
/// Maximum share of the words of comments that stand for a person.
const MAX_PERSONS: f64 = 0.0015;
/// Shorter comments are names or markers.
const MIN_WORDS: usize = 3;
/// Places that a problem names.
const MAX_PLACES: usize = 5;

/// Consecutive comment lines, without code blocks.
struct Comment<'a> {
    path: &'a str,
    line: usize,
    words: Vec<&'a str>,
}

pub(super) fn check(repository: &Repository) -> Vec<String> {
    let in_crates = |path: &str| path.starts_with("crates/") && path.contains("/src/");
    let sources = repository.sources.iter().filter(|file| in_crates(&file.path));
    let comments: Vec<Comment> =
        sources.flat_map(|file| comments_of(&file.path, &file.text)).collect();
    let words: usize = comments.iter().map(|comment| comment.words.len()).sum();
    let questions: Vec<&Comment> =
        comments.iter().filter(|comment| is_question(comment.words[0])).collect();
    // A comment with several such words is in the list as often.
    let persons: Vec<&Comment> = comments
        .iter()
        .flat_map(|comment| {
            comment.words.iter().filter(|word| is_person(word)).map(move |_| comment)
        })
        .collect();
    let counts = [
        (
            questions,
            comments.len(),
            MAX_QUESTIONS,
            "comments open with a question word: name the thing",
        ),
        (persons, words, MAX_PERSONS, "words of comments stand for a person: name the component"),
    ];
    let exceeded = counts.into_iter().filter_map(|(places, all, limit, about)| {
        (places.len() as f64 > all as f64 * limit).then(|| problem(&places, all, limit, about))
    });
    exceeded.collect()
}

fn problem(places: &[&Comment], all: usize, limit: f64, about: &str) -> String {
    let first = places.iter().take(MAX_PLACES);
    let first: Vec<String> = first.map(|it| format!("{}:{}", it.path, it.line)).collect();
    let percent = limit * 100.0;
    format!(
        "{} of {all} {about}; at most {percent:.2} % may ({} ...)",
        places.len(),
        first.join(", ")
    )
}

fn comments_of<'a>(path: &'a str, text: &'a str) -> Vec<Comment<'a>> {
    let mut comments = Vec::new();
    let mut words: Vec<&str> = Vec::new();
    let (mut first, mut in_block) = (0, false);
    // The last, empty line ends a comment at the end of the file.
    for (line, source) in (1..).zip(text.lines().chain([""])) {
        let comment = comment_text(source);
        match comment {
            Some(text) if text.trim_start().starts_with("```") => in_block = !in_block,
            Some(_) if in_block => {}
            Some(text) => {
                if words.is_empty() {
                    first = line;
                }
                words.extend(text.split_whitespace());
            }
            None => {
                in_block = false;
                let words = std::mem::take(&mut words);
                if words.len() >= MIN_WORDS {
                    comments.push(Comment { path, line: first, words });
                }
            }
        }
    }
    comments
}

/// Returns the text of a line that is a comment.
fn comment_text(line: &str) -> Option<&str> {
    let text = line.trim_start().strip_prefix("//")?;
    Some(text.strip_prefix(['/', '!']).unwrap_or(text))
}

fn is_question(word: &str) -> bool {
    QUESTION_WORDS.contains(&word.trim_matches(|it: char| !it.is_alphanumeric()))
}

fn is_person(word: &str) -> bool {
    let word = word.trim_matches(|it: char| !it.is_alphanumeric());
    PERSON_WORDS.iter().any(|person| word.eq_ignore_ascii_case(person))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(path: &str, text: &str) -> Vec<String> {
        check(&Repository::of_sources(&[(path, text)]))
    }

    #[test]
    fn a_comment_that_opens_with_a_question_word_is_found() {
        let text = "//! Crane of a dock.\n\n/// What the crane\n/// lifts today.\nfn a() {}\n";
        let found = problems("crates/a/src/b.rs", text);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].starts_with("1 of 2 comments") && found[0].contains("b.rs:3"),
            "{found:?}"
        );
        assert_eq!(problems("bench/src/b.rs", text), [""; 0]);
    }

    #[test]
    fn persons_are_found_and_rare_ones_allowed() {
        let text = "// The crane is for\n// nobody, or anyone.\nfn a() {}\n";
        let found = problems("crates/a/src/b.rs", text);
        assert!(found.len() == 1 && found[0].starts_with("2 of 7 words"), "{found:?}");
        let long = format!("{text}// {}\n", "crane ".repeat(2_000));
        assert_eq!(problems("crates/a/src/b.rs", &long), [""; 0]);
    }

    #[test]
    fn code_blocks_and_strings_are_not_comments() {
        let text = "/// Lifts one container.\n/// ```\n/// // What is it\n/// ```\nfn a() { b(\"// Who is there\") } // Who is it\n";
        assert_eq!(problems("crates/a/src/b.rs", text), [""; 0]);
    }
}
