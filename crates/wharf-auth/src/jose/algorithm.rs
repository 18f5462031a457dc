//! The algorithms that signatures may have.

use ring::signature::{self, EcdsaSigningAlgorithm, RsaEncoding, RsaParameters};
use serde::{Deserialize, Serialize};

/// How a token is signed.
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

/// What kind of key an algorithm needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    Rsa,
    P256,
    P384,
    Ed25519,
}

impl Algorithm {
    /// Every algorithm there is.
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

    /// Its name in headers and metadata.
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

    /// The algorithm with this name. `Ed25519` (RFC 9864) is another name of `EdDSA` here.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        if name == "Ed25519" {
            return Some(Algorithm::EdDSA);
        }
        Algorithm::ALL.iter().copied().find(|algorithm| algorithm.name() == name)
    }

    pub(super) fn family(self) -> Family {
        match self {
            Algorithm::ES256 => Family::P256,
            Algorithm::ES384 => Family::P384,
            Algorithm::EdDSA => Family::Ed25519,
            _ => Family::Rsa,
        }
    }

    /// How a signature with an RSA key is verified.
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

    /// How a signature with an RSA key is made.
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

    /// How a signature with a key on a curve is made.
    pub(super) fn ecdsa(self) -> Option<&'static EcdsaSigningAlgorithm> {
        match self {
            Algorithm::ES256 => Some(&signature::ECDSA_P256_SHA256_FIXED_SIGNING),
            Algorithm::ES384 => Some(&signature::ECDSA_P384_SHA384_FIXED_SIGNING),
            _ => None,
        }
    }
}
