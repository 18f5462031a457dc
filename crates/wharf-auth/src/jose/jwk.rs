//! Public keys (RFC 7517), and their thumbprints (RFC 7638).

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::{Value, json};

use super::{Algorithm, JoseError, algorithm::Family, b64, sha256, unb64};

/// More keys than this in one set are not looked at.
const MOST_KEYS: usize = 128;

/// A public key. Private parts are never kept, and never written.
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
    material: Material,
    kid: Option<String>,
    alg: Option<String>,
    usage: Option<String>,
    /// What it may be used for, where it says so.
    operations: Option<Vec<String>>,
    had_private: bool,
}

/// The key itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Material {
    Rsa { n: Vec<u8>, e: Vec<u8> },
    P256 { x: Vec<u8>, y: Vec<u8> },
    P384 { x: Vec<u8>, y: Vec<u8> },
    Ed25519 { x: Vec<u8> },
}

impl Jwk {
    pub(super) fn new(material: Material, algorithm: Algorithm) -> Self {
        let alg = Some(algorithm.name().to_owned());
        Jwk { material, kid: None, alg, usage: None, operations: None, had_private: false }
    }

    /// A key out of JSON.
    ///
    /// # Errors
    ///
    /// Keys that are broken, too weak, shared secrets, or of an unknown kind.
    pub fn from_json(value: &Value) -> Result<Self, JoseError> {
        let text = |name: &str| value.get(name).and_then(Value::as_str);
        let bytes = |name: &str| unb64(text(name).unwrap_or_default());
        let material = match (text("kty"), text("crv")) {
            (Some("RSA"), _) => Material::Rsa { n: number(bytes("n")?), e: number(bytes("e")?) },
            (Some("EC"), Some("P-256")) => Material::P256 { x: bytes("x")?, y: bytes("y")? },
            (Some("EC"), Some("P-384")) => Material::P384 { x: bytes("x")?, y: bytes("y")? },
            (Some("OKP"), Some("Ed25519")) => Material::Ed25519 { x: bytes("x")? },
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

    /// Which key it is, as its owner calls it.
    #[must_use]
    pub fn kid(&self) -> Option<&str> {
        self.kid.as_deref()
    }

    /// The one algorithm that it is for, if it says so.
    #[must_use]
    pub fn alg(&self) -> Option<&str> {
        self.alg.as_deref()
    }

    /// What it is for, if it says so: `sig` or `enc`.
    #[must_use]
    pub fn usage(&self) -> Option<&str> {
        self.usage.as_deref()
    }

    /// The same key under this name.
    #[must_use]
    pub fn with_kid(mut self, kid: impl Into<String>) -> Self {
        self.kid = Some(kid.into());
        self
    }

    /// The same key, for this use.
    #[must_use]
    pub fn with_usage(mut self, usage: impl Into<String>) -> Self {
        self.usage = Some(usage.into());
        self
    }

    /// Whether the JSON it was read from held private parts, which nobody should have sent.
    #[must_use]
    pub fn had_private_parts(&self) -> bool {
        self.had_private
    }

    /// Whether it can verify signatures by this algorithm.
    #[must_use]
    pub fn fits(&self, algorithm: Algorithm) -> bool {
        let named = self.alg.as_deref();
        self.material.family() == algorithm.family()
            && named.is_none_or(|alg| Algorithm::from_name(alg) == Some(algorithm))
            && self.usage.as_deref().is_none_or(|usage| usage == "sig")
            && self.operations.as_ref().is_none_or(|all| all.iter().any(|one| one == "verify"))
    }

    /// The key's fingerprint, which is the same however the key is written (RFC 7638, SHA-256).
    #[must_use]
    pub fn thumbprint(&self) -> String {
        // Its members in the order of their names, without spaces: base64url needs no escapes.
        let text = match &self.material {
            Material::Rsa { n, e } => {
                format!(r#"{{"e":"{}","kty":"RSA","n":"{}"}}"#, b64(e), b64(n))
            }
            Material::P256 { x, y } => curve("P-256", x, y),
            Material::P384 { x, y } => curve("P-384", x, y),
            Material::Ed25519 { x } => {
                format!(r#"{{"crv":"Ed25519","kty":"OKP","x":"{}"}}"#, b64(x))
            }
        };
        b64(sha256(text.as_bytes()))
    }

    pub(super) fn material(&self) -> &Material {
        &self.material
    }
}

/// A number without the zeros that some issuers put before it.
fn number(bytes: Vec<u8>) -> Vec<u8> {
    let zeros = bytes.iter().take_while(|&&byte| byte == 0).count();
    bytes[zeros..].to_vec()
}

fn curve(name: &str, x: &[u8], y: &[u8]) -> String {
    format!(r#"{{"crv":"{name}","kty":"EC","x":"{}","y":"{}"}}"#, b64(x), b64(y))
}

impl Material {
    fn family(&self) -> Family {
        match self {
            Material::Rsa { .. } => Family::Rsa,
            Material::P256 { .. } => Family::P256,
            Material::P384 { .. } => Family::P384,
            Material::Ed25519 { .. } => Family::Ed25519,
        }
    }

    /// Sizes only: whether a point lies on its curve is checked with each signature.
    fn check(&self) -> Result<(), JoseError> {
        let fine = match self {
            Material::Rsa { n, e } => (256..=1024).contains(&n.len()) && (1..=8).contains(&e.len()),
            Material::P256 { x, y } => x.len() == 32 && y.len() == 32,
            Material::P384 { x, y } => x.len() == 48 && y.len() == 48,
            Material::Ed25519 { x } => x.len() == 32,
        };
        if fine { Ok(()) } else { Err(JoseError::BadKey) }
    }

    fn to_json(&self) -> Value {
        match self {
            Material::Rsa { n, e } => json!({"kty": "RSA", "n": b64(n), "e": b64(e)}),
            Material::P256 { x, y } => {
                json!({"kty": "EC", "crv": "P-256", "x": b64(x), "y": b64(y)})
            }
            Material::P384 { x, y } => {
                json!({"kty": "EC", "crv": "P-384", "x": b64(x), "y": b64(y)})
            }
            Material::Ed25519 { x } => json!({"kty": "OKP", "crv": "Ed25519", "x": b64(x)}),
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

/// Keys that somebody publishes. Those that nobody here could use are left out when it is read.
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
        Ok(JwkSet { keys: keys.take(MOST_KEYS).collect() })
    }
}
