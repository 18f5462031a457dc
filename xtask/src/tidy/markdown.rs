//! Quotes (`code`), code blocks and links of a Markdown document.

use super::source::{line_of, position_in};

/// Document, split into prose and code blocks.
pub(super) struct Markdown {
    /// Text without code blocks, whose lines are empty here.
    prose: String,
    /// Lines of the code blocks that have a language; those without are drawings. All other lines are empty.
    pub(super) code: String,
}

/// Text between backticks.
pub(super) struct Quote<'a> {
    pub(super) text: &'a str,
    pub(super) line: usize,
    /// Prose between the quote before and this one.
    pub(super) before: &'a str,
    /// Prose between this quote and the next one.
    pub(super) after: &'a str,
}

impl Markdown {
    pub(super) fn of(document: &str) -> Markdown {
        let (mut prose, mut code, mut language) = (String::new(), String::new(), None);
        for line in document.lines() {
            match (line.trim_start().strip_prefix("```"), language) {
                (Some(_), Some(_)) => language = None,
                (Some(name), None) => language = Some(name),
                (None, None) => prose.push_str(line),
                (None, Some("")) => {}
                (None, Some(_)) => code.push_str(line),
            }
            prose.push('\n');
            code.push('\n');
        }
        Markdown { prose, code }
    }

    pub(super) fn quotes(&self) -> impl Iterator<Item = Quote<'_>> {
        let parts: Vec<&str> = self.prose.split('`').collect();
        (1..parts.len()).step_by(2).map(move |at| Quote {
            text: parts[at],
            line: line_of(&self.prose, position_in(&self.prose, parts[at])),
            before: parts[at - 1],
            after: parts.get(at + 1).copied().unwrap_or_default(),
        })
    }

    /// Returns the targets of links, with their lines.
    pub(super) fn links(&self) -> impl Iterator<Item = (usize, &str)> {
        self.prose.match_indices("](").filter_map(|(start, marker)| {
            let target = self.prose[start + marker.len()..].split(')').next()?;
            Some((line_of(&self.prose, start), target))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_and_links_outside_of_code_blocks_are_found() {
        let markdown =
            Markdown::of("a `b` c\n```sh\n`d` [e](f)\n```\n`g` [h](i.md#j)\n```\nk\n```\n");
        let quotes: Vec<_> =
            markdown.quotes().map(|it| (it.text, it.line, it.before, it.after)).collect();
        assert_eq!(
            quotes,
            [("b", 1, "a ", " c\n\n\n\n"), ("g", 5, " c\n\n\n\n", " [h](i.md#j)\n\n\n\n")]
        );
        assert_eq!(markdown.links().collect::<Vec<_>>(), [(5, "i.md#j")]);
        assert_eq!(markdown.code.trim(), "`d` [e](f)");
    }
}
