//! Tokens, keys and signatures: JSON Web Tokens (RFC 7519), their signatures (RFC 7515) and keys
//! (RFC 7517), on `ring`.
//!
//! Only signatures with public keys exist here. There is no `none` and there are no shared secrets, so
//! that a public key can never be mistaken for one.

mod algorithm;
mod claims;
mod jwk;
mod signing;
mod token;

use std::fmt;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::{
    digest, hmac,
    rand::{SecureRandom as _, SystemRandom},
};

pub use algorithm::Algorithm;
pub use claims::Claims;
pub use jwk::{Jwk, JwkSet};
pub use signing::SigningKey;
pub use token::{Header, MAX_TOKEN, Unverified};

/// Why a token, a key or a signature is not taken. It never repeats the token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum JoseError {
    /// Not three parts of base64url, or not JSON objects.
    Malformed,
    /// Longer than [`MAX_TOKEN`].
    TooLong,
    /// Signed with an algorithm that nobody here knows: `none`, a shared secret, or something new.
    UnknownAlgorithm,
    /// Signed with an algorithm that is known, but not allowed here.
    AlgorithmNotAllowed,
    /// The header names extensions that must be understood, and are not.
    Critical,
    /// The key is broken, too weak, or of a kind that nobody here knows.
    BadKey,
    /// The key is not for this algorithm, or not for signatures.
    WrongKey,
    /// The signature is not this key's.
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
            JoseError::BadKey => "the key is broken, too weak or of an unsupported kind",
            JoseError::WrongKey => "the key is not for this signature",
            JoseError::BadSignature => "the signature is wrong",
            JoseError::CannotSign => "signing failed",
        })
    }
}

impl std::error::Error for JoseError {}

/// Bytes in base64url without padding.
#[must_use]
pub fn b64(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The bytes of base64url without padding.
///
/// # Errors
///
/// Anything else.
pub fn unb64(text: &str) -> Result<Vec<u8>, JoseError> {
    URL_SAFE_NO_PAD.decode(text).map_err(|_| JoseError::Malformed)
}

/// So many random bytes, in base64url: a state, a verifier, an identifier that cannot be guessed.
///
/// # Panics
///
/// If the system has no random numbers: nothing secret could be made.
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

/// Whether both are the same, in a time that tells nothing about where they differ.
#[must_use]
pub fn same(a: &[u8], b: &[u8]) -> bool {
    let key = hmac::Key::new(hmac::HMAC_SHA256, &[0; 32]);
    hmac::verify(&key, b, hmac::sign(&key, a).as_ref()).is_ok()
}
