//! JSON Object Signing and Encryption on `ring`: JWT (RFC 7519), JWS (RFC 7515) and JWK (RFC 7517).
//!
//! Only asymmetric signatures are supported. `none` and shared secrets do not exist here, so a public key
//! can never be used as an HMAC secret (algorithm confusion).
//!
//! These are 700 lines on `ring`, which TLS needs anyway. The crate `jsonwebtoken` 11 no longer supports
//! `ring`: it would add 16 crates with `aws-lc`, a second C library for cryptography, or 47 with
//! RustCrypto, and save some 500 lines.

mod algorithm;
mod claims;
mod jwk;
mod jws;
mod signing;

use std::{fmt, sync::Arc};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::{
    digest, hmac,
    rand::{SecureRandom as _, SystemRandom},
};

pub use algorithm::Algorithm;
pub use claims::Claims;
pub use jwk::{Jwk, JwkSet};
pub use jws::{MAX_TOKEN, TokenHeader, UnverifiedToken};
pub use signing::SigningKey;

/// Error of a token, key or signature. It never contains the token.
///
/// ```
/// use std::error::Error as _;
/// use wharf_auth::jose::{Algorithm, SigningKey};
///
/// let error = SigningKey::from_pem("nonsense", Algorithm::ES256).unwrap_err();
/// assert!(error.source().is_some());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum JoseError {
    /// Not three base64url parts, or not JSON objects.
    Malformed,
    /// Longer than [`MAX_TOKEN`].
    TooLong,
    /// The algorithm is not supported: `none`, a shared secret, or unknown.
    UnknownAlgorithm,
    /// The algorithm is supported, but not allowed here.
    AlgorithmNotAllowed,
    /// The header requires extensions (`crit`), which are not supported.
    Critical,
    /// The key is malformed, too weak, or of an unsupported type.
    BadKey,
    /// The private key is malformed, too weak, or of an unsupported type, as its source says.
    UnreadableKey(KeyProblem),
    /// The key is not for this algorithm, or not for signatures.
    WrongKey,
    /// The signature does not match the key.
    BadSignature,
    /// Signing failed.
    CannotSign,
}

impl fmt::Display for JoseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            JoseError::Malformed => "the token is malformed",
            JoseError::TooLong => "the token is too long",
            JoseError::UnknownAlgorithm => "the token's algorithm is not supported",
            JoseError::AlgorithmNotAllowed => "the token's algorithm is not allowed",
            JoseError::Critical => "the token needs extensions that are not supported",
            JoseError::BadKey | JoseError::UnreadableKey(_) => {
                "the key is malformed, too weak or of an unsupported type"
            }
            JoseError::WrongKey => "the key is not for this signature",
            JoseError::BadSignature => "the signature is wrong",
            JoseError::CannotSign => "signing failed",
        })
    }
}

impl std::error::Error for JoseError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            JoseError::UnreadableKey(KeyProblem(source)) => Some(&**source),
            _ => None,
        }
    }
}

/// Error of the parser of a private key, the source of [`JoseError::UnreadableKey`].
#[derive(Clone, Debug)]
pub struct KeyProblem(Arc<dyn std::error::Error + Send + Sync>);

/// Compares the texts.
impl PartialEq for KeyProblem {
    fn eq(&self, other: &Self) -> bool {
        self.0.to_string() == other.0.to_string()
    }
}

impl Eq for KeyProblem {}

impl JoseError {
    fn unreadable_key(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        JoseError::UnreadableKey(KeyProblem(Arc::from(source.into())))
    }
}

/// Encodes bytes as base64url without padding.
#[must_use]
pub fn b64(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Decodes base64url without padding.
///
/// # Errors
///
/// If the input is anything else.
pub fn unb64(text: &str) -> Result<Vec<u8>, JoseError> {
    URL_SAFE_NO_PAD.decode(text).map_err(|_| JoseError::Malformed)
}

/// Returns random bytes in base64url: for a `state`, a PKCE verifier, or an identifier that cannot be
/// guessed.
///
/// # Panics
///
/// If the system has no random numbers: no secret could be generated.
#[must_use]
pub fn random_token(bytes: usize) -> String {
    let mut random = vec![0; bytes];
    assert!(SystemRandom::new().fill(&mut random).is_ok(), "the system has no random numbers");
    b64(random)
}

/// The SHA-256 digest.
#[must_use]
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut out = [0; 32];
    out.copy_from_slice(digest::digest(&digest::SHA256, bytes).as_ref());
    out
}

/// Compares in constant time.
#[must_use]
pub fn constant_time_eq(a: &[u8], b: &[u8]) -> bool {
    let key = hmac::Key::new(hmac::HMAC_SHA256, &[0; 32]);
    hmac::verify(&key, b, hmac::sign(&key, a).as_ref()).is_ok()
}
