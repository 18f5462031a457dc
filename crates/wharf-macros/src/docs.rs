//! Converts doc comments to descriptions.
use syn::{Attribute, Expr, ExprLit, Lit, Meta};

/// Text of the doc comments among `attributes`. The lines of a paragraph are joined by spaces;
/// paragraphs, list items and code stay separate. `None` if there are no doc comments.
pub(crate) fn description(attributes: &[Attribute]) -> Option<String> {
    let lines: Vec<String> = attributes.iter().filter_map(doc_text).collect();
    let text = normalise(&lines.join("\n"));
    (!text.is_empty()).then_some(text)
}

fn doc_text(attribute: &Attribute) -> Option<String> {
    let Meta::NameValue(pair) = &attribute.meta else { return None };
    let Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) = &pair.value else { return None };
    pair.path.is_ident("doc").then(|| text.value())
}

fn normalise(text: &str) -> String {
    let mut out = String::new();
    let mut in_code = false;
    let mut previous_stands_alone = true;
    for line in text.lines() {
        let trimmed = line.trim();
        let is_fence = trimmed.starts_with("```");
        let verbatim = in_code || is_fence;
        let stands_alone = verbatim || trimmed.is_empty() || opens_block(trimmed);
        if !out.is_empty() {
            out.push(if stands_alone || previous_stands_alone { '\n' } else { ' ' });
        }
        out.push_str(if verbatim {
            line.strip_prefix(' ').unwrap_or(line).trim_end()
        } else {
            trimmed
        });
        // A line after a list item continues it; a line after code, a heading or a blank line does
        // not.
        previous_stands_alone = verbatim || trimmed.is_empty() || trimmed.starts_with('#');
        in_code ^= is_fence;
    }
    collapse_gaps(out.trim())
}

/// True if the line starts a Markdown block of its own: heading, list item, table, quote.
fn opens_block(line: &str) -> bool {
    let numbered = line.trim_start_matches(|c: char| c.is_ascii_digit());
    ["#", "- ", "* ", "+ ", "|", ">"].iter().any(|mark| line.starts_with(mark))
        || (numbered.len() < line.len()
            && (numbered.starts_with(". ") || numbered.starts_with(") ")))
}

fn collapse_gaps(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut newlines = 0;
    for character in text.chars() {
        newlines = if character == '\n' { newlines + 1 } else { 0 };
        if newlines <= 2 {
            out.push(character);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::normalise;

    #[test]
    fn lines_of_a_paragraph_are_joined() {
        assert_eq!(normalise(" Adds two\n numbers.\n\n\n Fast.\n"), "Adds two numbers.\n\nFast.");
    }

    #[test]
    fn lists_and_code_keep_their_lines() {
        assert_eq!(
            normalise(
                " Kinds:\n - one\n   more\n - two\n 1. three\n\n ```\n a  b\n   c\n ```\n End\n here"
            ),
            "Kinds:\n- one more\n- two\n1. three\n\n```\na  b\n  c\n```\nEnd here"
        );
    }

    #[test]
    fn a_missing_value_stays_missing() {
        assert_eq!(normalise("\n  \n"), "");
    }
}
