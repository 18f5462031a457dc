//! Private keys, and what is signed with them.

use std::fmt;

use ring::{
    rand::SystemRandom,
    rsa::PublicKeyComponents,
    signature::{EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RsaKeyPair},
};
use serde::Serialize;
use serde_json::{Map, Value};
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, pem::PemObject as _};

use super::{Algorithm, JoseError, Jwk, b64, jwk::Material};

/// A private key. It is neither in its `Debug` nor in any error.
///
/// ```
/// use serde_json::json;
/// use wharf_auth::jose::{Algorithm, SigningKey, Unverified};
///
/// let key = SigningKey::generate()?;
/// let token = key.sign(&json!({"typ": "at+jwt"}), &json!({"sub": "alice"}))?;
/// let claims = Unverified::parse(&token)?.verify(&key.public_jwk(), &[Algorithm::ES256])?;
/// assert_eq!(claims.text("sub"), Some("alice"));
/// # Ok::<_, wharf_auth::jose::JoseError>(())
/// ```
pub struct SigningKey {
    pair: Pair,
    algorithm: Algorithm,
    pkcs8: Vec<u8>,
}

enum Pair {
    Rsa(Box<RsaKeyPair>),
    Curve(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

impl SigningKey {
    /// A new key, for ES256.
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

    /// A key from a PEM file: PKCS#8, or the older formats of RSA and of elliptic curves.
    ///
    /// # Errors
    ///
    /// When there is no such key in it, or when it is not for this algorithm.
    pub fn from_pem(pem: &str, algorithm: Algorithm) -> Result<Self, JoseError> {
        let key = PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(|_| JoseError::BadKey)?;
        match &key {
            PrivateKeyDer::Pkcs8(der) => Self::from_pkcs8(der.secret_pkcs8_der(), algorithm),
            PrivateKeyDer::Pkcs1(der) => {
                Self::from_pkcs8(&wrapped(RSA_IDENTIFIER, der.secret_pkcs1_der()), algorithm)
            }
            PrivateKeyDer::Sec1(der) => {
                let curve = match algorithm {
                    Algorithm::ES256 => P256_IDENTIFIER,
                    Algorithm::ES384 => P384_IDENTIFIER,
                    _ => return Err(JoseError::WrongKey),
                };
                Self::from_pkcs8(&wrapped(curve, der.secret_sec1_der()), algorithm)
            }
            _ => Err(JoseError::BadKey),
        }
    }

    /// A key as [`SigningKey::to_pkcs8`] wrote it.
    ///
    /// # Errors
    ///
    /// When it is no key, or not for this algorithm.
    pub fn from_pkcs8(pkcs8: &[u8], algorithm: Algorithm) -> Result<Self, JoseError> {
        let pair = match algorithm {
            Algorithm::EdDSA => {
                Ed25519KeyPair::from_pkcs8_maybe_unchecked(pkcs8).map(Pair::Ed25519)
            }
            _ => match algorithm.ecdsa() {
                Some(curve) => {
                    EcdsaKeyPair::from_pkcs8(curve, pkcs8, &SystemRandom::new()).map(Pair::Curve)
                }
                None => RsaKeyPair::from_pkcs8(pkcs8).map(|pair| Pair::Rsa(Box::new(pair))),
            },
        };
        let pair = pair.map_err(|_| JoseError::BadKey)?;
        Ok(SigningKey { pair, algorithm, pkcs8: pkcs8.to_vec() })
    }

    /// The key itself, to be kept where nobody else reads it.
    #[must_use]
    pub fn to_pkcs8(&self) -> &[u8] {
        &self.pkcs8
    }

    /// What it signs with.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The public half, which anybody may see.
    #[must_use]
    pub fn public_jwk(&self) -> Jwk {
        let material = match &self.pair {
            Pair::Rsa(pair) => {
                let public = PublicKeyComponents::<Vec<u8>>::from(pair.public());
                Material::Rsa { n: public.n, e: public.e }
            }
            Pair::Curve(pair) => {
                // One byte that says that both coordinates follow.
                let point = pair.public_key().as_ref().get(1..).unwrap_or_default();
                let (x, y) = point.split_at(point.len() / 2);
                match self.algorithm {
                    Algorithm::ES384 => Material::P384 { x: x.to_vec(), y: y.to_vec() },
                    _ => Material::P256 { x: x.to_vec(), y: y.to_vec() },
                }
            }
            Pair::Ed25519(pair) => Material::Ed25519 { x: pair.public_key().as_ref().to_vec() },
        };
        Jwk::new(material, self.algorithm)
    }

    /// A signed token. `header` has what its header says beside the algorithm: `typ`, `kid`, `jwk`.
    ///
    /// # Errors
    ///
    /// When the claims are no JSON object, or when signing fails.
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
            Pair::Rsa(pair) => {
                let encoding = self.algorithm.rsa_encoding().ok_or(JoseError::WrongKey)?;
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(encoding, &random, message, &mut signature)
                    .map_err(|_| JoseError::CannotSign)?;
                Ok(signature)
            }
            Pair::Curve(pair) => pair
                .sign(&random, message)
                .map(|signature| signature.as_ref().to_vec())
                .map_err(|_| JoseError::CannotSign),
            Pair::Ed25519(pair) => Ok(pair.sign(message).as_ref().to_vec()),
        }
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningKey").field("algorithm", &self.algorithm).finish_non_exhaustive()
    }
}

/// The sequence of `rsaEncryption` and null.
const RSA_IDENTIFIER: &[u8] =
    &[0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00];
/// The sequence of `id-ecPublicKey` and `prime256v1`.
const P256_IDENTIFIER: &[u8] = &[
    0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48,
    0xce, 0x3d, 0x03, 0x01, 0x07,
];
/// The sequence of `id-ecPublicKey` and `secp384r1`.
const P384_IDENTIFIER: &[u8] = &[
    0x30, 0x10, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x05, 0x2b, 0x81, 0x04,
    0x00, 0x22,
];

/// A key of an older format in the frame of PKCS#8, which says what kind of key it is.
fn wrapped(identifier: &[u8], key: &[u8]) -> Vec<u8> {
    let mut inner = vec![0x02, 0x01, 0x00];
    inner.extend_from_slice(identifier);
    tagged(0x04, key, &mut inner);
    let mut out = Vec::with_capacity(inner.len() + 4);
    tagged(0x30, &inner, &mut out);
    out
}

/// Tag, length and content, in DER.
fn tagged(tag: u8, content: &[u8], out: &mut Vec<u8>) {
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
