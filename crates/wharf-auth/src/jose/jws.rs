//! Signed tokens (JWS) before and after verification of their signature.

use std::fmt;

use ring::signature::{self, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm};
use serde::{
    Deserialize, Deserializer,
    de::{Error as _, MapAccess, Visitor},
};
use serde_json::{Map, Value};

use super::{Algorithm, Claims, JoseError, Jwk, jwk::KeyMaterial, unb64};

/// Longest accepted token, in bytes.
pub const MAX_TOKEN: usize = 16 * 1024;

/// Header of a token.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TokenHeader {
    /// `alg`.
    pub algorithm: Algorithm,
    /// `kid`.
    pub kid: Option<String>,
    /// `typ`, such as `at+jwt`.
    pub typ: Option<String>,
    /// Key embedded in the header (`jwk`, RFC 9449). It is not trusted by itself.
    pub jwk: Option<Value>,
}

impl TokenHeader {
    /// Compares `typ` as a media type: `at+jwt` and `application/at+jwt` are equal.
    #[must_use]
    pub fn is_type(&self, wanted: &str) -> bool {
        let typ = self.typ.as_deref().unwrap_or_default().to_ascii_lowercase();
        typ.strip_prefix("application/").unwrap_or(&typ) == wanted
    }
}

/// A token whose signature has not been verified. Its claims may be forged.
///
/// `Debug` omits the token.
pub struct UnverifiedToken<'a> {
    /// Header of the token.
    pub header: TokenHeader,
    /// Claims of the token, not verified.
    pub claims: Claims,
    signed: &'a str,
    signature: Vec<u8>,
}

impl<'a> UnverifiedToken<'a> {
    /// Parses a token without verifying its signature.
    ///
    /// # Errors
    ///
    /// If the token does not consist of three base64url parts with JSON objects in the first two, has a
    /// duplicate member, exceeds [`MAX_TOKEN`], uses `none`, a shared secret or an unknown algorithm, or
    /// has `crit`.
    pub fn parse(token: &'a str) -> Result<Self, JoseError> {
        if token.len() > MAX_TOKEN {
            return Err(JoseError::TooLong);
        }
        let (signed, signature) = token.rsplit_once('.').ok_or(JoseError::Malformed)?;
        let (header, claims) = signed.split_once('.').ok_or(JoseError::Malformed)?;
        let header = object(header)?;
        if header.contains_key("crit") {
            return Err(JoseError::Critical);
        }
        let text = |name: &str| header.get(name).and_then(Value::as_str).map(str::to_owned);
        let algorithm = text("alg").ok_or(JoseError::Malformed)?;
        let algorithm = Algorithm::from_name(&algorithm).ok_or(JoseError::UnknownAlgorithm)?;
        let header = TokenHeader {
            algorithm,
            kid: text("kid"),
            typ: text("typ"),
            jwk: header.get("jwk").cloned(),
        };
        let claims = Claims::from(object(claims)?);
        Ok(UnverifiedToken { header, claims, signed, signature: unb64(signature)? })
    }

    /// Returns the claims if `key` signed the token with one of the allowed algorithms.
    ///
    /// # Errors
    ///
    /// If the algorithm is not allowed, the key is not for it, or the signature is wrong.
    pub fn verify(&self, key: &Jwk, allowed: &[Algorithm]) -> Result<Claims, JoseError> {
        let algorithm = self.header.algorithm;
        if !allowed.contains(&algorithm) {
            return Err(JoseError::AlgorithmNotAllowed);
        }
        if !key.supports(algorithm) {
            return Err(JoseError::WrongKey);
        }
        let verified = match key.material() {
            KeyMaterial::Rsa { n, e } => {
                let parameters = algorithm.rsa_parameters().ok_or(JoseError::WrongKey)?;
                RsaPublicKeyComponents { n, e }.verify(
                    parameters,
                    self.signed.as_bytes(),
                    &self.signature,
                )
            }
            KeyMaterial::P256 { x, y } => {
                self.verify_ecdsa(&signature::ECDSA_P256_SHA256_FIXED, x, y)
            }
            KeyMaterial::P384 { x, y } => {
                self.verify_ecdsa(&signature::ECDSA_P384_SHA384_FIXED, x, y)
            }
            KeyMaterial::Ed25519 { x } => UnparsedPublicKey::new(&signature::ED25519, x)
                .verify(self.signed.as_bytes(), &self.signature),
        };
        verified.map_err(|_| JoseError::BadSignature)?;
        Ok(self.claims.clone())
    }

    fn verify_ecdsa(
        &self,
        algorithm: &'static dyn VerificationAlgorithm,
        x: &[u8],
        y: &[u8],
    ) -> Result<(), ring::error::Unspecified> {
        let point = [&[4], x, y].concat();
        UnparsedPublicKey::new(algorithm, point).verify(self.signed.as_bytes(), &self.signature)
    }
}

impl fmt::Debug for UnverifiedToken<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnverifiedToken").field("header", &self.header).finish_non_exhaustive()
    }
}

fn object(part: &str) -> Result<Map<String, Value>, JoseError> {
    let UniqueMembers(members) =
        serde_json::from_slice(&unb64(part)?).map_err(|_| JoseError::Malformed)?;
    Ok(members)
}

/// Members of an object, without duplicates. RFC 7519 (section 4) allows to use the last duplicate or to
/// reject; a parser that uses the first one would read a different token.
struct UniqueMembers(Map<String, Value>);

impl<'de> Deserialize<'de> for UniqueMembers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MembersVisitor).map(UniqueMembers)
    }
}

struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Map<String, Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Self::Value, A::Error> {
        let mut members = Map::new();
        while let Some((name, value)) = from.next_entry::<String, Value>()? {
            if members.insert(name, value).is_some() {
                return Err(A::Error::custom("a member is repeated"));
            }
        }
        Ok(members)
    }
}
