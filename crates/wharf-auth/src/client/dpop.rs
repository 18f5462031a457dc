//! DPoP proofs of the client (RFC 9449).

use std::collections::HashMap;

use serde_json::{Map, Value, json};
use url::Url;
use wharf_model::{Error, Lock};

use crate::client::{failed, now};
use crate::jose::{Algorithm, SigningKey, b64, random_token, sha256, unb64};

/// Limit of remembered nonces (one per origin), and of a nonce's length.
const MAX_ORIGINS: usize = 64;
const MAX_NONCE_BYTES: usize = 1024;

/// Signs DPoP proofs with one key.
pub(super) struct DpopProver {
    key: SigningKey,
    /// Nonce for the next proof, by origin.
    nonces: Lock<HashMap<String, String>>,
}

impl DpopProver {
    /// Creates a prover with the stored key, or with a new one.
    pub(super) fn new(stored: Option<&str>) -> Result<DpopProver, Error> {
        let stored = stored.and_then(|it| unb64(it).ok());
        let stored = stored.and_then(|it| SigningKey::from_pkcs8(&it, Algorithm::ES256).ok());
        let key = match stored {
            Some(key) => key,
            None => SigningKey::generate().map_err(|error| failed(error.to_string()))?,
        };
        Ok(DpopProver { key, nonces: Lock::default() })
    }

    /// The private key, for the token store.
    pub(super) fn export_key(&self) -> String {
        b64(self.key.to_pkcs8())
    }

    pub(super) fn thumbprint(&self) -> String {
        self.key.public_jwk().thumbprint()
    }

    /// Creates a proof for one request and the token that it sends.
    pub(super) fn sign_proof(
        &self,
        verb: &str,
        url: &str,
        token: Option<&str>,
    ) -> Result<String, Error> {
        let (origin, target) = origin_and_target(url)?;
        let mut claims = Map::new();
        claims.insert("jti".into(), random_token(16).into());
        claims.insert("htm".into(), verb.into());
        claims.insert("htu".into(), target.into());
        claims.insert("iat".into(), now().into());
        if let Some(token) = token {
            claims.insert("ath".into(), b64(sha256(token.as_bytes())).into());
        }
        if let Some(nonce) = self.nonces().get(&origin) {
            claims.insert("nonce".into(), nonce.as_str().into());
        }
        let header = json!({"typ": "dpop+jwt", "jwk": self.key.public_jwk()});
        let proof = self.key.sign(&header, &Value::Object(claims));
        proof.map_err(|error| failed(format!("cannot sign the DPoP proof: {error}")))
    }

    /// Stores the nonce for the origin of `url`.
    pub(super) fn store_nonce(&self, url: &str, nonce: &str) {
        let is_sane =
            nonce.len() <= MAX_NONCE_BYTES && nonce.bytes().all(|it| it.is_ascii_graphic());
        let Ok((origin, _)) = origin_and_target(url) else { return };
        let mut nonces = self.nonces();
        if is_sane && (nonces.len() < MAX_ORIGINS || nonces.contains_key(&origin)) {
            nonces.insert(origin, nonce.to_owned());
        }
    }

    fn nonces(&self) -> std::sync::MutexGuard<'_, HashMap<String, String>> {
        self.nonces.lock()
    }
}

/// Splits a URL into its origin and the value of `htu` (no query, no fragment).
fn origin_and_target(url: &str) -> Result<(String, String), Error> {
    let mut url = Url::parse(url)
        .map_err(|error| failed(format!("cannot create a DPoP proof: invalid URL: {error}")))?;
    url.set_query(None);
    url.set_fragment(None);
    Ok((url.origin().ascii_serialization(), url.to_string()))
}
