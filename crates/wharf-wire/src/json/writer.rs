//! JSON writer into a byte buffer. It never writes a newline, so each message is one line.

use memchr::memchr2;
use serde::Serialize;

/// Writes a JSON string.
pub(crate) fn quoted(out: &mut Vec<u8>, text: &str) {
    let (bytes, mut at) = (text.as_bytes(), 0);
    out.push(b'"');
    loop {
        let end = plain_end(bytes, at);
        out.extend_from_slice(&bytes[at..end]);
        let Some(&special) = bytes.get(end) else { break };
        escape(out, special);
        at = end + 1;
    }
    out.push(b'"');
}

/// Returns `text` as a JSON string.
pub(crate) fn as_json(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len() + 2);
    quoted(&mut out, text);
    String::from_utf8(out).unwrap_or_default()
}

fn escape(out: &mut Vec<u8>, byte: u8) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    match byte {
        b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
        b'\n' => out.extend_from_slice(b"\\n"),
        b'\r' => out.extend_from_slice(b"\\r"),
        b'\t' => out.extend_from_slice(b"\\t"),
        _ => {
            out.extend_from_slice(b"\\u00");
            out.extend_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        }
    }
}

/// Writes JSON text unchanged, but without newlines: in valid JSON they are only white space.
pub(crate) fn raw(out: &mut Vec<u8>, json: &str) {
    let mut rest = json.as_bytes();
    while let Some(at) = memchr2(b'\n', b'\r', rest) {
        out.extend_from_slice(&rest[..at]);
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
}

/// Serializes a value; writes `null` if that fails, which only a user's own types can do.
pub(crate) fn json(out: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    let start = out.len();
    if serde_json::to_writer(&mut *out, value).is_err() {
        out.truncate(start);
        out.extend_from_slice(b"null");
    }
}

/// Writes an integer.
pub(crate) fn integer(out: &mut Vec<u8>, number: impl itoa::Integer) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Writes a finite number, without a fraction if it is an integer.
pub(crate) fn number(out: &mut Vec<u8>, number: f64) {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if number.fract() == 0.0 && number.abs() < EXACT {
        integer(out, number as i64);
    } else {
        json(out, &number);
    }
}

/// Writer for a JSON object, member by member.
pub(crate) struct ObjectWriter<'a> {
    out: &'a mut Vec<u8>,
    started: bool,
}

impl<'a> ObjectWriter<'a> {
    pub(crate) fn open(out: &'a mut Vec<u8>) -> Self {
        out.push(b'{');
        ObjectWriter { out, started: false }
    }

    /// Writes a key that needs no escapes; the caller writes the value.
    #[inline]
    pub(crate) fn key(&mut self, key: &str) -> &mut Vec<u8> {
        self.out.extend_from_slice(if self.started { b",\"" } else { b"\"" });
        self.out.extend_from_slice(key.as_bytes());
        self.out.extend_from_slice(b"\":");
        self.started = true;
        self.out
    }

    /// Writes a key and escapes it if necessary; the caller writes the value.
    pub(crate) fn any_key(&mut self, key: &str) -> &mut Vec<u8> {
        if self.started {
            self.out.push(b',');
        }
        quoted(self.out, key);
        self.out.push(b':');
        self.started = true;
        self.out
    }

    /// Writes a value that already is JSON on one line.
    #[inline]
    pub(crate) fn plain(&mut self, key: &str, json: &str) {
        self.key(key).extend_from_slice(json.as_bytes());
    }

    pub(crate) fn text(&mut self, key: &str, text: &str) {
        quoted(self.key(key), text);
    }

    pub(crate) fn raw(&mut self, key: &str, json: &str) {
        raw(self.key(key), json);
    }

    pub(crate) fn json(&mut self, key: &str, value: &(impl Serialize + ?Sized)) {
        json(self.key(key), value);
    }

    /// Writes a nested object.
    #[inline]
    pub(crate) fn object(&mut self, key: &str) -> ObjectWriter<'_> {
        ObjectWriter::open(self.key(key))
    }

    pub(crate) fn close(self) {
        self.out.push(b'}');
    }
}

