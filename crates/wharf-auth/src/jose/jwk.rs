//! Public keys (RFC 7517), and their thumbprints (RFC 7638).

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::{Value, json};

use super::{Algorithm, JoseError, algorithm::KeyFamily, b64, sha256, unb64};

/// Limit of keys that are read from one set.
const MAX_KEYS: usize = 128;

/// A public key (JWK). Private parameters are neither kept nor serialized.
///
/// ```
/// use wharf_auth::jose::{Jwk, SigningKey};
///
/// let key = SigningKey::generate()?;
/// let text = serde_json::to_string(&key.public_jwk())?;
/// assert!(!text.contains("\"d\""));
/// assert_eq!(serde_json::from_str::<Jwk>(&text)?, key.public_jwk());
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Jwk {
    material: KeyMaterial,
    kid: Option<String>,
    alg: Option<String>,
    usage: Option<String>,
    /// `key_ops`, if present.
    operations: Option<Vec<String>>,
    had_private: bool,
}

/// The key's parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum KeyMaterial {
    Rsa { n: Vec<u8>, e: Vec<u8> },
    P256 { x: Vec<u8>, y: Vec<u8> },
    P384 { x: Vec<u8>, y: Vec<u8> },
    Ed25519 { x: Vec<u8> },
}

impl Jwk {
    pub(super) fn new(material: KeyMaterial, algorithm: Algorithm) -> Self {
        let alg = Some(algorithm.name().to_owned());
        Jwk { material, kid: None, alg, usage: None, operations: None, had_private: false }
    }

    /// Parses a key from JSON.
    ///
    /// # Errors
    ///
    /// If the key is malformed, too weak, symmetric, or of an unsupported type.
    pub fn from_json(value: &Value) -> Result<Self, JoseError> {
        let text = |name: &str| value.get(name).and_then(Value::as_str);
        let bytes = |name: &str| unb64(text(name).unwrap_or_default());
        let material = match (text("kty"), text("crv")) {
            (Some("RSA"), _) => KeyMaterial::Rsa {
                n: strip_leading_zeros(bytes("n")?),
                e: strip_leading_zeros(bytes("e")?),
            },
            (Some("EC"), Some("P-256")) => KeyMaterial::P256 { x: bytes("x")?, y: bytes("y")? },
            (Some("EC"), Some("P-384")) => KeyMaterial::P384 { x: bytes("x")?, y: bytes("y")? },
            (Some("OKP"), Some("Ed25519")) => KeyMaterial::Ed25519 { x: bytes("x")? },
            _ => return Err(JoseError::BadKey),
        };
        material.check()?;
        let operations = value.get("key_ops").and_then(Value::as_array);
        let operations =
            operations.map(|all| all.iter().filter_map(Value::as_str).map(str::to_owned).collect());
        Ok(Jwk {
            material,
            kid: text("kid").map(str::to_owned),
            alg: text("alg").map(str::to_owned),
            usage: text("use").map(str::to_owned),
            operations,
            had_private: ["d", "p", "q", "dp", "dq", "qi", "oth", "k"]
                .iter()
                .any(|name| value.get(name).is_some()),
        })
    }

    /// The key's id (`kid`).
    #[must_use]
    pub fn kid(&self) -> Option<&str> {
        self.kid.as_deref()
    }

    /// The only algorithm that the key is for (`alg`), if given.
    #[must_use]
    pub fn alg(&self) -> Option<&str> {
        self.alg.as_deref()
    }

    /// The key's intended use (`use`), if given: `sig` or `enc`.
    #[must_use]
    pub fn usage(&self) -> Option<&str> {
        self.usage.as_deref()
    }

    /// Sets the key's id.
    #[must_use]
    pub fn with_kid(mut self, kid: impl Into<String>) -> Self {
        self.kid = Some(kid.into());
        self
    }

    /// Sets the key's intended use.
    #[must_use]
    pub fn with_usage(mut self, usage: impl Into<String>) -> Self {
        self.usage = Some(usage.into());
        self
    }

    /// Returns true if the parsed JSON contained private parameters, which must never be sent.
    #[must_use]
    pub fn had_private_parts(&self) -> bool {
        self.had_private
    }

