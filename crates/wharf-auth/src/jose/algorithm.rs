//! Signature algorithms.

use ring::signature::{self, EcdsaSigningAlgorithm, RsaEncoding, RsaParameters};
use serde::{Deserialize, Serialize};

/// Signature algorithm of a token.
///
/// ```
/// use wharf_auth::jose::Algorithm;
///
/// assert_eq!(Algorithm::from_name("ES256"), Some(Algorithm::ES256));
/// assert_eq!(Algorithm::from_name("none"), None);
/// assert_eq!(Algorithm::from_name("HS256"), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Algorithm {
    /// RSA PKCS#1 v1.5 with SHA-256.
    RS256,
    /// RSA PKCS#1 v1.5 with SHA-384.
    RS384,
    /// RSA PKCS#1 v1.5 with SHA-512.
    RS512,
    /// RSA PSS with SHA-256.
    PS256,
    /// RSA PSS with SHA-384.
    PS384,
    /// RSA PSS with SHA-512.
    PS512,
    /// ECDSA on P-256 with SHA-256.
    ES256,
    /// ECDSA on P-384 with SHA-384.
    ES384,
    /// Ed25519.
    EdDSA,
}

/// Key type that an algorithm requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyFamily {
    Rsa,
    P256,
    P384,
    Ed25519,
}

impl Algorithm {
    /// All supported algorithms.
    pub const ALL: &'static [Algorithm] = &[
        Algorithm::RS256,
        Algorithm::RS384,
        Algorithm::RS512,
        Algorithm::PS256,
        Algorithm::PS384,
        Algorithm::PS512,
        Algorithm::ES256,
        Algorithm::ES384,
        Algorithm::EdDSA,
    ];

    /// The algorithm's name in headers and metadata.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::RS256 => "RS256",
            Algorithm::RS384 => "RS384",
            Algorithm::RS512 => "RS512",
            Algorithm::PS256 => "PS256",
            Algorithm::PS384 => "PS384",
            Algorithm::PS512 => "PS512",
            Algorithm::ES256 => "ES256",
            Algorithm::ES384 => "ES384",
            Algorithm::EdDSA => "EdDSA",
        }
    }

    /// Finds an algorithm by name. `Ed25519` (RFC 9864) is an alias of `EdDSA` here.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        if name == "Ed25519" {
            return Some(Algorithm::EdDSA);
        }
        Algorithm::ALL.iter().copied().find(|algorithm| algorithm.name() == name)
    }

    pub(super) fn family(self) -> KeyFamily {
        match self {
            Algorithm::ES256 => KeyFamily::P256,
            Algorithm::ES384 => KeyFamily::P384,
            Algorithm::EdDSA => KeyFamily::Ed25519,
            _ => KeyFamily::Rsa,
        }
    }

    /// Parameters for verifying an RSA signature.
    pub(super) fn rsa_parameters(self) -> Option<&'static RsaParameters> {
        Some(match self {
            Algorithm::RS256 => &signature::RSA_PKCS1_2048_8192_SHA256,
            Algorithm::RS384 => &signature::RSA_PKCS1_2048_8192_SHA384,
            Algorithm::RS512 => &signature::RSA_PKCS1_2048_8192_SHA512,
            Algorithm::PS256 => &signature::RSA_PSS_2048_8192_SHA256,
            Algorithm::PS384 => &signature::RSA_PSS_2048_8192_SHA384,
            Algorithm::PS512 => &signature::RSA_PSS_2048_8192_SHA512,
            _ => return None,
        })
    }

    /// Encoding for creating an RSA signature.
    pub(super) fn rsa_encoding(self) -> Option<&'static dyn RsaEncoding> {
        Some(match self {
            Algorithm::RS256 => &signature::RSA_PKCS1_SHA256,
            Algorithm::RS384 => &signature::RSA_PKCS1_SHA384,
            Algorithm::RS512 => &signature::RSA_PKCS1_SHA512,
            Algorithm::PS256 => &signature::RSA_PSS_SHA256,
            Algorithm::PS384 => &signature::RSA_PSS_SHA384,
            Algorithm::PS512 => &signature::RSA_PSS_SHA512,
            _ => return None,
        })
    }

    /// Algorithm for creating an ECDSA signature.
    pub(super) fn ecdsa(self) -> Option<&'static EcdsaSigningAlgorithm> {
        match self {
            Algorithm::ES256 => Some(&signature::ECDSA_P256_SHA256_FIXED_SIGNING),
            Algorithm::ES384 => Some(&signature::ECDSA_P384_SHA384_FIXED_SIGNING),
            _ => None,
        }
    }
}