/// Writes an array; `write` writes each item.
pub(crate) fn array<T>(
    out: &mut Vec<u8>,
    items: impl IntoIterator<Item = T>,
    mut write: impl FnMut(&mut Vec<u8>, T),
) {
    out.push(b'[');
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write(out, item);
    }
    out.push(b']');
}

const ONES: u64 = u64::from_le_bytes([1; 8]);
const HIGHS: u64 = u64::from_le_bytes([0x80; 8]);

fn is_special(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

/// Sets the high bit of each special byte of `word`. Bytes above the lowest special byte may be wrong.
fn special_bytes(word: u64) -> u64 {
    let zeros = |it: u64| it.wrapping_sub(ONES) & !it;
    let quote = zeros(word ^ (ONES * u64::from(b'"')));
    let backslash = zeros(word ^ (ONES * u64::from(b'\\')));
    let control = word.wrapping_sub(ONES * 0x20) & !word;
    (quote | backslash | control) & HIGHS
}

/// Returns the position of the first special byte in the eight bytes from `at`; none if there is none or fewer
/// bytes are left.
#[inline(always)]
pub(crate) fn plain_end_nearby(bytes: &[u8], at: usize) -> Option<usize> {
    let word = bytes.get(at..)?.first_chunk()?;
    match special_bytes(u64::from_le_bytes(*word)) {
        0 => None,
        special => Some(at + special.trailing_zeros() as usize / 8),
    }
}

/// Returns the position of the first byte from `at` that needs an escape or ends a string; the length of
/// `bytes` if there is none.
pub(crate) fn plain_end(bytes: &[u8], at: usize) -> usize {
    let start = at;
    let mut at = plain_blocks::<16>(bytes, at, SHORT_STRING_BLOCKS);
    if at == start + 16 * SHORT_STRING_BLOCKS {
        at = plain_blocks::<64>(bytes, at, usize::MAX);
    }
    while bytes.len() - at >= 8 {
        if let Some(end) = plain_end_nearby(bytes, at) {
            return end;
        }
        at += 8;
    }
    let rest = &bytes[at..];
    at + rest.iter().position(|byte| is_special(*byte)).unwrap_or(rest.len())
}

/// Number of blocks after which wider blocks are used: most strings are shorter.
const SHORT_STRING_BLOCKS: usize = 4;

/// Skips blocks without a special byte; the compiler turns this into vector instructions.
#[inline(always)]
fn plain_blocks<const N: usize>(bytes: &[u8], mut at: usize, most: usize) -> usize {
    for _ in 0..most {
        let Some(block) = bytes[at..].first_chunk::<N>() else { break };
        if block.iter().fold(false, |any, byte| any | is_special(*byte)) {
            break;
        }
        at += N;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn strings_read_back() {
        for text in ["", "plain", "a\"b\\c\n\r\t\u{0}\u{1f}\u{7f}äé\u{2028}", &"x\n".repeat(100)]
        {
            let json = written(|out| quoted(out, text));
            assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
            assert!(!json.contains('\n'));
        }
    }

    #[test]
    fn raw_text_goes_on_one_line() {
        assert_eq!(written(|out| raw(out, "{\r\n  \"a\\n\": 1\n}")), "{  \"a\\n\": 1}");
    }

    #[test]
    fn numbers_have_a_fraction_only_where_needed() {
        for (value, json) in [(1.0, "1"), (-2.0, "-2"), (0.5, "0.5"), (-0.25, "-0.25")] {
            assert_eq!(written(|out| number(out, value)), json);
        }
    }

    #[test]
    fn runs_end_at_the_first_special_byte() {
        for length in 0..200 {
            for special in [b'"', b'\\', b'\n', 0x1f] {
                let mut bytes = vec![b'x'; length];
                assert_eq!(plain_end(&bytes, 0), length);
                bytes.extend_from_slice("ä".as_bytes());
                bytes.push(special);
                bytes.extend_from_slice(b"\"\"tail");
                assert_eq!(plain_end(&bytes, 0), length + 2);
                assert_eq!(plain_end(&bytes, length), length + 2);
            }
        }
    }
}
