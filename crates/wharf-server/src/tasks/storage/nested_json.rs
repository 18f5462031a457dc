//! Serde helper for JSON values nested in a record: each is parsed as a separate document.
//!
//! Parsers limit the depth, so that input cannot exhaust the stack. A value just under the limit
//! would exceed it once nested in a record, and the record could not be read back.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::DeserializeOwned};
use serde_json::value::{RawValue, to_raw_value};

/// Maximum depth of a value: the limit of the parser, less one level as a margin.
const MAX_NESTING: usize = 126;

pub(crate) fn serialize<T: Serialize, S: Serializer>(
    value: &T,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    to_raw_value(value).map_err(serde::ser::Error::custom)?.serialize(serializer)
}

pub(crate) fn deserialize<'de, T: DeserializeOwned, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    let json = Box::<RawValue>::deserialize(deserializer)?;
    serde_json::from_str(json.get()).map_err(serde::de::Error::custom)
}

/// Returns whether a JSON text is nested too deeply to be parsed.
pub(crate) fn is_too_deep(json: &[u8]) -> bool {
    let (mut depth, mut deepest, mut is_text, mut is_escaped) = (0_usize, 0, false, false);
    for byte in json {
        match (is_text, byte) {
            (true, _) if is_escaped => is_escaped = false,
            (true, b'\\') => is_escaped = true,
            (_, b'"') => is_text = !is_text,
            (false, b'[' | b'{') => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            (false, b']' | b'}') => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest > MAX_NESTING
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn values_within_the_depth_limit_can_be_parsed() {
        let nested = |depth| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
        assert!(!is_too_deep(nested(MAX_NESTING).as_bytes()));
        assert!(serde_json::from_str::<Value>(&nested(MAX_NESTING)).is_ok());
        assert!(is_too_deep(nested(MAX_NESTING + 1).as_bytes()));
        assert!(!is_too_deep(format!(r#"["\"{}"]"#, "[".repeat(500)).as_bytes()));
    }
}
