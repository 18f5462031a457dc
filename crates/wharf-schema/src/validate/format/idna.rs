//! Labels of internationalized host names (IDNA 2008: RFC 5890 to RFC 5893).

use icu_properties::{
    CodePointMapData, CodePointSetData,
    props::{
        ChangesWhenNfkcCasefolded, DefaultIgnorableCodePoint, GeneralCategory, HangulSyllableType,
        NoncharacterCodePoint, Script, WhiteSpace,
    },
};
use idna::{
    AsciiDenyList, punycode,
    uts46::{DnsLength, Hyphens, Uts46},
};

/// Maximum length of a label in ASCII and of a whole name in UTF-8. A name of 253 bytes in ASCII
/// has fewer characters, each of at most four bytes.
const MAX_LABEL_BYTES: usize = 63;
pub(super) const MAX_NAME_BYTES: usize = 4 * 253;

/// Characters that IDNA treats as dots.
pub(super) const DOT_CHARACTERS: [char; 4] = ['.', '\u{3002}', '\u{FF0E}', '\u{FF61}'];

/// Exceptions of RFC 5892, section 2.6.
const ALLOWED_EXCEPTIONS: &[char] =
    &['\u{DF}', '\u{3C2}', '\u{6FD}', '\u{6FE}', '\u{F0B}', '\u{3007}'];
const DISALLOWED_EXCEPTIONS: &[char] = &[
    '\u{640}', '\u{7FA}', '\u{302E}', '\u{302F}', '\u{3031}', '\u{3032}', '\u{3033}', '\u{3034}',
    '\u{3035}', '\u{303B}',
];

/// Letters, digits and combining marks.
const LETTER_CATEGORIES: [GeneralCategory; 7] = [
    GeneralCategory::LowercaseLetter,
    GeneralCategory::UppercaseLetter,
    GeneralCategory::OtherLetter,
    GeneralCategory::DecimalNumber,
    GeneralCategory::ModifierLetter,
    GeneralCategory::NonspacingMark,
    GeneralCategory::SpacingMark,
];

/// True if all labels of the name are valid, in ASCII or in any script.
pub(super) fn is_name(text: &str) -> bool {
    if text.len() > MAX_NAME_BYTES {
        return false;
    }
    let labels: Option<Vec<String>> = text.split(DOT_CHARACTERS).map(in_ascii).collect();
    let Some(ascii) = labels.map(|labels| labels.join(".")) else { return false };
    // Normalizes and checks joiners, leading marks and the direction of the whole name. A name that
    // this changes was not in normal form.
    let mapped = Uts46::new().to_ascii(
        text.as_bytes(),
        AsciiDenyList::STD3,
        Hyphens::Check,
        DnsLength::Verify,
    );
    mapped.is_ok_and(|mapped| *mapped == *ascii)
}

/// Label in lower-case ASCII; `None` if it is not valid.
fn in_ascii(label: &str) -> Option<String> {
    if !label.is_ascii() {
        let is_right = is_unicode_label(label) && label.chars().count() < MAX_LABEL_BYTES;
        return is_right
            .then(|| punycode::encode_str(label))
            .flatten()
            .map(|it| format!("xn--{it}"));
    }
    let lower = label.to_ascii_lowercase();
    let is_right = match lower.strip_prefix("xn--") {
        Some(encoded) => lower.len() <= MAX_LABEL_BYTES && is_encoded_label(encoded),
        None => true,
    };
    is_right.then_some(lower)
}

/// True if the text after `xn--` encodes a label that requires Punycode.
fn is_encoded_label(encoded: &str) -> bool {
    let Some(label) = punycode::decode_to_string(encoded) else { return false };
    let is_same = punycode::encode_str(&label).is_some_and(|again| again == encoded);
    is_same && !label.is_ascii() && is_unicode_label(&label)
}

fn is_unicode_label(label: &str) -> bool {
    let chars: Vec<char> = label.chars().collect();
    let has_prefix = chars.get(2..4) == Some(&['-', '-']);
    !has_prefix
        && !label.starts_with('-')
        && !label.ends_with('-')
        && (0..chars.len()).all(|at| is_right_at(&chars, at))
}

/// True if a character is allowed at its position: RFC 5892, with the contextual rules of its
/// appendix A. Joiners are checked by the normalization.
fn is_right_at(label: &[char], at: usize) -> bool {
    let char = label[at];
    let before = at.checked_sub(1).map(|at| label[at]);
    let after = label.get(at + 1).copied();
    let is_of = |char: char, script: Script| CodePointMapData::<Script>::new().get(char) == script;
    match char {
        '\u{B7}' => before == Some('l') && after == Some('l'),
        '\u{375}' => after.is_some_and(|it| is_of(it, Script::Greek)),
        '\u{5F3}' | '\u{5F4}' => before.is_some_and(|it| is_of(it, Script::Hebrew)),
        '\u{30FB}' => {
            let scripts = [Script::Hiragana, Script::Katakana, Script::Han];
            label.iter().any(|it| scripts.iter().any(|script| is_of(*it, *script)))
        }
        '\u{660}'..='\u{669}' => !label.iter().any(|it| ('\u{6F0}'..='\u{6F9}').contains(it)),
        '\u{6F0}'..='\u{6F9}' => !label.iter().any(|it| ('\u{660}'..='\u{669}').contains(it)),
        '\u{200C}' | '\u{200D}' | '-' | '0'..='9' | 'a'..='z' => true,
        other => is_valid(other),
    }
}

fn is_valid(char: char) -> bool {
    if ALLOWED_EXCEPTIONS.contains(&char) {
        return true;
    }
    let is_old_jamo = [
        HangulSyllableType::LeadingJamo,
        HangulSyllableType::VowelJamo,
        HangulSyllableType::TrailingJamo,
    ]
    .contains(&CodePointMapData::<HangulSyllableType>::new().get(char));
    let is_ignorable = CodePointSetData::new::<DefaultIgnorableCodePoint>().contains(char)
        || CodePointSetData::new::<WhiteSpace>().contains(char)
        || CodePointSetData::new::<NoncharacterCodePoint>().contains(char)
        || matches!(char, '\u{20D0}'..='\u{20FF}' | '\u{1D100}'..='\u{1D24F}');
    let is_unstable = CodePointSetData::new::<ChangesWhenNfkcCasefolded>().contains(char);
    let category = CodePointMapData::<GeneralCategory>::new().get(char);
    !DISALLOWED_EXCEPTIONS.contains(&char)
        && !is_old_jamo
        && !is_ignorable
        && !is_unstable
        && LETTER_CATEGORIES.contains(&category)
}
