//! Character set of the terminal.

use std::{borrow::Cow, env, sync::LazyLock};

static ASCII_ONLY: LazyLock<bool> = LazyLock::new(|| {
    // The first variable that is set applies, as in every other program.
    let names = ["LC_ALL", "LC_CTYPE", "LANG"];
    let said = names.iter().find_map(|name| env::var(name).ok().filter(|it| !it.is_empty()));
    // Unit tests always use UTF-8, independent of the machine's locale.
    !cfg!(test) && said.is_some_and(|locale| !is_utf8(&locale))
});

/// True if the locale selects ASCII or another character set than UTF-8. Without a locale, as in
/// most containers, UTF-8 is assumed.
pub(crate) fn ascii_only() -> bool {
    *ASCII_ONLY
}

/// `de_DE.UTF-8` and `C.utf8` are; `C`, `POSIX` and `de_DE.ISO-8859-1` are not. A language without a
/// character set has one of its own, as on Windows and macOS.
fn is_utf8(locale: &str) -> bool {
    match locale.split_once('.') {
        Some((_, set)) => {
            let set = set.split('@').next().unwrap_or_default();
            ["utf-8", "utf8"].iter().any(|known| set.eq_ignore_ascii_case(known))
        }
        None => !["C", "POSIX"].contains(&locale),
    }
}

/// Mark for omitted text.
pub(crate) fn ellipsis() -> &'static str {
    if ascii_only() { "..." } else { "…" }
}

/// Converts `text` to the terminal's character set. Text of servers was [cleaned](super::clean)
/// before, so only our own symbols remain.
pub(crate) fn shown(text: &str) -> Cow<'_, str> {
    if ascii_only() { plain(text) } else { Cow::Borrowed(text) }
}

fn plain(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c.is_ascii() {
            true => out.push(c),
            false => out.push_str(ascii(c).unwrap_or("?")),
        }
    }
    Cow::Owned(out)
}

/// Usual ASCII replacement of a symbol.
pub(super) fn ascii(c: char) -> Option<&'static str> {
    Some(match c {
        '…' => "...",
        '·' | '•' => ".",
        'µ' => "u",
        '█' | '▉' | '▊' | '▋' | '▌' => "#",
        '▍' | '▎' | '▏' | '\u{a0}' => " ",
        '‘' | '’' => "'",
        '“' | '”' => "\"",
        '–' | '—' => "-",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locales_select_the_character_set() {
        for locale in ["en_US.UTF-8", "C.utf8", "de_DE.UTF-8@euro", "en_US"] {
            assert!(is_utf8(locale), "{locale}");
        }
        for locale in ["C", "POSIX", "de_DE.ISO-8859-1", "ja_JP.eucJP", "en_US."] {
            assert!(!is_utf8(locale), "{locale}");
        }
    }

    #[test]
    fn own_symbols_have_ascii_forms() {
        assert_eq!(plain("93\u{a0}µs █▋▏ …"), "93 us ##  ...");
        assert_eq!(plain("漢"), "?");
    }
}
