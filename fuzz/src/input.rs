//! Splits the bytes of an input into the parts that a target needs.

use std::time::Instant;

/// Takes the first byte, and returns the rest with it; zero if there is none.
pub(crate) fn byte(data: &[u8]) -> (u8, &[u8]) {
    data.split_first().map_or((0, data), |(first, rest)| (*first, rest))
}

/// Returns the text before the first line feed and the text after it.
pub(crate) fn two_texts(data: &[u8]) -> Option<(&str, &str)> {
    let text = std::str::from_utf8(data).ok()?;
    Some(text.split_once('\n').unwrap_or((text, "")))
}

/// Splits `data` into chunks of 1 to 8 bytes; `seed` determines their lengths.
pub(crate) fn chunks(data: &[u8], seed: u8) -> impl Iterator<Item = &[u8]> {
    let (mut rest, mut state) = (data, u32::from(seed) | 1);
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let length = 1 + (state >> 29) as usize;
        let (chunk, after) = rest.split_at(length.min(rest.len()));
        rest = after;
        Some(chunk)
    })
}

/// Panics if the work took longer than a bounded number of steps can take, even in a slow build.
pub(crate) fn assert_fast<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let started = Instant::now();
    let result = work();
    let took = started.elapsed();
    assert!(took.as_secs() < 2, "{what} took {took:?}");
    result
}
