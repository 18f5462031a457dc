//! Regular expressions of JSON Schema.

use regress::Regex;
use serde_json::{Value, json};
use wharf_schema::validate::Schema;

use crate::input::{assert_fast, two_texts};

/// Step budget: small, so that a step that does too much work is found.
const STEPS: usize = 100_000;
/// `regress` backtracks: longer input can take it exponential time.
const MAX_COMPARED: (usize, usize) = (24, 8);

/// The first line is a pattern, the rest is the text. Short patterns are compared with `regress`.
pub fn patterns(data: &[u8]) {
    let Some((pattern, text)) = two_texts(data) else { return };
    let schema = json!({"pattern": pattern});
    let compiled = assert_fast("compiling", || Schema::compile(&schema));
    let Ok(compiled) = compiled else { return };
    let text_value = Value::from(text);
    let found = assert_fast("matching", || compiled.is_valid(&text_value, STEPS));
    // A result within few steps must not change with more steps.
    if let Ok(few) = compiled.is_valid(&text_value, 100) {
        assert_eq!(Ok(few), found);
    }
    if pattern.len() > MAX_COMPARED.0 || text.len() > MAX_COMPARED.1 {
        return;
    }
    let Ok(peer) = Regex::with_flags(pattern, "u") else { return };
    if let Ok(found) = found {
        assert_eq!(found, peer.find(text).is_some(), "/{pattern}/u in {text:?}");
    }
}
