//! Private keys and signing.

use std::fmt;

use ring::{
    rand::SystemRandom,
    rsa::PublicKeyComponents,
    signature::{EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RsaKeyPair},
};
use serde::Serialize;
use serde_json::{Map, Value};
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, pem::PemObject as _};

use super::{Algorithm, JoseError, Jwk, b64, jwk::KeyMaterial};

/// A private key. It appears neither in `Debug` nor in errors.
///
/// ```
/// use serde_json::json;
/// use wharf_auth::jose::{Algorithm, SigningKey, UnverifiedToken};
///
/// let key = SigningKey::generate()?;
/// let token = key.sign(&json!({"typ": "at+jwt"}), &json!({"sub": "alice"}))?;
/// let claims = UnverifiedToken::parse(&token)?.verify(&key.public_jwk(), &[Algorithm::ES256])?;
/// assert_eq!(claims.text("sub"), Some("alice"));
/// # Ok::<_, wharf_auth::jose::JoseError>(())
/// ```
pub struct SigningKey {
    pair: SigningKeyPair,
    algorithm: Algorithm,
    pkcs8: Vec<u8>,
}

enum SigningKeyPair {
    Rsa(Box<RsaKeyPair>),
    Curve(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

impl SigningKey {
    /// Generates a key for ES256.
    ///
    /// # Errors
    ///
    /// If the system has no random numbers.
    pub fn generate() -> Result<Self, JoseError> {
        let algorithm = Algorithm::ES256;
        let curve = algorithm.ecdsa().ok_or(JoseError::BadKey)?;
        let document = EcdsaKeyPair::generate_pkcs8(curve, &SystemRandom::new())
            .map_err(|_| JoseError::CannotSign)?;
        Self::from_pkcs8(document.as_ref(), algorithm)
    }

    /// Parses a key from PEM: PKCS#8, PKCS#1 (RSA) or SEC1 (elliptic curves).
    ///
    /// # Errors
    ///
    /// If the PEM contains no such key, or the key is not for this algorithm.
    pub fn from_pem(pem: &str, algorithm: Algorithm) -> Result<Self, JoseError> {
        let key =
            PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(JoseError::unreadable_key)?;
        match &key {
            PrivateKeyDer::Pkcs8(der) => Self::from_pkcs8(der.secret_pkcs8_der(), algorithm),
            PrivateKeyDer::Pkcs1(der) => {
                Self::from_pkcs8(&wrap_pkcs8(RSA_IDENTIFIER, der.secret_pkcs1_der()), algorithm)
            }
            PrivateKeyDer::Sec1(der) => {
                let curve = match algorithm {
                    Algorithm::ES256 => P256_IDENTIFIER,
                    Algorithm::ES384 => P384_IDENTIFIER,
                    _ => return Err(JoseError::WrongKey),
                };
                Self::from_pkcs8(&wrap_pkcs8(curve, der.secret_sec1_der()), algorithm)
            }
            _ => Err(JoseError::BadKey),
        }
    }

    /// Parses a key that [`SigningKey::to_pkcs8`] returned.
    ///
    /// # Errors
    ///
    /// If it is not a key, or not for this algorithm.
    pub fn from_pkcs8(pkcs8: &[u8], algorithm: Algorithm) -> Result<Self, JoseError> {
        let pair = match algorithm {
            Algorithm::EdDSA => {
                Ed25519KeyPair::from_pkcs8_maybe_unchecked(pkcs8).map(SigningKeyPair::Ed25519)
            }
            _ => match algorithm.ecdsa() {
                Some(curve) => EcdsaKeyPair::from_pkcs8(curve, pkcs8, &SystemRandom::new())
                    .map(SigningKeyPair::Curve),
                None => {
                    RsaKeyPair::from_pkcs8(pkcs8).map(|pair| SigningKeyPair::Rsa(Box::new(pair)))
                }
            },
        };
        let pair = pair.map_err(|why| JoseError::unreadable_key(why.to_string()))?;
        Ok(SigningKey { pair, algorithm, pkcs8: pkcs8.to_vec() })
    }

    /// The private key in PKCS#8. Store it where only its owner can read it.
    #[must_use]
    pub fn to_pkcs8(&self) -> &[u8] {
        &self.pkcs8
    }

    /// The key's algorithm.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The public key.
    #[must_use]
    pub fn public_jwk(&self) -> Jwk {
        let material = match &self.pair {
            SigningKeyPair::Rsa(pair) => {
                let public = PublicKeyComponents::<Vec<u8>>::from(pair.public());
                KeyMaterial::Rsa { n: public.n, e: public.e }
            }
            SigningKeyPair::Curve(pair) => {
                // The first byte is the tag of an uncompressed point.
                let point = pair.public_key().as_ref().get(1..).unwrap_or_default();
                let (x, y) = point.split_at(point.len() / 2);
                match self.algorithm {
                    Algorithm::ES384 => KeyMaterial::P384 { x: x.to_vec(), y: y.to_vec() },
                    _ => KeyMaterial::P256 { x: x.to_vec(), y: y.to_vec() },
                }
            }
            SigningKeyPair::Ed25519(pair) => {
                KeyMaterial::Ed25519 { x: pair.public_key().as_ref().to_vec() }
            }
        };
        Jwk::new(material, self.algorithm)
    }

    /// Signs a token. `header` holds the header's members beside the algorithm: `typ`, `kid`, `jwk`.
    ///
    /// # Errors
    ///
    /// If the claims are not a JSON object, or signing fails.
    pub fn sign(&self, header: &Value, claims: &impl Serialize) -> Result<String, JoseError> {
        let mut full = match header {
            Value::Object(header) => header.clone(),
            Value::Null => Map::new(),
            _ => return Err(JoseError::Malformed),
        };
        full.insert("alg".to_owned(), Value::from(self.algorithm.name()));
        let claims = serde_json::to_vec(claims).map_err(|_| JoseError::Malformed)?;
        if claims.first() != Some(&b'{') {
            return Err(JoseError::Malformed);
        }
        let mut token = format!("{}.{}", b64(Value::Object(full).to_string()), b64(claims));
        let signature = self.signature(token.as_bytes())?;
        token.push('.');
        token.push_str(&b64(signature));
        Ok(token)
    }

    fn signature(&self, message: &[u8]) -> Result<Vec<u8>, JoseError> {
        let random = SystemRandom::new();
        match &self.pair {
            SigningKeyPair::Rsa(pair) => {
                let encoding = self.algorithm.rsa_encoding().ok_or(JoseError::WrongKey)?;
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(encoding, &random, message, &mut signature)
                    .map_err(|_| JoseError::CannotSign)?;
                Ok(signature)
            }
            SigningKeyPair::Curve(pair) => pair
                .sign(&random, message)
                .map(|signature| signature.as_ref().to_vec())
                .map_err(|_| JoseError::CannotSign),
            SigningKeyPair::Ed25519(pair) => Ok(pair.sign(message).as_ref().to_vec()),
        }
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningKey").field("algorithm", &self.algorithm).finish_non_exhaustive()
    }
}

/// DER sequence of `rsaEncryption` and null.
const RSA_IDENTIFIER: &[u8] =
    &[0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00];
/// DER sequence of `id-ecPublicKey` and `prime256v1`.
const P256_IDENTIFIER: &[u8] = &[
    0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48,
    0xce, 0x3d, 0x03, 0x01, 0x07,
];
/// DER sequence of `id-ecPublicKey` and `secp384r1`.
const P384_IDENTIFIER: &[u8] = &[
    0x30, 0x10, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x05, 0x2b, 0x81, 0x04,
    0x00, 0x22,
];

/// Wraps a key of an older format in PKCS#8, which names the key type.
fn wrap_pkcs8(identifier: &[u8], key: &[u8]) -> Vec<u8> {
    let mut inner = vec![0x02, 0x01, 0x00];
    inner.extend_from_slice(identifier);
    push_der(0x04, key, &mut inner);
    let mut out = Vec::with_capacity(inner.len() + 4);
    push_der(0x30, &inner, &mut out);
    out
}

/// Appends tag, length and content in DER.
fn push_der(tag: u8, content: &[u8], out: &mut Vec<u8>) {
    out.push(tag);
    let length = content.len().to_be_bytes();
    let skipped = length.iter().take_while(|&&byte| byte == 0).count();
    let length = &length[skipped..];
    if content.len() >= 128 {
        out.push(0x80 | length.len() as u8);
    }
    if content.is_empty() {
        out.push(0);
    }
    out.extend_from_slice(length);
    out.extend_from_slice(content);
}
