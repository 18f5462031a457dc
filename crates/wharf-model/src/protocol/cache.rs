//! How long an answer may be kept.

use serde::{Deserialize, Deserializer, Serialize};

/// How long, and for whom, a result may be kept. By default: not at all.
///
/// ```
/// # mod wharf { pub use wharf_model::*; }
/// use wharf::CacheHint;
///
/// let hint = CacheHint::public(60_000);
/// assert_eq!(serde_json::to_string(&hint).unwrap(), r#"{"ttlMs":60000,"cacheScope":"public"}"#);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CacheHint {
    /// For how many milliseconds it stays fresh; 0 means not at all.
    pub ttl_ms: u64,
    /// Who may share it.
    #[serde(rename = "cacheScope")]
    pub scope: CacheScope,
}

impl CacheHint {
    /// Fresh for this long, for everybody.
    pub const fn public(ttl_ms: u64) -> Self {
        Self { ttl_ms, scope: CacheScope::Public }
    }

    /// Fresh for this long, for the one who asked.
    pub const fn private(ttl_ms: u64) -> Self {
        Self { ttl_ms, scope: CacheScope::Private }
    }
}

/// Who may share a kept result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CacheScope {
    /// Everybody.
    Public,
    /// Only the one who asked.
    #[default]
    Private,
}

impl CacheScope {
    /// The value as it is written on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Private => "private",
        }
    }
}

impl<'de> Deserialize<'de> for CacheScope {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        // A scope from the future is private: sharing too little only costs time.
        let text = std::borrow::Cow::<'de, str>::deserialize(from)?;
        Ok(if text == "public" { Self::Public } else { Self::Private })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips() {
        for hint in [CacheHint::public(0), CacheHint::private(7)] {
            let json = serde_json::to_string(&hint).unwrap();
            assert_eq!(serde_json::from_str::<CacheHint>(&json).unwrap(), hint);
        }
        assert_eq!(serde_json::from_str::<CacheScope>(r#""tenant""#).unwrap(), CacheScope::Private);
    }
}
