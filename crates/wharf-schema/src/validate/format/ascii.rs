//! Sets of ASCII characters.

/// A set of ASCII characters, as bits.
#[derive(Clone, Copy, Debug)]
pub(super) struct AsciiSet(u128);

impl AsciiSet {
    pub(super) const ALPHANUMERIC: AsciiSet = AsciiSet(0)
        .and("0123456789")
        .and("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
        .and("abcdefghijklmnopqrstuvwxyz");

    pub(super) const fn and(self, chars: &str) -> Self {
        let (mut bits, mut at) = (self.0, 0);
        while at < chars.len() {
            bits |= 1 << chars.as_bytes()[at];
            at += 1;
        }
        AsciiSet(bits)
    }

    #[inline]
    pub(super) fn has(self, byte: u8) -> bool {
        byte.is_ascii() && self.0 >> byte & 1 == 1
    }
}
