//! Claims of a token.

use std::sync::Arc;

use serde::{Serialize, Serializer, de::DeserializeOwned};
use serde_json::{Map, Value};

/// Claims of a token (RFC 7519). `Debug` omits the values; clones share them.
#[derive(Clone, PartialEq, Default)]
pub struct Claims(Arc<Map<String, Value>>);

impl Claims {
    /// All claims by name.
    #[must_use]
    pub fn as_map(&self) -> &Map<String, Value> {
        &self.0
    }

    /// One claim.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// Returns a claim that is a string.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        self.get(name)?.as_str()
    }

    /// Returns a claim that is a string or an array of strings, such as `aud`. Other values are skipped.
    #[must_use]
    pub fn texts(&self, name: &str) -> Vec<&str> {
        match self.get(name) {
            Some(Value::String(one)) => vec![one],
            Some(Value::Array(many)) => many.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        }
    }

    /// Returns a claim that is a NumericDate, in seconds since 1970. Fractions are dropped.
    #[must_use]
    pub fn time(&self, name: &str) -> Option<u64> {
        let value = self.get(name)?;
        value.as_u64().or_else(|| {
            let seconds = value.as_f64()?;
            // Larger values are not plausible dates, and might not fit in a `u64`.
            (0.0..1e15).contains(&seconds).then_some(seconds as u64)
        })
    }

    /// Deserializes the claims as a type of the caller.
    ///
    /// # Errors
    ///
    /// If the claims do not match `T`.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_value(Value::Object((*self.0).clone()))
    }
}

impl From<Map<String, Value>> for Claims {
    fn from(map: Map<String, Value>) -> Self {
        Claims(Arc::new(map))
    }
}

impl Serialize for Claims {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl std::fmt::Debug for Claims {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Claims").field(&self.0.keys().collect::<Vec<_>>()).finish()
    }
}
