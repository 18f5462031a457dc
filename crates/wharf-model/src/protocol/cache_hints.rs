//! Cache hints of results.

use serde::{Deserialize, Deserializer, Serialize};

/// Cache hint of a result: lifetime and scope. The default is no caching.
///
/// ```
/// # mod wharf { pub use wharf_model::*; pub mod model { pub use super::*; } }
/// use wharf::model::CacheHint;
///
/// let hint = CacheHint::public(60_000);
/// assert_eq!(serde_json::to_string(&hint).unwrap(), r#"{"ttlMs":60000,"cacheScope":"public"}"#);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CacheHint {
    /// Lifetime in milliseconds; 0 for no caching.
    pub ttl_ms: u64,
    /// Cache scope.
    #[serde(rename = "cacheScope")]
    pub scope: CacheScope,
}

impl CacheHint {
    /// Creates a hint for a result that all callers may share.
    pub const fn public(ttl_ms: u64) -> Self {
        Self { ttl_ms, scope: CacheScope::Public }
    }

    /// Creates a hint for a result that only its caller may reuse.
    pub const fn private(ttl_ms: u64) -> Self {
        Self { ttl_ms, scope: CacheScope::Private }
    }
}

/// Scope of a cached result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum CacheScope {
    /// All callers share it.
    Public,
    /// Only its caller may reuse it.
    #[default]
    Private,
}

impl CacheScope {
    /// Returns the value in its wire format.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Private => "private",
        }
    }
}

impl<'de> Deserialize<'de> for CacheScope {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        // An unknown scope is private, which is always safe.
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
