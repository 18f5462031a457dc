//! What a server says, made harmless: nothing that steers a terminal gets through.

use std::{borrow::Cow, fmt::Write as _};

/// Text over several lines. Line breaks and tabs stay; whatever else steers is shown, not obeyed.
pub(crate) fn clean(text: &str) -> Cow<'_, str> {
    escape(text, |c| c != '\n' && c != '\t' && steers(c))
}

/// Text for a place that is one line high.
pub(crate) fn clean_line(text: &str) -> Cow<'_, str> {
    if !text.contains(['\n', '\t', '\r']) {
        return escape(text, steers);
    }
    let words: Vec<&str> = text.split(['\n', '\t', '\r']).filter(|word| !word.is_empty()).collect();
    Cow::Owned(escape(&words.join(" "), steers).into_owned())
}

/// An address: every letter that could pass for another is spelled out.
pub(crate) fn clean_url(url: &str) -> Cow<'_, str> {
    escape(url, |c| !c.is_ascii_graphic())
}

/// JSON text over several lines, which stays the same JSON.
pub(crate) fn clean_json(text: &str) -> Cow<'_, str> {
    let bad = |c: char| c != '\n' && steers(c);
    if !text.contains(bad) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if bad(c) {
            let mut units = [0; 2];
            c.encode_utf16(&mut units).iter().for_each(|unit| _ = write!(out, "\\u{unit:04x}"));
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

fn escape(text: &str, bad: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&bad) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\r' if rest.peek() == Some(&'\n') => {}
            c if !bad(c) => out.push(c),
            c if c.is_ascii() => _ = write!(out, "\\x{:02x}", u32::from(c)),
            c => _ = write!(out, "\\u{{{:x}}}", u32::from(c)),
        }
    }
    Cow::Owned(out)
}

/// Control characters, and those that turn the direction of writing or hide what follows.
fn steers(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{061c}' | '\u{200e}' | '\u{200f}')
        || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        || matches!(c, '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_steers_the_terminal() {
        for (given, shown) in [
            ("plain ünïcödé 漢字 👩‍🚀", "plain ünïcödé 漢字 👩‍🚀"),
            ("a\nb\tc\r\nd", "a\nb\tc\nd"),
            ("\x1b[31mred\x1b]0;title\x07", "\\x1b[31mred\\x1b]0;title\\x07"),
            ("over\rwritten \u{9b}2J", "over\\x0dwritten \\u{9b}2J"),
            ("\u{202e}gpj.exe\u{2066}", "\\u{202e}gpj.exe\\u{2066}"),
            ("\u{7f}\u{0}", "\\x7f\\x00"),
            ("\u{200e}a\u{200f}", "\\u{200e}a\\u{200f}"),
        ] {
            assert_eq!(clean(given), shown);
        }
    }

    #[test]
    fn json_stays_the_same_json() {
        let text = "[\n \"a\u{9b}b\u{202e}\u{e0041}\u{e9}\"\n]";
        let shown = clean_json(text);
        assert_eq!(shown, "[\n \"a\\u009bb\\u202e\\udb40\\udc41\u{e9}\"\n]");
        let read = |text| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(read(text), read(&shown));
    }

    #[test]
    fn a_line_stays_a_line() {
        assert_eq!(clean_line("a\r\nb\n\n\tc"), "a b c");
        assert_eq!(clean_line("a\x1b[2K"), "a\\x1b[2K");
    }

    #[test]
    fn letters_that_pass_for_others_are_spelled_out() {
        assert_eq!(clean_url("https://exаmple.com/?q=1"), "https://ex\\u{430}mple.com/?q=1");
        assert_eq!(clean_url("https://a.b/ \u{202e}"), "https://a.b/\\x20\\u{202e}");
    }
}
