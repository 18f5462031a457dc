//! Front matter of skills.

use wharf_extensions::skills::{FrontMatter, differing_field};

use crate::input::assert_fast;

/// Length up to which no key is longer than YAML allows.
const MAX_WRITTEN: usize = 1000;

/// Bytes of a `SKILL.md`. Front matter that was read is read again after it was written.
pub fn front_matter(data: &[u8]) {
    let Ok(read) = assert_fast("reading", || FrontMatter::parse(data)) else { return };
    let lines = data.iter().filter(|byte| **byte == b'\n').count() + 1;
    for problem in read.problems() {
        assert!(problem.line.is_none_or(|line| (1..=lines).contains(&line)), "{problem:?}");
    }
    // YAML limits keys that are not on a line of their own.
    if data.len() > MAX_WRITTEN {
        return;
    }
    let written = read.to_file("");
    let again = FrontMatter::parse(written.as_bytes());
    let again = again.unwrap_or_else(|error| panic!("{written} is not read again: {error}"));
    assert_eq!(differing_field(read.fields(), again.fields()), None, "{written}");
}
