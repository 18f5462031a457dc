//! Content of strings: `contentEncoding` and `contentMediaType` of draft 7.

use std::fmt;

use base64::{Engine, engine::general_purpose::STANDARD};
use serde::de::IgnoredAny;

use super::step_budget::{StepBudget, StopReason};

/// Required content of a string: JSON, Base64, or JSON in Base64.
#[derive(Clone, Copy, Debug)]
pub(super) struct Content {
    is_base64: bool,
    is_json: bool,
}

impl Content {
    /// Content that the two keywords require; `None` if it is not checked.
    pub(super) fn named(encoding: Option<&str>, media_type: Option<&str>) -> Option<Self> {
        let is_json = |it: &str| {
            let name = it.split(';').next().unwrap_or_default();
            name.trim().eq_ignore_ascii_case("application/json")
        };
        let is_base64 = encoding.is_some_and(|it| it.eq_ignore_ascii_case("base64"));
        // Content in another encoding is not checked.
        let is_readable = is_base64 || encoding.is_none();
        let is_json = is_readable && media_type.is_some_and(is_json);
        (is_base64 || is_json).then_some(Content { is_base64, is_json })
    }

    /// True if the text has this content.
    #[inline(never)]
    pub(super) fn is_in(self, text: &str, budget: &mut StepBudget) -> Result<bool, StopReason> {
        budget.spend(text.len())?;
        Ok(self.is_met(text))
    }

    fn is_met(self, text: &str) -> bool {
        if !self.is_base64 {
            return is_json(text.as_bytes());
        }
        // RFC 2045 allows line breaks in Base64.
        let joined: String = text.split(['\r', '\n']).collect();
        STANDARD.decode(joined).is_ok_and(|bytes| !self.is_json || is_json(&bytes))
    }
}

fn is_json(bytes: &[u8]) -> bool {
    serde_json::from_slice::<IgnoredAny>(bytes).is_ok()
}

impl fmt::Display for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.is_json, self.is_base64) {
            (true, true) => "a JSON document in Base64",
            (true, false) => "a JSON document",
            _ => "in Base64",
        })
    }
}
