//! Fits text into columns.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::{Paint, ellipsis};

/// Default terminal width.
const DEFAULT_COLUMNS: usize = 80;

/// Default number of lines of a terminal.
const DEFAULT_ROWS: usize = 24;

/// Available width in columns.
pub(crate) fn columns() -> usize {
    let said = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    let seen = || terminal_size::terminal_size().map(|(width, _)| usize::from(width.0));
    // Fewer columns fit nothing, and longer lines are hard to read.
    said.or_else(seen).unwrap_or(DEFAULT_COLUMNS).clamp(20, 240)
}

/// Number of lines of the terminal.
pub(crate) fn rows() -> usize {
    terminal_size::terminal_size().map_or(DEFAULT_ROWS, |(_, height)| usize::from(height.0)).max(2)
}

/// Width of `text` in columns.
pub(crate) fn width(text: &str) -> usize {
    UnicodeWidthStr::width(text)
}

/// Wraps `text` to at most `most` columns, between words if possible.
pub(crate) fn wrap(text: &str, most: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for line in text.split('\n') {
        wrap_line(line, most.max(1), &mut lines);
    }
    lines
}

fn wrap_line(line: &str, most: usize, lines: &mut Vec<String>) {
    let mut current = String::new();
    for word in line.split(' ') {
        let gap = usize::from(!current.is_empty());
        if width(&current) + gap + width(word) <= most {
            current.extend(std::iter::repeat_n(' ', gap));
            current.push_str(word);
            continue;
        }
        if !current.is_empty() {
            lines.push(std::mem::take(&mut current));
        }
        current = break_word(word, most, lines);
    }
    lines.push(current);
}

/// Breaks a word that is too long anywhere; returns the rest.
fn break_word(word: &str, most: usize, lines: &mut Vec<String>) -> String {
    let (mut current, mut taken) = (String::new(), 0);
    for c in word.chars() {
        let wide = c.width().unwrap_or(0);
        if taken + wide > most && !current.is_empty() {
            lines.push(std::mem::take(&mut current));
            taken = 0;
        }
        current.push(c);
        taken += wide;
    }
    current
}

/// `text` after its label, wrapped in its own column; in a narrow terminal below the label.
pub(crate) fn labelled(
    name: &str,
    text: &str,
    label: usize,
    columns: usize,
    paint: Paint,
) -> Vec<String> {
    if columns < 3 * label {
        let text = wrap(text, columns.saturating_sub(2)).into_iter();
        return [paint.cyan(name)]
            .into_iter()
            .chain(text.map(|line| format!("  {line}")))
            .collect();
    }
    let line = |(at, line): (usize, String)| {
        let name = if at == 0 { name } else { "" };
        format!("{}{line}", paint.cyan(&format!("{name:<label$}")))
    };
    wrap(text, columns - label).into_iter().enumerate().map(line).collect()
}

/// Truncates `text` to at most `most` columns.
pub(crate) fn cut(text: &str, most: usize) -> String {
    if width(text) <= most {
        return text.to_owned();
    }
    let ellipsis = ellipsis();
    let (mut out, mut taken) = (String::new(), width(ellipsis));
    for c in text.chars() {
        taken += c.width().unwrap_or(0);
        if taken > most {
            break;
        }
        out.push(c);
    }
    out.push_str(ellipsis);
    out
}

/// Formats a number of bytes.
pub(crate) fn bytes(count: usize) -> String {
    const UNITS: [&str; 3] = ["kB", "MB", "GB"];
    if count < 1000 {
        return format!("{count} bytes");
    }
    #[expect(clippy::cast_precision_loss, reason = "shown with one digit")]
    let mut rest = count as f64 / 1000.0;
    let mut unit = 0;
    while rest >= 1000.0 && unit + 1 < UNITS.len() {
        rest /= 1000.0;
        unit += 1;
    }
    format!("{rest:.1} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_wraps_between_words() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("one\ntwo", 7), ["one", "two"]);
        assert_eq!(wrap("demo://readme", 6), ["demo:/", "/readm", "e"]);
        assert_eq!(wrap("漢字漢字", 5), ["漢字", "漢字"]);
        assert_eq!(wrap("", 5), [""]);
        assert_eq!(wrap("漢", 1), ["漢"]);
    }

    #[test]
    fn labels_are_beside_or_above_their_text() {
        let told = |columns| labelled("Version", "one two three", 8, columns, Paint::PLAIN);
        assert_eq!(told(24), ["Version one two three"]);
        assert_eq!(told(20), ["Version", "  one two three"]);
        let told = labelled("A", "one two", 4, 12, Paint::PLAIN);
        assert_eq!(told, ["A   one two"]);
    }

    #[test]
    fn cut_text_ends_with_an_ellipsis() {
        assert_eq!(cut("short", 5), "short");
        assert_eq!(cut("longer", 5), "long…");
        assert_eq!(cut("漢字漢", 5), "漢字…");
    }

    #[test]
    fn sizes_are_readable() {
        for (count, said) in
            [(0, "0 bytes"), (999, "999 bytes"), (1234, "1.2 kB"), (5_000_000, "5.0 MB")]
        {
            assert_eq!(bytes(count), said);
        }
    }
}