    /// Returns true if the key can verify signatures of this algorithm.
    #[must_use]
    pub fn supports(&self, algorithm: Algorithm) -> bool {
        let named = self.alg.as_deref();
        self.material.family() == algorithm.family()
            && named.is_none_or(|alg| Algorithm::from_name(alg) == Some(algorithm))
            && self.usage.as_deref().is_none_or(|usage| usage == "sig")
            && self.operations.as_ref().is_none_or(|all| all.iter().any(|one| one == "verify"))
    }

    /// Thumbprint of the key, independent of how the key is written (RFC 7638, SHA-256).
    #[must_use]
    pub fn thumbprint(&self) -> String {
        // Members in lexicographic order without spaces, as RFC 7638 requires. Base64url needs no escapes.
        let text = match &self.material {
            KeyMaterial::Rsa { n, e } => {
                format!(r#"{{"e":"{}","kty":"RSA","n":"{}"}}"#, b64(e), b64(n))
            }
            KeyMaterial::P256 { x, y } => ec_thumbprint_json("P-256", x, y),
            KeyMaterial::P384 { x, y } => ec_thumbprint_json("P-384", x, y),
            KeyMaterial::Ed25519 { x } => {
                format!(r#"{{"crv":"Ed25519","kty":"OKP","x":"{}"}}"#, b64(x))
            }
        };
        b64(sha256(text.as_bytes()))
    }

    pub(super) fn material(&self) -> &KeyMaterial {
        &self.material
    }
}

/// Removes leading zeros, which some issuers add to numbers.
fn strip_leading_zeros(bytes: Vec<u8>) -> Vec<u8> {
    let zeros = bytes.iter().take_while(|&&byte| byte == 0).count();
    bytes[zeros..].to_vec()
}

fn ec_thumbprint_json(name: &str, x: &[u8], y: &[u8]) -> String {
    format!(r#"{{"crv":"{name}","kty":"EC","x":"{}","y":"{}"}}"#, b64(x), b64(y))
}

impl KeyMaterial {
    fn family(&self) -> KeyFamily {
        match self {
            KeyMaterial::Rsa { .. } => KeyFamily::Rsa,
            KeyMaterial::P256 { .. } => KeyFamily::P256,
            KeyMaterial::P384 { .. } => KeyFamily::P384,
            KeyMaterial::Ed25519 { .. } => KeyFamily::Ed25519,
        }
    }

    /// Checks the sizes only; each signature verification checks that a point is on its curve.
    fn check(&self) -> Result<(), JoseError> {
        let fine = match self {
            KeyMaterial::Rsa { n, e } => {
                (256..=1024).contains(&n.len()) && (1..=8).contains(&e.len())
            }
            KeyMaterial::P256 { x, y } => x.len() == 32 && y.len() == 32,
            KeyMaterial::P384 { x, y } => x.len() == 48 && y.len() == 48,
            KeyMaterial::Ed25519 { x } => x.len() == 32,
        };
        if fine { Ok(()) } else { Err(JoseError::BadKey) }
    }

    fn to_json(&self) -> Value {
        match self {
            KeyMaterial::Rsa { n, e } => json!({"kty": "RSA", "n": b64(n), "e": b64(e)}),
            KeyMaterial::P256 { x, y } => {
                json!({"kty": "EC", "crv": "P-256", "x": b64(x), "y": b64(y)})
            }
            KeyMaterial::P384 { x, y } => {
                json!({"kty": "EC", "crv": "P-384", "x": b64(x), "y": b64(y)})
            }
            KeyMaterial::Ed25519 { x } => json!({"kty": "OKP", "crv": "Ed25519", "x": b64(x)}),
        }
    }
}

impl Serialize for Jwk {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut json = self.material.to_json();
        for (name, value) in [("kid", &self.kid), ("alg", &self.alg), ("use", &self.usage)] {
            if let Some(value) = value {
                json[name] = Value::from(value.as_str());
            }
        }
        json.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Jwk {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Jwk::from_json(&Value::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// A JWK set. Unsupported keys are skipped when it is parsed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct JwkSet {
    /// The keys.
    pub keys: Vec<Jwk>,
}

impl<'de> Deserialize<'de> for JwkSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Raw {
            keys: Vec<Value>,
        }
        let raw = Raw::deserialize(deserializer)?;
        let keys = raw.keys.iter().filter_map(|key| Jwk::from_json(key).ok());
        Ok(JwkSet { keys: keys.take(MAX_KEYS).collect() })
    }
}
