//! Invisible characters: two texts that differ only by them look alike.

/// True if `c` is invisible between `before` and `after`. Joiners and variation selectors are
/// allowed where they belong: in emoji, and in scripts that are spelt with them.
pub(super) fn is_invisible(before: Option<char>, c: char, after: Option<char>) -> bool {
    match c {
        // Zero width joiner and non-joiner.
        '\u{200d}' if before.is_some_and(is_emoji) => !after.is_some_and(is_emoji),
        '\u{200c}' | '\u{200d}' => {
            !before.is_some_and(is_joining_script) || !after.is_some_and(is_joining_script)
        }
        // Variation selectors: the text or emoji form of a character, a keycap.
        '\u{fe0e}' | '\u{fe0f}' => !before.is_some_and(is_emoji) && after != Some('\u{20e3}'),
        // The variants of an ideograph.
        '\u{e0100}'..='\u{e01ef}' => !before.is_some_and(is_ideograph),
        '\u{fe00}'..='\u{fe0d}' => true,
        // Soft hyphen, combining grapheme joiner, zero width space and no-break space, word joiner
        // and invisible operators, annotations, blank fillers.
        '\u{ad}' | '\u{34f}' | '\u{200b}' | '\u{feff}' => true,
        '\u{2060}'..='\u{2065}' | '\u{206a}'..='\u{206f}' | '\u{fff0}'..='\u{fffb}' => true,
        '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}' | '\u{2800}' => true,
        '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}' => true,
        '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' => true,
        _ => false,
    }
}

/// Emoji and their modifiers.
fn is_emoji(c: char) -> bool {
    matches!(
        c,
        '\u{a9}' | '\u{ae}' | '\u{203c}' | '\u{2049}' | '\u{fe0f}' | '\u{3030}' | '\u{303d}'
    ) || matches!(c, '\u{2100}'..='\u{214f}' | '\u{2190}'..='\u{27bf}' | '\u{2900}'..='\u{2bff}')
        || matches!(c, '\u{3297}' | '\u{3299}' | '\u{1f000}'..='\u{1faff}')
}

/// Letters and marks of the scripts from Arabic to Myanmar, and of Khmer and Mongolian, in which a
/// joiner changes the shape of a word.
fn is_joining_script(c: char) -> bool {
    matches!(c, '\u{600}'..='\u{8ff}' | '\u{900}'..='\u{109f}' | '\u{1780}'..='\u{18af}')
        || matches!(c, '\u{fb50}'..='\u{fdff}' | '\u{fe70}'..='\u{fefc}')
}

fn is_ideograph(c: char) -> bool {
    matches!(c, '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}
