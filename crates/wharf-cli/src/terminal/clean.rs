//! Escapes terminal control characters in text from servers.

use std::{borrow::Cow, fmt::Write as _};

use super::{
    invisible::is_invisible,
    locale::{ascii, ascii_only},
};

/// Escapes text of several lines. Line breaks and tabs stay; other control characters become
/// visible.
pub(crate) fn clean(text: &str) -> Cow<'_, str> {
    escape(text, |c| c != '\n' && c != '\t' && is_unsafe(c), ascii_only())
}

/// Escapes text for a single line.
pub(crate) fn clean_line(text: &str) -> Cow<'_, str> {
    if !text.contains(['\n', '\t', '\r']) {
        return escape(text, is_unsafe, ascii_only());
    }
    let words: Vec<&str> = text.split(['\n', '\t', '\r']).filter(|word| !word.is_empty()).collect();
    Cow::Owned(escape(&words.join(" "), is_unsafe, ascii_only()).into_owned())
}

/// Escapes a URL: every character that could pass for another is spelled out.
pub(crate) fn clean_url(url: &str) -> Cow<'_, str> {
    escape(url, |c| !c.is_ascii_graphic(), false)
}

/// Escapes JSON text of several lines; the JSON value does not change.
pub(crate) fn clean_json(text: &str) -> Cow<'_, str> {
    escape_with(
        text,
        |c| c != '\n' && is_unsafe(c),
        ascii_only(),
        |c, out| {
            let mut units = [0; 2];
            c.encode_utf16(&mut units).iter().for_each(|unit| _ = write!(out, "\\u{unit:04x}"));
        },
    )
}

/// Replaces each character that is `bad` or invisible in its context with an escape, and each
/// non-ASCII one if `ascii_only`.
fn escape(text: &str, bad: impl Fn(char) -> bool, ascii_only: bool) -> Cow<'_, str> {
    let text: Cow<'_, str> = match text.contains("\r\n") {
        true => text.replace("\r\n", "\n").into(),
        false => text.into(),
    };
    let write = |c: char, out: &mut String| {
        _ = match (ascii(c).filter(|_| ascii_only), c.is_ascii()) {
            (Some(sign), _) => out.write_str(sign),
            (None, true) => write!(out, "\\x{:02x}", u32::from(c)),
            (None, false) => write!(out, "\\u{{{:x}}}", u32::from(c)),
        };
    };
    match text {
        Cow::Borrowed(text) => escape_with(text, bad, ascii_only, write),
        Cow::Owned(text) => escape_with(&text, bad, ascii_only, write).into_owned().into(),
    }
}

fn escape_with(
    text: &str,
    bad: impl Fn(char) -> bool,
    ascii_only: bool,
    write: impl Fn(char, &mut String),
) -> Cow<'_, str> {
    if text.is_ascii() && !text.contains(&bad) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    let mut before = None;
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let hidden = !c.is_ascii() && (ascii_only || is_invisible(before, c, rest.peek().copied()));
        match bad(c) || hidden {
            true => write(c, &mut out),
            false => out.push(c),
        }
        before = Some(c);
    }
    Cow::Owned(out)
}

/// Control characters, and those that change the writing direction or hide the following text.
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{061c}' | '\u{200e}' | '\u{200f}')
        || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        || matches!(c, '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
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

    /// Audit 17: two tools whose names differ by these would look alike.
    #[test]
    fn invisible_characters_are_escaped_except_in_emoji_and_scripts() {
        for (given, shown) in [
            ("a\u{200b}b", "a\\u{200b}b"),
            ("\u{feff}a\u{2060}", "\\u{feff}a\\u{2060}"),
            ("so\u{ad}ft", "so\\u{ad}ft"),
            ("a\u{200d}b\u{200c}c", "a\\u{200d}b\\u{200c}c"),
            ("a\u{fe0f}", "a\\u{fe0f}"),
            ("\u{3164}\u{e0100}", "\\u{3164}\\u{e0100}"),
            ("👩\u{200d}", "👩\\u{200d}"),
        ] {
            assert_eq!(clean(given), shown);
            assert_eq!(clean_line(given), shown);
        }
        for stays in [
            "👩\u{200d}🚀 ❤\u{fe0f}\u{200d}🔥 👨🏽\u{200d}👩🏽\u{200d}👧",
            "1\u{fe0f}\u{20e3} ☎\u{fe0e} 葛\u{e0100}",
            "می\u{200c}خواهم",
            "क्\u{200d}ष",
            "e\u{301} Å",
        ] {
            assert_eq!(clean(stays), stays);
        }
        assert_eq!(clean_json("\"a\u{200b}\""), "\"a\\u200b\"");
    }

    #[test]
    fn non_ascii_is_escaped_in_ascii_locales() {
        assert_eq!(escape("“ü” … 漢", is_unsafe, true), "\"\\u{fc}\" ... \\u{6f22}");
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
    fn homoglyphs_in_urls_are_escaped() {
        assert_eq!(clean_url("https://exаmple.com/?q=1"), "https://ex\\u{430}mple.com/?q=1");
        assert_eq!(clean_url("https://a.b/ \u{202e}"), "https://a.b/\\x20\\u{202e}");
    }
}
