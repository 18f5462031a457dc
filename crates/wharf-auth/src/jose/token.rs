//! Signed tokens, before and after their signature is checked.

use std::fmt;

use ring::signature::{self, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm};
use serde::{
    Deserialize, Deserializer,
    de::{Error as _, MapAccess, Visitor},
};
use serde_json::{Map, Value};

use super::{Algorithm, Claims, JoseError, Jwk, jwk::Material, unb64};

/// The longest token that is read.
pub const MAX_TOKEN: usize = 16 * 1024;

/// What a token's header says.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Header {
    /// How it says to be signed.
    pub algorithm: Algorithm,
    /// Which key it says to be signed with.
    pub kid: Option<String>,
    /// What kind of token it says to be, such as `at+jwt`.
    pub typ: Option<String>,
    /// A key that came along with it (RFC 9449), which nobody vouches for.
    pub jwk: Option<Value>,
}

impl Header {
    /// Whether `typ` says this, however it is written: `at+jwt` and `application/at+jwt` are the same.
    #[must_use]
    pub fn is_type(&self, wanted: &str) -> bool {
        let typ = self.typ.as_deref().unwrap_or_default().to_ascii_lowercase();
        typ.strip_prefix("application/").unwrap_or(&typ) == wanted
    }
}

/// A token whose signature nobody has checked yet: what it says may be a lie.
///
/// Its `Debug` shows nothing of the token.
pub struct Unverified<'a> {
    /// What its header says.
    pub header: Header,
    /// What it says.
    pub claims: Claims,
    signed: &'a str,
    signature: Vec<u8>,
}

impl<'a> Unverified<'a> {
    /// Reads a token without believing it.
    ///
    /// # Errors
    ///
    /// Anything that is not three parts of base64url with JSON objects in the first two, has a header or a claim
    /// twice, is longer than [`MAX_TOKEN`], is signed by `none`, a shared secret or an unknown algorithm, or has
    /// `crit`.
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
        let header = Header {
            algorithm,
            kid: text("kid"),
            typ: text("typ"),
            jwk: header.get("jwk").cloned(),
        };
        let claims = Claims::from(object(claims)?);
        Ok(Unverified { header, claims, signed, signature: unb64(signature)? })
    }

    /// What it says, if this key signed it by one of these algorithms.
    ///
    /// # Errors
    ///
    /// Other algorithms, keys that are not for them, and signatures that are not this key's.
    pub fn verify(&self, key: &Jwk, allowed: &[Algorithm]) -> Result<Claims, JoseError> {
        let algorithm = self.header.algorithm;
        if !allowed.contains(&algorithm) {
            return Err(JoseError::AlgorithmNotAllowed);
        }
        if !key.fits(algorithm) {
            return Err(JoseError::WrongKey);
        }
        let verdict = match key.material() {
            Material::Rsa { n, e } => {
                let parameters = algorithm.rsa_parameters().ok_or(JoseError::WrongKey)?;
                RsaPublicKeyComponents { n, e }.verify(
                    parameters,
                    self.signed.as_bytes(),
                    &self.signature,
                )
            }
            Material::P256 { x, y } => self.on_curve(&signature::ECDSA_P256_SHA256_FIXED, x, y),
            Material::P384 { x, y } => self.on_curve(&signature::ECDSA_P384_SHA384_FIXED, x, y),
            Material::Ed25519 { x } => UnparsedPublicKey::new(&signature::ED25519, x)
                .verify(self.signed.as_bytes(), &self.signature),
        };
        verdict.map_err(|_| JoseError::BadSignature)?;
        Ok(self.claims.clone())
    }

    fn on_curve(
        &self,
        algorithm: &'static dyn VerificationAlgorithm,
        x: &[u8],
        y: &[u8],
    ) -> Result<(), ring::error::Unspecified> {
        let point = [&[4], x, y].concat();
        UnparsedPublicKey::new(algorithm, point).verify(self.signed.as_bytes(), &self.signature)
    }
}

impl fmt::Debug for Unverified<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unverified").field("header", &self.header).finish_non_exhaustive()
    }
}

fn object(part: &str) -> Result<Map<String, Value>, JoseError> {
    let Members(members) =
        serde_json::from_slice(&unb64(part)?).map_err(|_| JoseError::Malformed)?;
    Ok(members)
}

/// The members of an object, each of them once. RFC 7519 (4) allows to take the last of two, or neither: programs that
/// take the first would read another token.
struct Members(Map<String, Value>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Reader).map(Members)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Map<String, Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Self::Value, A::Error> {
        let mut members = Map::new();
        while let Some((name, value)) = from.next_entry::<String, Value>()? {
            if members.insert(name, value).is_some() {
                return Err(A::Error::custom("a member is there twice"));
            }
        }
        Ok(members)
    }
}
